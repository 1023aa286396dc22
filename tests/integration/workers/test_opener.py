"""Packets whose process died between funding and opening are opened by somebody else."""

import pytest

from app.packets.terms import terms_of
from app.store.models import Packet
from lua.ids import PacketId
from splitter.money import Fen
from tests.eventually import eventually
from tests.integration.workers.lab import Lab, running
from workers.opener import GRACE_MS, Opener


def opener(lab: Lab, packets_per_page: int = 100) -> Opener:
    return Opener(lab.services.database, lab.services.opener, packets_per_page=packets_per_page)


async def overdue_packet(lab: Lab, shares: int = 5) -> Packet:
    """As a process leaves it that died right after the funding transaction."""
    packet = await lab.packet(shares, opened=False)
    await lab.services.database.transaction(
        lambda work: work.run(
            "UPDATE packet SET created_at = '2026-01-01 00:00:00' WHERE id = %s", [packet.id]
        )
    )
    return packet


async def state(lab: Lab, packet: Packet) -> str:
    found = await lab.services.database.read(lambda: Packet.get(id=packet.id))
    return found.state


async def test_an_overdue_packet_is_opened_and_can_be_grabbed(lab: Lab) -> None:
    packet = await overdue_packet(lab)

    async with running(opener(lab)):

        async def is_open() -> bool:
            return await state(lab, packet) == "open"

        await eventually(is_open, what="an open packet")

    [grab] = await lab.grab(packet, "ann")
    assert grab.amount_fen > 0


async def test_a_packet_that_was_just_funded_is_left_to_its_own_process(lab: Lab) -> None:
    packet = await lab.packet(5, opened=False)

    assert await opener(lab).open_overdue() == 0

    assert await state(lab, packet) == "funded"
    assert GRACE_MS > 0


@pytest.mark.parametrize("loaded", [0, 1000, 2500])
async def test_a_packet_that_died_while_loading_is_loaded_on_and_opened(
    lab: Lab, loaded: int
) -> None:
    shares = 2500
    packet = await overdue_packet(lab, shares)
    amounts = await lab.services.opener._splitting.amounts(terms_of(packet), bytes(packet.seed))
    if loaded:
        for offset in range(0, loaded, 1000):
            chunk = amounts[offset : min(offset + 1000, loaded)]
            await lab.services.scripts.load(PacketId(packet.id), shares, offset, chunk)

    assert await opener(lab).open_overdue() == 1

    counts = await lab.services.live.counts(PacketId(packet.id))
    assert counts == (0, shares)


async def test_packets_that_cannot_be_opened_hide_none_behind_them(lab: Lab) -> None:
    broken = [await overdue_packet(lab) for _ in range(5)]
    for packet in broken:
        # Redis holds a share that the split does not know.
        await lab.services.scripts.load(PacketId(packet.id), 5, 0, [Fen(1)] * 5)
    good = [await overdue_packet(lab) for _ in range(3)]

    assert await opener(lab, packets_per_page=2).open_overdue() == 3

    assert [await state(lab, packet) for packet in good] == ["open"] * 3
    assert [await state(lab, packet) for packet in broken] == ["funded"] * 5


async def test_two_openers_at_once_open_each_packet_once(lab: Lab) -> None:
    packets = [await overdue_packet(lab) for _ in range(4)]

    async with running(opener(lab), opener(lab)):

        async def all_open() -> bool:
            return {await state(lab, packet) for packet in packets} == {"open"}

        await eventually(all_open, what="open packets")

    for packet in packets:
        assert await lab.services.live.counts(PacketId(packet.id)) == (0, 5)
