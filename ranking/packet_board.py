"""The board of one packet, written by grab.lua: by amount, of equal ones the first claimed."""

from collections.abc import Callable
from typing import Final, cast

from redis.asyncio import Redis

from lua.ids import PacketId, UserId
from lua.keys import KeySpace
from lua.scripts import tie_factor
from ranking.rank import Rank, exact_rank
from splitter.money import Fen

MAX_ROWS: Final = 100


class PacketBoard:
    """Reads the exact board of a packet of `shares` shares from Redis."""

    def __init__(self, redis: Redis, keys: KeySpace, now_ms: Callable[[], int]) -> None:
        self._redis = redis
        self._keys = keys
        self._now_ms = now_ms

    async def top(self, packet_id: PacketId, shares: int, limit: int) -> list[Rank]:
        return await self._range(packet_id, shares, 0, checked_limit(limit))

    async def rank(self, packet_id: PacketId, shares: int, user_id: UserId) -> Rank | None:
        """The user's rank, or None for a user who has no claim."""
        board = self._keys.packet(packet_id).board
        async with self._redis.pipeline(transaction=True) as pipeline:
            pipeline.zrevrank(board, user_id)
            pipeline.zscore(board, user_id)
            position, score = await pipeline.execute()
        if position is None:
            return None
        return exact_rank(user_id, position + 1, _amount(score, shares), self._now_ms())

    async def around(
        self, packet_id: PacketId, shares: int, user_id: UserId, limit: int
    ) -> list[Rank] | None:
        """`limit` ranks, the user in the middle where the ends allow; None without a claim."""
        limit = checked_limit(limit)
        board = self._keys.packet(packet_id).board
        async with self._redis.pipeline(transaction=True) as pipeline:
            pipeline.zrevrank(board, user_id)
            pipeline.zcard(board)
            position, size = await pipeline.execute()
        if position is None:
            return None
        first = max(0, min(position - limit // 2, size - limit))
        return await self._range(packet_id, shares, first, limit)

    async def _range(self, packet_id: PacketId, shares: int, first: int, limit: int) -> list[Rank]:
        board = self._keys.packet(packet_id).board
        reply = await self._redis.zrevrange(board, first, first + limit - 1, withscores=True)
        rows = cast(list[tuple[bytes, float]], reply)
        as_of_ms = self._now_ms()
        return [
            exact_rank(UserId(user.decode()), first + offset, _amount(score, shares), as_of_ms)
            for offset, (user, score) in enumerate(rows, start=1)
        ]


def _amount(score: float, shares: int) -> Fen:
    return Fen(int(score) // tie_factor(shares))


def checked_limit(limit: int) -> int:
    if not 1 <= limit <= MAX_ROWS:
        raise ValueError(f"limit must be 1 to {MAX_ROWS}, got {limit}")
    return limit
