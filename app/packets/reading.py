"""A packet as people see it: terms and claims from MySQL, counts live from Redis."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from tortoise.queryset import QuerySet

from app.packets.live import LivePackets
from app.store.database import Database
from app.store.models import Claim, Packet
from app.store.times import read_ms, to_ms
from lua.ids import PacketId, UserId, is_on_mysql
from lua.replies import Grab, Outcome


class PacketUnknown(Exception):
    """MySQL has no such packet."""


async def find_packet(database: Database, packet_id: PacketId) -> Packet:
    """The packet's row. Raises PacketUnknown."""
    packet = await database.read(lambda: Packet.get_or_none(id=packet_id))
    if packet is None:
        raise PacketUnknown(f"there is no packet {packet_id}")
    return packet


# MySQL 9 would read all claims of the packet by another key for each page, and sort them.
PAGE_OF_CLAIMS: Final = (
    "SELECT seq, user_id, amount_fen, claimed_at FROM claim /*! FORCE INDEX (PRIMARY) */"
    " WHERE packet_id = %s AND seq > %s ORDER BY seq LIMIT %s"
)


def claims_after(packet_id: PacketId, seq: int) -> QuerySet[Claim]:
    """The packet's booked claims behind `seq`, in order: PAGE_OF_CLAIMS as models."""
    claims = Claim.filter(packet_id=packet_id, seq__gt=seq).order_by("seq")
    return claims.force_index("PRIMARY")


class BestLuck(NamedTuple):
    """The largest share; of equal ones the first claimed."""

    user_id: UserId
    seq: int
    amount_fen: int


class Settlement(NamedTuple):
    """How a packet's books were closed; `best_luck` is None where nobody claimed a share."""

    refund_fen: int
    best_luck: BestLuck | None
    settled_at_ms: int


class PacketView(NamedTuple):
    packet: Packet
    settlement: Settlement | None
    claimed: int
    remaining: int
    claims: Sequence[Claim]  # booked ones, by seq
    next_seq: int | None  # the cursor of the next page


class PacketReader:
    def __init__(
        self, database: Database, live: LivePackets, redis_answers: Callable[[], bool]
    ) -> None:
        self._database = database
        self._live = live
        self._redis_answers = redis_answers

    async def packet(self, packet_id: PacketId) -> Packet:
        """Raises PacketUnknown."""
        return await find_packet(self._database, packet_id)

    async def view(self, packet: Packet, after_seq: int, limit: int) -> PacketView:
        """The packet with up to `limit` claims whose seq is greater than `after_seq`."""
        packet_id = PacketId(packet.id)
        live = is_live(packet) and self._redis_answers()
        claims = await self._database.read(
            lambda: claims_after(packet_id, after_seq).limit(limit + 1)
        )
        counts = await self._live.counts(packet_id) if live else None
        remaining = packet.remaining_shares if counts is None else counts.remaining
        more = len(claims) > limit
        return PacketView(
            packet,
            settlement=await self._settlement(packet),
            claimed=packet.shares - remaining,
            remaining=remaining,
            claims=claims[:limit],
            next_seq=claims[limit - 1].seq if more else None,
        )

    async def _settlement(self, packet: Packet) -> Settlement | None:
        if packet.state != "settled":
            return None
        rows = await self._database.rows(
            "SELECT refund_fen, best_user_id, best_seq, best_fen, settled_at FROM settlement"
            " WHERE packet_id = %s",
            [packet.id],
        )
        if not rows:
            return None
        [row] = rows
        best = None
        if row["best_user_id"] is not None:
            best = BestLuck(UserId(row["best_user_id"]), row["best_seq"], row["best_fen"])
        return Settlement(row["refund_fen"], best, read_ms(row["settled_at"]))

    async def claim_of(self, packet_id: PacketId, user_id: UserId) -> Grab | None:
        """The user's claim: from Redis, or booked in MySQL once the packet has left Redis."""
        if is_on_mysql(packet_id):
            return await self._booked_claim_of(packet_id, user_id)
        claim = None
        if self._redis_answers():
            claim = await self._live.claim_of(packet_id, user_id)
        claim = claim or await self._booked_claim_of(packet_id, user_id)
        if claim is None and not self._redis_answers():
            raise ConnectionError("Redis does not answer, and the claim may be there only")
        return claim

    async def closed_answer(self, packet_id: PacketId, user_id: UserId) -> Grab | None:
        """What a grab of a packet is told whose books are closed; None while they are not.

        Raises PacketUnknown.
        """
        packet = await self.packet(packet_id)
        if packet.state != "settled":
            return None
        return await self._booked_claim_of(packet_id, user_id) or _CLOSED

    async def winners(self, packet_id: PacketId, limit: int) -> Mapping[UserId, Grab] | None:
        """The claims of a sold-out packet by user; None where there are more or not yet all."""
        if not is_on_mysql(packet_id):
            return await self._live.winners(packet_id, limit)
        packet = await self.packet(packet_id)
        if packet.remaining_shares > 0 or packet.shares > limit:
            return None
        claims = await self._database.read(lambda: Claim.filter(packet_id=packet_id))
        return {UserId(claim.user_id): _grab_of(claim) for claim in claims}

    async def _booked_claim_of(self, packet_id: PacketId, user_id: UserId) -> Grab | None:
        row = await self._database.read(
            lambda: Claim.get_or_none(packet_id=packet_id, user_id=user_id)
        )
        return None if row is None else _grab_of(row)


def is_live(packet: Packet) -> bool:
    """Whether Redis knows more of a packet than MySQL does."""
    return packet.state != "settled" and not is_on_mysql(PacketId(packet.id))


def _grab_of(claim: Claim) -> Grab:
    return Grab(Outcome.REPEATED, claim.seq, claim.amount_fen, to_ms(claim.claimed_at))


_CLOSED: Final = Grab(Outcome.CLOSED, 0, 0, 0)
