"""The faults of a chaos run that befall processes, and how often each kind of fault is drawn.

To add a fault: write a class as fault.py describes it and name it in FAULTS.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Final, Self

from redis.asyncio import Redis

from tests.chaos.fault import Fault
from tests.chaos.kinds import WORKERS, Kind
from tests.chaos.link_faults import Cut, Delay, LoseReplies, Refuse, Stall
from tests.chaos.stand import Stand

LONGEST_DOWN_S: Final = 3.0
SHORTEST_STOP_S: Final = 0.2
LONGEST_STOP_S: Final = 8.0
SHORTEST_VISIT_S: Final = 1.0
LONGEST_VISIT_S: Final = 8.0
LARGEST_SKEW_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Kill:
    """kill -9 of one of our processes or of a server, and a start some time later."""

    kind: ClassVar[str] = "kill -9"
    target: str
    down_s: float

    @classmethod
    def draw(cls, rng: Random, stand: Stand) -> Self:
        return cls(stand.draw_process(rng), rng.uniform(0, LONGEST_DOWN_S))

    async def run(self, stand: Stand) -> None:
        process = stand.process(self.target)
        await stand.make_run(process)
        await asyncio.to_thread(process.kill)
        await asyncio.sleep(self.down_s)
        await stand.start(process)


@dataclass(frozen=True, slots=True)
class Stop:
    """SIGSTOP, and SIGCONT later: connections stay open and nothing answers."""

    kind: ClassVar[str] = "SIGSTOP"
    target: str
    stopped_s: float

    @classmethod
    def draw(cls, rng: Random, stand: Stand) -> Self:
        return cls(stand.draw_process(rng), rng.uniform(SHORTEST_STOP_S, LONGEST_STOP_S))

    async def run(self, stand: Stand) -> None:
        process = stand.process(self.target)
        await stand.make_run(process)
        process.pause()
        try:
            await asyncio.sleep(self.stopped_s)
        finally:
            process.resume()


@dataclass(frozen=True, slots=True)
class Restart:
    """SIGTERM, and a start once it has ended in order."""

    kind: ClassVar[str] = "SIGTERM"
    target: str

    @classmethod
    def draw(cls, rng: Random, stand: Stand) -> Self:
        return cls(stand.draw_process(rng))

    async def run(self, stand: Stand) -> None:
        process = stand.process(self.target)
        await stand.make_run(process)
        await stand.end_in_order(process)
        await stand.start(process)


@dataclass(frozen=True, slots=True)
class WrongClock:
    """One of our processes restarted with a clock that is wrong, and later with the right one."""

    kind: ClassVar[str] = "wrong clock"
    target: str
    skew_s: float
    for_s: float

    @classmethod
    def draw(cls, rng: Random, stand: Stand) -> Self:
        skew_s = rng.choice((-1, 1)) * rng.uniform(1, LARGEST_SKEW_S)
        for_s = rng.uniform(SHORTEST_VISIT_S, LONGEST_VISIT_S)
        return cls(rng.choice(list(stand.members)), skew_s, for_s)

    async def run(self, stand: Stand) -> None:
        member = stand.members[self.target]
        await stand.make_run(member)
        for skew_s in (self.skew_s, 0.0):
            await stand.end_in_order(member)
            member.skew_s = skew_s
            await stand.start(member)
            if skew_s:
                await asyncio.sleep(self.for_s)


@dataclass(frozen=True, slots=True)
class Second:
    """One more worker of a kind beside the first for a while; it ends in order or is killed."""

    kind: ClassVar[str] = "second worker"
    worker: Kind
    for_s: float
    is_killed: bool

    @property
    def target(self) -> str:
        return f"{self.worker.name}-second"

    @classmethod
    def draw(cls, rng: Random, stand: Stand) -> Self:
        for_s = rng.uniform(SHORTEST_VISIT_S, LONGEST_VISIT_S)
        return cls(rng.choice(WORKERS), for_s, rng.random() < 0.5)

    async def run(self, stand: Stand) -> None:
        with stand.member(self.worker, self.target) as second:
            stand.visitors.append(second)
            await stand.start(second)
            await asyncio.sleep(self.for_s)
            if self.is_killed:
                await asyncio.to_thread(second.kill)
            else:
                await stand.end_in_order(second)


@dataclass(frozen=True, slots=True)
class FlushScripts:
    """Redis forgets every script, as a promoted replica would."""

    kind: ClassVar[str] = "SCRIPT FLUSH"
    target: str = "redis"

    @classmethod
    def draw(cls, rng: Random, stand: Stand) -> Self:
        return cls()

    async def run(self, stand: Stand) -> None:
        await stand.make_run(stand.redis)
        async with Redis.from_url(stand.redis.url) as redis:
            await redis.script_flush()


# How often each kind is drawn, relative to the others.
FAULTS: Final[Mapping[type[Fault], int]] = {
    Kill: 6,
    Stop: 4,
    Restart: 3,
    Cut: 2,
    Refuse: 2,
    LoseReplies: 4,
    Delay: 2,
    Stall: 4,
    FlushScripts: 1,
    Second: 3,
    WrongClock: 2,
}
