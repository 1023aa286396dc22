"""Splitting a packet of a million shares."""

import statistics
import time
from typing import Any, Final

from splitter.money import Fen
from splitter.split import split
from splitter.terms import Terms

ROUNDS: Final = 5
SHARES: Final = 1_000_000


def bench_split() -> dict[str, Any]:
    terms = Terms("lucky", Fen(SHARES * 100), SHARES)
    seconds = []
    for number in range(ROUNDS):
        began_s = time.perf_counter()
        split(terms, number.to_bytes(32, "big"))
        seconds.append(time.perf_counter() - began_s)
    return {"split_million_s": round(statistics.median(seconds), 3)}
