"""Large packets are split elsewhere, a few at a time, even if somebody kills that elsewhere."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.packets.splitting import (
    INLINE_SHARES,
    WAITING_SPLITS,
    Splitting,
    SplittingBusy,
    UnrankableShares,
    check_rankable,
    is_always_rankable,
)
from splitter.money import Fen
from splitter.split import split
from splitter.terms import Terms

LARGE = Terms("lucky", Fen(100_000), INLINE_SHARES + 1)
SEED = b"s" * 32


class FakeProcess(Executor):
    """Runs work at once, or holds it, or is dead."""

    def __init__(self, *, dead: bool = False, holds: bool = False) -> None:
        self._dead = dead
        self._holds = holds
        self.held: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, work: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self._dead:
            future.set_exception(BrokenProcessPool("killed"))
        elif self._holds:
            self.held.append((future, lambda: work(*arguments)))
        else:
            future.set_result(work(*arguments))
        return future


@pytest.mark.parametrize("shares", [1, INLINE_SHARES, INLINE_SHARES + 1])
async def test_amounts_are_the_split_wherever_it_runs(shares: int) -> None:
    terms = Terms("lucky", Fen(100_000), shares)

    assert await Splitting(FakeProcess).amounts(terms, SEED) == split(terms, SEED)


async def test_a_killed_splitting_process_is_replaced() -> None:
    processes: Iterator[FakeProcess] = iter([FakeProcess(dead=True), FakeProcess()])
    splitting = Splitting(lambda: next(processes))

    assert await splitting.amounts(LARGE, SEED) == split(LARGE, SEED)
    assert await splitting.amounts(LARGE, SEED) == split(LARGE, SEED)


async def test_only_so_many_large_packets_wait_and_small_ones_never_do() -> None:
    process = FakeProcess(holds=True)
    splitting = Splitting(lambda: process)
    waiting = [asyncio.create_task(splitting.amounts(LARGE, SEED)) for _ in range(WAITING_SPLITS)]
    await asyncio.sleep(0)

    with pytest.raises(SplittingBusy):
        await splitting.amounts(LARGE, SEED)
    assert len(await splitting.amounts(Terms("lucky", Fen(100), 5), SEED)) == 5
    for future, work in process.held:
        future.set_result(work())
    await asyncio.gather(*waiting)

    process.held.clear()
    later = asyncio.create_task(splitting.amounts(LARGE, SEED))
    await asyncio.sleep(0)
    assert len(process.held) == 1
    later.cancel()


async def test_closing_leaves_no_process_for_the_end_of_the_interpreter() -> None:
    splitting = Splitting()
    await splitting.amounts(LARGE, SEED)

    splitting.close()

    assert active_children() == []


def test_a_share_too_large_for_an_exact_score_is_refused() -> None:
    check_rankable([Fen(2**51 - 1), Fen(1)])
    with pytest.raises(UnrankableShares):
        check_rankable([Fen(2**51), Fen(1)])


@given(st.data())
def test_terms_called_always_rankable_are_whatever_the_seed(data: st.DataObject) -> None:
    shares = data.draw(st.integers(1, 40))
    min_fen = data.draw(st.sampled_from([1, 10**9, 2**46]))
    total_fen = min_fen * shares + data.draw(st.integers(0, 2**50))
    terms_of_any_size = Terms.__new__(Terms)  # beyond the largest total, to reach the bound at all
    for name, value in {
        "kind": data.draw(st.sampled_from(["lucky", "equal"])),
        "total_fen": Fen(total_fen),
        "shares": shares,
        "min_fen": Fen(min_fen),
        "cap_fen": None,
        "version": 1,
    }.items():
        object.__setattr__(terms_of_any_size, name, value)

    if is_always_rankable(terms_of_any_size):
        check_rankable(split(terms_of_any_size, data.draw(st.binary(min_size=32, max_size=32))))


def test_the_largest_share_that_terms_allow_decides() -> None:
    assert is_always_rankable(Terms("lucky", Fen(10**12), 1))
    assert is_always_rankable(Terms("lucky", Fen(10**8), 1_000_000))
    assert not is_always_rankable(Terms("lucky", Fen(10**12), 1_000_000))
    assert is_always_rankable(Terms("lucky", Fen(10**12), 1_000_000, cap_fen=Fen(2_000_000)))
    assert is_always_rankable(Terms("lucky", Fen(10**12), 1_000_000, min_fen=Fen(999_999)))
