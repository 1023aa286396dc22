"""One packet in Redis against MySQL and the split, next to live traffic."""

from collections.abc import Sequence
from typing import Any, Final, cast

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from app.packets.live import LivePackets
from app.reconciling.findings import Finding, Kind
from app.recovery.packets import PacketRecovery
from app.store.database import Database
from app.store.models import Packet
from lua.ids import PacketId, UserId
from lua.keys import KeySpace
from lua.replies import Grab
from lua.scripts import tie_factor
from splitter.money import Fen

SHARES_PER_READ: Final = 5000
USERS_PER_READ: Final = 1000


class RedisSide:
    def __init__(
        self,
        database: Database,
        redis: Redis,
        keys: KeySpace,
        live: LivePackets,
        recovery: PacketRecovery,
    ) -> None:
        self._database = database
        self._redis = redis
        self._keys = keys
        self._live = live
        self._recovery = recovery

    async def findings(self, packet: Packet, amounts: Sequence[Fen]) -> list[Finding]:
        """What Redis lacks or holds wrongly of a packet."""
        packet_id = PacketId(packet.id)
        keys = self._keys.packet(packet_id)
        state, ttl_ms = await self._state(packet_id)
        if packet.state == "settled":
            if state is not None and (state != b"closed" or ttl_ms < 0):
                return [Finding(packet_id, "not_retired", "its books are closed")]
            return []
        if packet.state == "funded":
            if state in (None, b"loading"):
                return [Finding(packet_id, "not_opened", "its shares are not in Redis")]
            return [Finding(packet_id, "open_not_noted", "MySQL says it is not open")]
        lost = await self._recovery.loss(packet)
        if lost is not None:
            return [Finding(packet_id, "redis_lost", lost)]
        try:
            return await self._differences(packet, keys.shares, amounts)
        except ResponseError as error:  # a key of the wrong type
            return [Finding(packet_id, "redis_lost", str(error))]

    async def unbooked_users(self, packet_id: PacketId) -> list[UserId]:
        """Who has a claim in Redis that MySQL does not know."""
        claims = {user: grab async for user, grab in self._live.claims(packet_id)}
        return [user_id for user_id, _ in await self._unbooked(packet_id, claims)]

    async def _state(self, packet_id: PacketId) -> tuple[bytes | None, int]:
        meta = self._keys.packet(packet_id).meta
        async with self._redis.pipeline(transaction=False) as pipeline:
            pipeline.hget(meta, "state")
            pipeline.pttl(meta)
            state, ttl_ms = await pipeline.execute(raise_on_error=False)
        return (state if isinstance(state, bytes) else None), cast(int, ttl_ms)

    async def _differences(
        self, packet: Packet, shares_key: str, amounts: Sequence[Fen]
    ) -> list[Finding]:
        packet_id = PacketId(packet.id)
        # Shares before claims: a share that is grabbed in between is seen twice, never not at all.
        left = await self._shares_left(shares_key)
        claims = {user: grab async for user, grab in self._live.claims(packet_id)}
        findings: list[Finding] = []

        def found(kind: Kind, detail: str) -> None:
            findings.append(Finding(packet_id, kind, detail))

        held = dict(left)
        held.update({grab.seq: grab.amount_fen for grab in claims.values()})
        expected = dict(enumerate(amounts, start=1))
        if held != expected:
            wrong = [seq for seq in held.keys() | expected if held.get(seq) != expected.get(seq)]
            found("redis_shares_differ", f"{len(wrong)} shares, the first is {min(wrong)}")
        twice = left.keys() & {grab.seq for grab in claims.values()}
        if twice and max(twice) >= await self._first_left(shares_key):
            found("redis_shares_differ", f"share {max(twice)} is claimed and left")
        if len({grab.seq for grab in claims.values()}) != len(claims):
            found("redis_shares_differ", "a share is claimed twice")
        unranked = await self._unranked(packet, claims)
        if unranked:
            found("redis_board_differs", f"{unranked} claims are not ranked, or wrongly")
        for user_id, grab in await self._unbooked(packet_id, claims):
            found("claim_not_booked", f"seq {grab.seq} of {user_id}")
        return findings

    async def _shares_left(self, shares_key: str) -> dict[int, int]:
        """From the end of the list: its head is what grabs take away meanwhile."""
        left: dict[int, int] = {}
        last = -1
        while True:
            part = cast(
                list[bytes],
                await self._redis.lrange(shares_key, last - SHARES_PER_READ + 1, last),
            )
            for share in part:
                seq, _, amount_fen = share.partition(b":")
                left[int(seq)] = int(amount_fen)
            if len(part) < SHARES_PER_READ:
                return left
            last -= SHARES_PER_READ

    async def _first_left(self, shares_key: str) -> float:
        share = await self._redis.lindex(shares_key, 0)
        return float("inf") if share is None else int(cast(bytes, share).partition(b":")[0])

    async def _unranked(self, packet: Packet, claims: dict[UserId, Grab]) -> int:
        board, factor = self._keys.packet(PacketId(packet.id)).board, tie_factor(packet.shares)
        users: list[str] = list(claims)
        wrong = 0
        for first in range(0, len(users), USERS_PER_READ):
            part = users[first : first + USERS_PER_READ]
            scores = cast(list[Any], await self._redis.zmscore(board, part))
            for user_id, score in zip(part, scores, strict=True):
                grab = claims[UserId(user_id)]
                wrong += score != grab.amount_fen * factor + (factor - 1 - grab.seq)
        return wrong

    async def _unbooked(
        self, packet_id: PacketId, claims: dict[UserId, Grab]
    ) -> list[tuple[UserId, Grab]]:
        rows = await self._database.rows(
            "SELECT seq, user_id FROM claim WHERE packet_id = %s UNION"
            " SELECT seq, user_id FROM conflict WHERE packet_id = %s",
            [packet_id, packet_id],
        )
        known = {(row["seq"], row["user_id"]) for row in rows}
        return [
            (user_id, grab) for user_id, grab in claims.items() if (grab.seq, user_id) not in known
        ]
