"""open.lua: only what agrees with the books opens."""

import pytest

from lua.replies import GrabStatus, Opened, OpenStatus
from splitter.money import Fen
from tests.integration.lua.lab import FAR_AHEAD_MS, LONG_AGO_MS, PACKET, Lab, fen

AMOUNTS = [30, 10, 50]


async def open_as(lab: Lab, shares: int = 3, total_fen: int = 90) -> Opened:
    return await lab.scripts.open(
        PACKET,
        shares=shares,
        total_fen=Fen(total_fen),
        opens_at_ms=LONG_AGO_MS,
        expires_at_ms=FAR_AHEAD_MS,
    )


async def refused(lab: Lab, shares: int = 3, total_fen: int = 90) -> Opened:
    """The answer of an opening that must leave everything as it is."""
    before = await lab.snapshot()
    opened = await open_as(lab, shares, total_fen)
    assert await lab.snapshot() == before
    return opened


async def test_loaded_packet_opens_with_its_terms(lab: Lab) -> None:
    await lab.load(AMOUNTS)
    assert await open_as(lab) == Opened(OpenStatus.OK, 3, Fen(90))
    assert await lab.run("HGETALL", lab.of().meta) == {
        "state": "open",
        "loaded_fen": "90",
        "shares": "3",
        "total_fen": "90",
        "opens_at_ms": str(LONG_AGO_MS),
        "expires_at_ms": str(FAR_AHEAD_MS),
        "tie_factor": "4",
    }
    assert await lab.remaining() == ["1:30", "2:10", "3:50"]


@pytest.mark.parametrize("shares", [2, 4])
async def test_packet_with_another_count_stays_shut(lab: Lab, shares: int) -> None:
    await lab.load(AMOUNTS)
    assert await refused(lab, shares=shares) == Opened(OpenStatus.MISMATCH, 3, Fen(90))
    assert await lab.grab_status("ann") is GrabStatus.LOADING


@pytest.mark.parametrize("total_fen", [89, 91])
async def test_packet_with_another_sum_stays_shut(lab: Lab, total_fen: int) -> None:
    await lab.load(AMOUNTS)
    assert await refused(lab, total_fen=total_fen) == Opened(OpenStatus.MISMATCH, 3, Fen(90))
    assert await lab.grab_status("ann") is GrabStatus.LOADING


async def test_packet_that_was_refused_opens_once_it_is_complete(lab: Lab) -> None:
    await lab.scripts.load(PACKET, 3, 0, fen(AMOUNTS[:2]))
    assert await refused(lab) == Opened(OpenStatus.MISMATCH, 2, Fen(40))
    await lab.scripts.load(PACKET, 3, 2, fen(AMOUNTS[2:]))
    assert await open_as(lab) == Opened(OpenStatus.OK, 3, Fen(90))


async def test_packet_that_was_never_loaded_does_not_open(lab: Lab) -> None:
    assert await refused(lab) == Opened(OpenStatus.MISMATCH, 0, Fen(0))
    assert await refused(lab, shares=0, total_fen=0) == Opened(OpenStatus.MISMATCH, 0, Fen(0))
    assert await lab.snapshot() == {}


async def test_packet_that_somebody_already_claimed_from_does_not_open(lab: Lab) -> None:
    await lab.load(AMOUNTS)
    await lab.run("HSET", lab.of().claims, "ann", "1:30:1")
    assert await refused(lab) == Opened(OpenStatus.MISMATCH, 3, Fen(90))


async def test_packet_with_a_board_already_does_not_open(lab: Lab) -> None:
    await lab.load(AMOUNTS)
    await lab.run("ZADD", lab.of().board, 1, "ann")
    assert await refused(lab) == Opened(OpenStatus.MISMATCH, 3, Fen(90))


async def test_opening_again_changes_nothing(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    assert await refused(lab) == Opened(OpenStatus.ALREADY_OPEN, 3, Fen(90))
    await lab.grab("ann")
    assert await refused(lab) == Opened(OpenStatus.ALREADY_OPEN, 2, Fen(90))


async def test_closed_packet_does_not_open_again(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    await lab.close(claimed=0, remaining=3)
    assert await refused(lab) == Opened(OpenStatus.ALREADY_OPEN, 3, Fen(90))
    assert await lab.state() == "closed"
