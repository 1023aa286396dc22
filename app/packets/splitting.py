"""Runs the split where it does not hold up grabs, and no more of them than can wait."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Final

from lua.scripts import MAX_BOARD_SCORE, tie_factor
from splitter.money import Fen
from splitter.split import split
from splitter.terms import Terms

log = logging.getLogger(__name__)

# A larger packet is split in another process: the event loop must not stand still for it.
INLINE_SHARES: Final = 1000
WAITING_SPLITS: Final = 8  # a million shares take about half a second


class UnrankableShares(ValueError):
    """A share is too large for an exact board score; a cap per share would help."""


class SplittingBusy(Exception):
    """More large packets wait to be split than can be answered in time."""


def split_process() -> Executor:
    """A process, not a thread: a split never lets go of the interpreter lock.

    Spawned, not forked: a fork would share the sockets of this process.
    """
    return ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn"))


class Splitting:
    def __init__(self, make_executor: Callable[[], Executor] = split_process) -> None:
        self._make_executor = make_executor
        self._executor = make_executor()
        self._waiting = 0

    async def amounts(self, terms: Terms, seed: bytes) -> list[Fen]:
        """The amounts of all shares. Raises SplittingBusy."""
        if terms.shares <= INLINE_SHARES:
            return split(terms, seed)
        if self._waiting >= WAITING_SPLITS:
            raise SplittingBusy
        self._waiting += 1
        try:
            return await self._elsewhere(terms, seed)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Wait for the split under way, as the interpreter would at its end.

        By then the pool's thread may be closing the pipe that the interpreter wakes it by, which
        ends an orderly shutdown with a traceback.
        """
        self._executor.shutdown(wait=True, cancel_futures=True)

    async def _elsewhere(self, terms: Terms, seed: bytes) -> list[Fen]:
        loop = asyncio.get_running_loop()
        executor = self._executor
        try:
            return await loop.run_in_executor(executor, split, terms, seed)
        except BrokenProcessPool:
            # Somebody killed the process; a pool never recovers from that by itself.
            log.warning("the splitting process died; starting another")
            if executor is self._executor:
                self._executor = self._make_executor()
            return await loop.run_in_executor(self._executor, split, terms, seed)


def check_rankable(amounts: Sequence[Fen]) -> None:
    """Raise UnrankableShares unless every amount fits a board score with room for ties."""
    largest = max(amounts)
    if not _fits_a_score(largest, len(amounts)):
        raise UnrankableShares(f"a share of {largest} fen among {len(amounts)} cannot be ranked")


def is_always_rankable(terms: Terms) -> bool:
    """Whether no split of these terms can have a share too large: known without splitting."""
    largest = terms.total_fen - terms.min_fen * (terms.shares - 1)
    if terms.cap_fen is not None:
        largest = min(largest, terms.cap_fen)
    return _fits_a_score(largest, terms.shares)


def _fits_a_score(amount_fen: int, shares: int) -> bool:
    return (amount_fen + 1) * tie_factor(shares) - 1 <= MAX_BOARD_SCORE
