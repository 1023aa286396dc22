"""The only place that builds key names: `rp:{pNN}:...`, {pNN} being partition and hash tag."""

from dataclasses import dataclass
from typing import NamedTuple

from lua.ids import PacketId, Partition

DEFAULT_PARTITIONS = 64
MAX_PARTITIONS = 4096


class PacketKeys(NamedTuple):
    """Every key a packet's scripts touch. All share one hash tag, hence one Cluster slot."""

    certificate: str
    meta: str
    shares: str
    claims: str
    board: str
    outbox: str
    touch: str


@dataclass(frozen=True, slots=True)
class KeySpace:
    """Key names of one deployment. The number of partitions never changes once in use."""

    partitions: int = DEFAULT_PARTITIONS
    prefix: str = "rp"

    def __post_init__(self) -> None:
        if not 1 <= self.partitions <= MAX_PARTITIONS:
            raise ValueError(f"partitions must be 1 to {MAX_PARTITIONS}, got {self.partitions}")

    def partition_of(self, packet_id: PacketId) -> Partition:
        """Where a packet lives. The low bits of an id are random, so packets spread evenly."""
        return Partition(packet_id % self.partitions)

    def packet(self, packet_id: PacketId) -> PacketKeys:
        partition = self.partition_of(packet_id)
        stem = f"{self._tag(partition)}:packet:{packet_id}"
        return PacketKeys(
            certificate=self.certificate(partition),
            meta=f"{stem}:meta",
            shares=f"{stem}:shares",
            claims=f"{stem}:claims",
            board=f"{stem}:board",
            outbox=self.outbox(partition),
            touch=f"{self._tag(partition)}:touch",
        )

    def outbox(self, partition: Partition) -> str:
        """The stream that holds the claims of a partition until RabbitMQ has confirmed them."""
        return f"{self._tag(partition)}:outbox"

    def certificate(self, partition: Partition) -> str:
        """Holds the token of the certificate under which the partition's data was found whole."""
        return f"{self._tag(partition)}:certificate"

    def certificates(self) -> list[str]:
        return [self.certificate(Partition(number)) for number in range(self.partitions)]

    def every_meta(self) -> str:
        """The pattern that SCAN finds the meta keys of all packets with; see packet_of_meta."""
        return f"{self.prefix}:{{p*}}:packet:*:meta"

    def packet_of_meta(self, key: str) -> PacketId:
        return PacketId(int(key.rsplit(":", 2)[1]))

    def queued(self) -> str:
        """How many messages wait in RabbitMQ, as a relay last saw it."""
        return f"{self.prefix}:queued"

    def outboxes(self) -> list[str]:
        return [self.outbox(Partition(number)) for number in range(self.partitions)]

    def _tag(self, partition: Partition) -> str:
        return f"{self.prefix}:{{p{partition:02d}}}"


def is_wrong_type(error: Exception) -> bool:
    """Whether a command met a key that holds another type than it has here."""
    return "WRONGTYPE" in str(error)
