"""Faults of one link, both of whose ends are well."""

import asyncio
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Final, Self

from tests.chaos.stand import Stand

SHORTEST_S: Final = 0.2
LONGEST_S: Final = 8.0
SHORTEST_DELAY_S: Final = 0.005
LONGEST_DELAY_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class _LinkFault:
    target: str
    for_s: float

    @classmethod
    def draw(cls, rng: Random, stand: Stand) -> Self:
        return cls(rng.choice(list(stand.links)), rng.uniform(SHORTEST_S, LONGEST_S))


@dataclass(frozen=True, slots=True)
class Cut(_LinkFault):
    """Every connection is reset at once; new ones are taken."""

    kind: ClassVar[str] = "cut"

    async def run(self, stand: Stand) -> None:
        stand.links[self.target].cut()


@dataclass(frozen=True, slots=True)
class Refuse(_LinkFault):
    """Every connection is reset, and for a while new ones are refused."""

    kind: ClassVar[str] = "refuse"

    async def run(self, stand: Stand) -> None:
        proxy = stand.links[self.target]
        proxy.refuse()
        try:
            await asyncio.sleep(self.for_s)
        finally:
            await proxy.accept()


@dataclass(frozen=True, slots=True)
class LoseReplies(_LinkFault):
    """The server does all it is asked, and nobody hears of it."""

    kind: ClassVar[str] = "lose replies"

    async def run(self, stand: Stand) -> None:
        with stand.links[self.target].losing_replies():
            await asyncio.sleep(self.for_s)


@dataclass(frozen=True, slots=True)
class Stall(_LinkFault):
    """Nothing moves, and all of it arrives late."""

    kind: ClassVar[str] = "stall"

    async def run(self, stand: Stand) -> None:
        with stand.links[self.target].stalled():
            await asyncio.sleep(self.for_s)


@dataclass(frozen=True, slots=True)
class Delay(_LinkFault):
    """Everything takes longer, by as much each time."""

    kind: ClassVar[str] = "delay"
    delay_s: float = 0.0

    @classmethod
    def draw(cls, rng: Random, stand: Stand) -> Self:
        target, for_s = rng.choice(list(stand.links)), rng.uniform(SHORTEST_S, LONGEST_S)
        return cls(target, for_s, rng.uniform(SHORTEST_DELAY_S, LONGEST_DELAY_S))

    async def run(self, stand: Stand) -> None:
        with stand.links[self.target].delayed(self.delay_s):
            await asyncio.sleep(self.for_s)
