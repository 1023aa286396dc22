"""What a fault is: drawn from a seeded random, it spoils one target and makes good by itself."""

from random import Random
from typing import Any, ClassVar, Protocol, Self

from tests.chaos.stand import Stand


class Fault(Protocol):
    """A dataclass. `target` names a process or a link; whoever runs the fault holds it."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    kind: ClassVar[str]

    @property
    def target(self) -> str: ...

    @classmethod
    def draw(cls, rng: Random, stand: Stand) -> Self: ...

    async def run(self, stand: Stand) -> None:
        """Do harm, wait, and make good."""
