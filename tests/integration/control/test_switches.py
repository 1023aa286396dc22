"""Switches: thrown by one process, seen by another; off twice keeps when it began."""

from app.control.switches import CREATIONS, GRABS, MAX_REASON, Switches, packet_switch
from app.store.database import Database
from lua.ids import PacketId


async def test_what_one_process_turns_off_another_sees(database: Database) -> None:
    operator, server = Switches(database), Switches(database)
    await server.refresh()
    assert server.off == frozenset()

    for name in (GRABS, CREATIONS, packet_switch(PacketId(2**63 - 1))):
        await operator.turn_off(name, "")
    await server.refresh()
    assert server.off == {"grabs", "creations", "packet:9223372036854775807"}

    await operator.turn_on(GRABS)
    await operator.turn_on(GRABS)
    await server.refresh()
    assert server.off == {"creations", "packet:9223372036854775807"}


async def test_off_again_changes_the_reason_and_not_the_time(database: Database) -> None:
    switches = Switches(database)
    await switches.turn_off(GRABS, "first")
    [before] = await switches.listed()

    await switches.turn_off(GRABS, "第二" * MAX_REASON)

    [after] = await switches.listed()
    assert before["reason"] == "first"
    assert after["reason"] == ("第二" * MAX_REASON)[:MAX_REASON]
    assert after["since"] == before["since"]
