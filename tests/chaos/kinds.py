"""Which processes of the service a chaos run has, and which links can be spoilt for each kind."""

from dataclasses import dataclass
from typing import Final, Literal

from workers.topology import LEDGER_QUEUE

Store = Literal["redis", "mariadb", "rabbitmq"]
STORES: Final[tuple[Store, ...]] = ("redis", "mariadb", "rabbitmq")


@dataclass(frozen=True, slots=True)
class Kind:
    """`least` to `most` processes of a kind run at once; all of them share one link a store.

    `queues` are what they consume: a run begins when each has a consumer.
    """

    name: str
    arguments: tuple[str, ...]
    stores: tuple[Store, ...]
    least: int = 1
    most: int = 1
    queues: tuple[str, ...] = ()

    def link(self, store: Store) -> str:
        return f"{self.name}->{store}"


API: Final = Kind("api", ("serve",), ("redis", "mariadb"), least=2, most=2)
WORKERS: Final = (
    Kind("relay", ("worker", "relay"), ("redis", "rabbitmq"), most=2),
    Kind("ledger", ("worker", "ledger"), ("mariadb", "rabbitmq"), most=2, queues=(LEDGER_QUEUE,)),
    Kind("opener", ("worker", "opener"), ("redis", "mariadb")),
    Kind("settle", ("worker", "settle"), ("redis", "mariadb"), most=2),
    Kind("recover", ("worker", "recover"), ("redis", "mariadb"), most=2),
)
KINDS: Final = (API, *WORKERS)
