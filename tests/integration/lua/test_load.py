"""load.lua: shares arrive in chunks, once, however often a chunk is sent."""

import pytest

from lua.replies import GrabStatus, Loaded, LoadStatus, OpenStatus
from lua.scripts import MAX_SHARES_PER_LOAD
from splitter.money import Fen
from tests.integration.lua.lab import FAR_AHEAD_MS, LONG_AGO_MS, PACKET, Lab, fen

AMOUNTS = [30, 10, 50, 20, 40]
# With three shares a score is amount * 4 + 3 - seq, and must stay below 2**53.
HIGHEST_OF_THREE = 2**51 - 1


async def send(lab: Lab, offset: int, count: int) -> Loaded:
    return await lab.scripts.load(
        PACKET, len(AMOUNTS), offset, fen(AMOUNTS[offset : offset + count])
    )


async def test_chunks_become_one_list_of_numbered_shares(lab: Lab) -> None:
    assert await send(lab, 0, 2) == Loaded(LoadStatus.OK, 2)
    assert await send(lab, 2, 1) == Loaded(LoadStatus.OK, 3)
    assert await send(lab, 3, 2) == Loaded(LoadStatus.OK, 5)
    assert await lab.remaining() == ["1:30", "2:10", "3:50", "4:20", "5:40"]
    assert await lab.run("HGETALL", lab.of().meta) == {"state": "loading", "loaded_fen": "150"}
    assert set(await lab.snapshot()) == {lab.of().meta, lab.of().shares}


async def test_repeated_chunk_changes_nothing(lab: Lab) -> None:
    await send(lab, 0, 2)
    await send(lab, 2, 2)
    before = await lab.snapshot()
    assert await send(lab, 2, 2) == Loaded(LoadStatus.OK, 4)
    assert await send(lab, 0, 2) == Loaded(LoadStatus.OK, 4)
    assert await send(lab, 1, 2) == Loaded(LoadStatus.OK, 4)
    assert await lab.snapshot() == before


async def test_loading_from_the_start_again_completes_what_was_interrupted(lab: Lab) -> None:
    await send(lab, 0, 2)
    assert await send(lab, 0, 2) == Loaded(LoadStatus.OK, 2)
    assert await send(lab, 2, 3) == Loaded(LoadStatus.OK, 5)
    assert await lab.remaining() == ["1:30", "2:10", "3:50", "4:20", "5:40"]


async def test_chunk_after_a_gap_is_refused_and_changes_nothing(lab: Lab) -> None:
    assert await send(lab, 1, 2) == Loaded(LoadStatus.GAP, 0)
    assert await lab.snapshot() == {}
    await send(lab, 0, 2)
    before = await lab.snapshot()
    assert await send(lab, 3, 1) == Loaded(LoadStatus.GAP, 2)
    assert await lab.snapshot() == before


async def test_chunk_that_overlaps_the_end_is_refused_and_changes_nothing(lab: Lab) -> None:
    await send(lab, 0, 2)
    before = await lab.snapshot()
    assert await send(lab, 1, 2) == Loaded(LoadStatus.GAP, 2)
    assert await lab.snapshot() == before


async def test_shares_without_their_meta_are_not_loaded_over(lab: Lab) -> None:
    await lab.load(AMOUNTS)
    await lab.run("DEL", lab.of().meta)
    before = await lab.snapshot()
    assert await send(lab, 0, 5) == Loaded(LoadStatus.GAP, 5)
    assert await lab.snapshot() == before


async def test_amount_whose_score_would_not_be_exact_is_refused(lab: Lab) -> None:
    async def send_second(amount: int) -> Loaded:
        return await lab.scripts.load(PACKET, 3, 0, fen([1, amount]))

    assert await send_second(HIGHEST_OF_THREE + 1) == Loaded(LoadStatus.UNRANKABLE, 0)
    assert await lab.snapshot() == {}
    assert await send_second(HIGHEST_OF_THREE) == Loaded(LoadStatus.OK, 2)
    assert await lab.remaining() == ["1:1", f"2:{HIGHEST_OF_THREE}"]


@pytest.mark.parametrize("amount", [0, -1])
async def test_share_below_one_fen_is_refused_and_nothing_loaded(lab: Lab, amount: int) -> None:
    loaded = await lab.scripts.load(PACKET, 3, 0, fen([5, amount, 5]))

    assert loaded == Loaded(LoadStatus.UNRANKABLE, 0)
    assert await lab.snapshot() == {}


async def test_largest_chunk_fits_into_one_call(lab: Lab) -> None:
    amounts = fen([7] * MAX_SHARES_PER_LOAD)
    loaded = await lab.scripts.load(PACKET, 1_000_000, 0, amounts)
    assert loaded == Loaded(LoadStatus.OK, MAX_SHARES_PER_LOAD)
    assert (await lab.remaining())[-1] == f"{MAX_SHARES_PER_LOAD}:7"


@pytest.mark.parametrize("count", [0, MAX_SHARES_PER_LOAD + 1])
async def test_chunk_of_impossible_size_is_not_sent(lab: Lab, count: int) -> None:
    with pytest.raises(ValueError, match="a chunk is 1 to"):
        await lab.scripts.load(PACKET, 1_000_000, 0, fen([7] * count))


@pytest.mark.parametrize("close", [False, True])
async def test_open_or_closed_packet_takes_no_more_shares(lab: Lab, close: bool) -> None:
    await lab.open(AMOUNTS)
    await lab.grab("ann", "bob")
    if close:
        await lab.close(claimed=2, remaining=3)
    before = await lab.snapshot()
    for offset in range(5):
        assert await send(lab, offset, 5) == Loaded(LoadStatus.ALREADY_OPEN, 3)
    assert await lab.snapshot() == before


async def test_loading_packet_is_not_grabbed_from(lab: Lab) -> None:
    await lab.load(AMOUNTS)
    before = await lab.snapshot()
    assert await lab.grab_status("ann") is GrabStatus.LOADING
    assert await lab.snapshot() == before


async def test_lost_shares_are_noticed_at_opening(lab: Lab) -> None:
    await send(lab, 0, 3)
    await lab.run("DEL", lab.of().shares)
    await lab.load(AMOUNTS)
    opened = await lab.scripts.open(
        PACKET,
        shares=5,
        total_fen=Fen(150),
        opens_at_ms=LONG_AGO_MS,
        expires_at_ms=FAR_AHEAD_MS,
    )
    assert opened.status is OpenStatus.MISMATCH
