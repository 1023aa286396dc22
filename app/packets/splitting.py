"""Runs the split where it does not hold up grabs."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Final

from lua.scripts import MAX_BOARD_SCORE, tie_factor
from splitter.money import Fen
from splitter.split import split
from splitter.terms import Terms

# A larger packet is split in another process: the event loop must not stand still for it.
INLINE_SHARES: Final = 1000


class UnrankableShares(ValueError):
    """A share is too large for an exact board score; a cap per share would help."""


class Splitting:
    def __init__(self, executor: Executor) -> None:
        """`executor` has processes, not threads: a split never lets go of the interpreter lock."""
        self._executor = executor

    async def amounts(self, terms: Terms, seed: bytes) -> list[Fen]:
        if terms.shares <= INLINE_SHARES:
            return split(terms, seed)
        return await asyncio.get_running_loop().run_in_executor(self._executor, split, terms, seed)


def check_rankable(amounts: Sequence[Fen]) -> None:
    """Raise UnrankableShares unless every amount fits a board score with room for ties."""
    largest = max(amounts)
    if (largest + 1) * tie_factor(len(amounts)) - 1 > MAX_BOARD_SCORE:
        raise UnrankableShares(f"a share of {largest} fen among {len(amounts)} cannot be ranked")
