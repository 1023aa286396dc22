"""A packet as people see it: terms and claims from MySQL, counts live from Redis."""

from collections.abc import Sequence
from typing import NamedTuple

from tortoise.queryset import QuerySet

from app.packets.live import LivePackets
from app.store.database import Database
from app.store.models import Claim, Packet
from app.store.times import to_ms
from lua.ids import PacketId, UserId
from lua.scripts import Grab, Outcome


class PacketUnknown(Exception):
    """MySQL has no such packet."""


async def find_packet(database: Database, packet_id: PacketId) -> Packet:
    """The packet's row. Raises PacketUnknown."""
    packet = await database.read(lambda: Packet.get_or_none(id=packet_id))
    if packet is None:
        raise PacketUnknown(f"there is no packet {packet_id}")
    return packet


def claims_after(packet_id: PacketId, seq: int) -> QuerySet[Claim]:
    """The packet's booked claims behind `seq`, in order."""
    claims = Claim.filter(packet_id=packet_id, seq__gt=seq).order_by("seq")
    # MySQL 9 would read all of a small packet's claims by another key, and sort them.
    return claims.force_index("PRIMARY")


class PacketView(NamedTuple):
    packet: Packet
    claimed: int
    remaining: int
    claims: Sequence[Claim]  # booked ones, by seq
    next_seq: int | None  # the cursor of the next page


class PacketReader:
    def __init__(self, database: Database, live: LivePackets) -> None:
        self._database = database
        self._live = live

    async def packet(self, packet_id: PacketId) -> Packet:
        """Raises PacketUnknown."""
        return await find_packet(self._database, packet_id)

    async def view(self, packet: Packet, after_seq: int, limit: int) -> PacketView:
        """The packet with up to `limit` claims whose seq is greater than `after_seq`."""
        packet_id = PacketId(packet.id)
        claims = await self._database.read(
            lambda: claims_after(packet_id, after_seq).limit(limit + 1)
        )
        counts = await self._live.counts(packet_id)
        remaining = packet.remaining_shares if counts is None else counts.remaining
        more = len(claims) > limit
        return PacketView(
            packet,
            claimed=packet.shares - remaining,
            remaining=remaining,
            claims=claims[:limit],
            next_seq=claims[limit - 1].seq if more else None,
        )

    async def claim_of(self, packet_id: PacketId, user_id: UserId) -> Grab | None:
        """The user's claim: from Redis, or booked in MySQL once the packet has left Redis."""
        claim = await self._live.claim_of(packet_id, user_id)
        if claim is not None:
            return claim
        row = await self._database.read(
            lambda: Claim.get_or_none(packet_id=packet_id, user_id=user_id)
        )
        if row is None:
            return None
        return Grab(Outcome.REPEATED, row.seq, row.amount_fen, to_ms(row.claimed_at))
