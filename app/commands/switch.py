"""`redpacket switch`: turn grabs, creations or one packet off and on, on every process."""

from typing import Any

from app.auth.packet_ids import PacketIds
from app.control.switches import CREATIONS, GRABS, Switches, packet_switch
from app.store.times import read_ms


def switch_name(what: str, packet_ids: PacketIds) -> str:
    """The switch of `grabs`, `creations` or a packet's id. Raises ForgedPacketId."""
    if what in (GRABS, CREATIONS):
        return what
    return packet_switch(packet_ids.read(what))


async def switch(switches: Switches, name: str, *, off: bool, reason: str) -> None:
    if off:
        await switches.turn_off(name, reason)
    else:
        await switches.turn_on(name)


async def listed(switches: Switches) -> list[dict[str, Any]]:
    return [
        {"name": row["name"], "reason": row["reason"], "since_ms": read_ms(row["since"])}
        for row in await switches.listed()
    ]
