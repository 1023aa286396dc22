"""What Redis holds of a packet right now."""

from collections.abc import AsyncIterator, Mapping
from typing import Final, NamedTuple, cast

from redis.asyncio import Redis

from lua.ids import PacketId, UserId
from lua.keys import KeySpace
from lua.replies import Grab, Outcome

_SCAN_COUNT: Final = 1000


class LiveCounts(NamedTuple):
    claimed: int
    remaining: int


class LivePackets:
    def __init__(self, redis: Redis, keys: KeySpace) -> None:
        self._redis = redis
        self._keys = keys

    async def claim_of(self, packet_id: PacketId, user_id: UserId) -> Grab | None:
        value = await self._redis.hget(self._keys.packet(packet_id).claims, user_id)
        return None if value is None else _claim(cast(bytes, value))

    async def counts(self, packet_id: PacketId) -> LiveCounts | None:
        """Shares claimed and left; None when Redis does not hold all of the packet."""
        keys = self._keys.packet(packet_id)
        async with self._redis.pipeline(transaction=True) as pipeline:
            pipeline.hget(keys.meta, "shares")
            pipeline.hlen(keys.claims)
            pipeline.llen(keys.shares)
            shares, claimed, remaining = await pipeline.execute()
        if shares is None or int(shares) != claimed + remaining:
            return None
        return LiveCounts(claimed, remaining)

    async def claims(self, packet_id: PacketId) -> AsyncIterator[tuple[UserId, Grab]]:
        """Every claim that Redis holds of a packet; one that moves meanwhile may come twice."""
        claims = self._keys.packet(packet_id).claims
        async for user, value in self._redis.hscan_iter(claims, count=_SCAN_COUNT):
            yield UserId(user.decode()), _claim(value)

    async def winners(self, packet_id: PacketId, limit: int) -> Mapping[UserId, Grab] | None:
        """The claims of a sold-out packet by user.

        None when there are more than `limit`, or fewer than the packet had shares: then Redis has
        lost something, and nobody may be told "sold out" by what is left.
        """
        keys = self._keys.packet(packet_id)
        shares = await self._redis.hget(keys.meta, "shares")
        if shares is None or int(shares) > limit:
            return None
        winners = {user_id: grab async for user_id, grab in self.claims(packet_id)}
        return winners if len(winners) == int(shares) else None


def _claim(value: bytes) -> Grab:
    seq, amount_fen, claimed_at_ms = value.split(b":")
    return Grab(Outcome.REPEATED, int(seq), int(amount_fen), int(claimed_at_ms))
