"""Draws faults one after the other and runs them. Two of these run at once, hence two faults."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field, fields
from random import Random
from typing import Final

from tests.chaos.fault import Fault
from tests.chaos.faults import FAULTS
from tests.chaos.stand import Stand

AT_ONCE: Final = 2
LONGEST_PAUSE_S: Final = 2.0


@dataclass(slots=True)
class Journal:
    """What was done, and how soon after all faults had ended a share was grabbed again.

    A recovery during which the next fault begins is not measured: it would measure that fault.
    """

    began_s: float = field(default_factory=time.monotonic)
    injected: Counter[str] = field(default_factory=Counter)
    active: int = 0
    worst_recovery_s: float = 0.0
    worst_recovery_after: str = ""
    _ended: tuple[float, str] | None = None

    def begins(self, fault: Fault) -> None:
        self.injected[fault.kind] += 1
        self.active += 1
        self._ended = None
        self._print("begins", fault)

    def ends(self, fault: Fault) -> None:
        self.active -= 1
        if self.active == 0:
            self._ended = (time.monotonic(), f"{fault.kind} {fault.target}")
        self._print("ends", fault)

    def grabbed(self) -> None:
        if self._ended is None:
            return
        (ended_s, after), self._ended = self._ended, None
        recovery_s = time.monotonic() - ended_s
        if recovery_s > self.worst_recovery_s:
            self.worst_recovery_s, self.worst_recovery_after = recovery_s, after

    def _print(self, verb: str, fault: Fault) -> None:
        at_s = time.monotonic() - self.began_s
        print(f"{at_s:7.2f} {verb:6} {_described(fault)}", flush=True)


def _described(fault: Fault) -> str:
    """Its kind, target and the rest of what was drawn for it."""
    rest = []
    for drawn in fields(fault):
        value = getattr(fault, drawn.name)
        if isinstance(value, bool | float):
            rest.append(f"{drawn.name}={value:.3g}")
    return " ".join([f"{fault.kind}: {fault.target}", *rest])


async def make_trouble(stand: Stand, seed: str, journal: Journal, stop: asyncio.Event) -> None:
    """Run fault after fault until `stop`; the last one runs to its end.

    A seed decides kinds, targets, durations and order, whatever the machine's speed; only which
    faults of the two troublemakers meet depends on it.
    """
    rng = Random(seed)
    kinds, weights = list(FAULTS), list(FAULTS.values())
    while True:
        await _pause(stop, rng.uniform(0, LONGEST_PAUSE_S))
        [kind] = rng.choices(kinds, weights)
        fault = kind.draw(rng, stand)
        async with stand.holder(fault.target):
            if stop.is_set():
                return
            await _run(fault, stand, journal)


async def _run(fault: Fault, stand: Stand, journal: Journal) -> None:
    journal.begins(fault)
    try:
        await fault.run(stand)
    except Exception as error:
        stand.troubles.append(f"{fault} did not run to its end: {error!r}")
    finally:
        journal.ends(fault)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
