"""One packet: does Redis still hold what MySQL has booked, and how to rebuild it where not."""

import logging
import secrets
from collections.abc import Sequence
from typing import Any, Final, cast

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from app.packets.live import LivePackets
from app.packets.opening import note_open
from app.packets.reading import PAGE_OF_CLAIMS, find_packet
from app.packets.splitting import Splitting
from app.packets.terms import terms_of
from app.recovery.in_flight import InFlightClaims
from app.recovery.rebuild_notes import forget_rebuild, note_rebuild
from app.settling.retiring import KEEP_MS
from app.store.database import Database
from app.store.models import Packet
from app.store.times import read_ms, to_ms
from lua.ids import PacketId, UserId
from lua.keys import KeySpace, is_wrong_type
from lua.replies import Grab, RestoredShare, RestoreStatus, ResumeStatus
from lua.scripts import MAX_SHARES_PER_LOAD, MAX_USERS_PER_GRAB, Scripts
from splitter.money import Fen

log = logging.getLogger(__name__)

ROWS_PER_READ: Final = 1000


class RebuildFailed(Exception):
    """The packet cannot be put back as its seed and its booked claims say. It stays suspended."""


class RebuildSuperseded(Exception):
    """Another process began to rebuild the packet since, and will finish."""


class PacketRecovery:
    def __init__(
        self,
        database: Database,
        redis: Redis,
        keys: KeySpace,
        scripts: Scripts,
        splitting: Splitting,
        in_flight: InFlightClaims,
    ) -> None:
        self._database = database
        self._redis = redis
        self._keys = keys
        self._scripts = scripts
        self._splitting = splitting
        self._in_flight = in_flight
        self._live = LivePackets(redis, keys)

    async def loss(self, packet: Packet) -> str | None:
        """What Redis lacks of an unsettled packet, in words; None where it holds all of it.

        Ask only when no booked claim can be newer than what Redis is asked for: booked claims are
        read first, so that a claim made meanwhile is never missed.
        """
        try:
            return await self._loss(packet)
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
            return "a key has the wrong type"

    async def _loss(self, packet: Packet) -> str | None:
        packet_id = PacketId(packet.id)
        keys = self._keys.packet(packet_id)
        async with self._redis.pipeline(transaction=True) as pipeline:
            pipeline.hmget(keys.meta, "state", "shares")
            pipeline.llen(keys.shares)
            pipeline.hlen(keys.claims)
            pipeline.zcard(keys.board)
            (state, shares), remaining, claimed, ranked = await pipeline.execute()
        if state is None or state == b"loading":
            booked = await self._booked(packet_id, after_seq=0)
            unopened = packet.state == "funded" and not booked
            return None if unopened else "the packet is not there"
        if state == b"rebuilding":
            return "its rebuilding was not finished"
        if int(shares) != packet.shares or remaining + claimed != packet.shares:
            return f"{claimed} claims and {remaining} shares of {packet.shares}"
        if ranked != claimed:
            return f"{claimed} claims and {ranked} ranks"
        return await self._lost_claims(packet_id, keys.claims)

    async def rebuild(self, packet_id: PacketId, *, all_have_arrived: bool = False) -> int:
        """Put the packet back from its seed and its claims; returns the shares that are left.

        What is rebuilt is what is booked, so claims under way are waited for, unless the caller has
        done so on a Redis that answers no grabs; claims that only Redis knows are sent once more.
        Raises RebuildFailed, RebuildSuperseded, ClaimsUnderWay.
        """
        token = secrets.token_hex(8)
        if all_have_arrived:
            # This Redis is not certified: every packet is looked at again if this process dies.
            await self._scripts.suspend(packet_id, token)
            return await self._rebuild(packet_id, token)
        await note_rebuild(self._database, packet_id, token)
        await self._scripts.suspend(packet_id, token)
        await self._in_flight.arrived()
        await note_rebuild(self._database, packet_id, token)
        left = await self._rebuild(packet_id, token)
        await forget_rebuild(self._database, packet_id, token)
        return left

    async def _rebuild(self, packet_id: PacketId, token: str) -> int:
        """With the packet suspended under `token` and everything booked that it gave before."""
        # Read after the suspension: who closes the books has either closed the packet before, and
        # then this shows it, or will find it suspended.
        packet = await find_packet(self._database, packet_id)
        if packet.state == "settled":
            await self._scripts.retire(packet_id, KEEP_MS)
            return 0
        claims = await self._all_booked(packet_id)
        if await self._resend_unbooked(packet_id, claims):
            await self._in_flight.arrived()
            claims = await self._all_booked(packet_id)
        amounts = await self._splitting.amounts(terms_of(packet), bytes(packet.seed))
        await self._restore(packet_id, token, amounts, claims)
        resumed = await self._scripts.resume(
            packet_id,
            token,
            shares=packet.shares,
            total_fen=Fen(packet.total_fen),
            opens_at_ms=to_ms(packet.opens_at),
            expires_at_ms=to_ms(packet.expires_at),
            closed=packet.state == "closing",
        )
        if resumed.status is ResumeStatus.SUPERSEDED:
            raise RebuildSuperseded(packet_id)
        if resumed.status is ResumeStatus.MISMATCH:
            raise RebuildFailed(
                f"packet {packet_id}: {resumed.restored} shares of {resumed.restored_fen} fen"
            )
        if packet.state == "funded":
            await note_open(self._database, packet_id)
        return packet.shares - len(claims)

    async def _lost_claims(self, packet_id: PacketId, claims_key: str) -> str | None:
        after_seq = lost = 0
        while booked := await self._booked(packet_id, after_seq):
            users = [row["user_id"] for row in booked]
            held = cast(list[Any], await self._redis.hmget(claims_key, users))
            for row, value in zip(booked, held, strict=True):
                expected = b"%d:%d:" % (row["seq"], row["amount_fen"])
                lost += value is None or not value.startswith(expected)
            after_seq = booked[-1]["seq"]
        return f"{lost} booked claims are missing" if lost else None

    async def _booked(self, packet_id: PacketId, after_seq: int) -> list[dict[str, Any]]:
        return await self._database.rows(PAGE_OF_CLAIMS, [packet_id, after_seq, ROWS_PER_READ])

    async def _all_booked(self, packet_id: PacketId) -> dict[int, RestoredShare]:
        claims: dict[int, RestoredShare] = {}
        after_seq = 0
        while booked := await self._booked(packet_id, after_seq):
            for row in booked:
                at_ms = read_ms(row["claimed_at"])
                claims[row["seq"]] = RestoredShare(
                    row["seq"], row["amount_fen"], at_ms, UserId(row["user_id"])
                )
            after_seq = booked[-1]["seq"]
        return claims

    async def _resend_unbooked(self, packet_id: PacketId, claims: dict[int, RestoredShare]) -> bool:
        """Send what Redis says was claimed and MySQL does not know; True when there was any."""
        users: list[UserId] = []
        try:
            async for user_id, grab in self._live.claims(packet_id):
                if not _is_booked(user_id, grab, claims):
                    users.append(user_id)
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
        for first in range(0, len(users), MAX_USERS_PER_GRAB):
            await self._scripts.resend(packet_id, users[first : first + MAX_USERS_PER_GRAB])
        if users:
            log.warning("packet %d: %d claims were sent once more", packet_id, len(users))
        return bool(users)

    async def _restore(
        self,
        packet_id: PacketId,
        token: str,
        amounts: Sequence[Fen],
        claims: dict[int, RestoredShare],
    ) -> None:
        for offset in range(0, len(amounts), MAX_SHARES_PER_LOAD):
            part = amounts[offset : offset + MAX_SHARES_PER_LOAD]
            chunk = _restored(packet_id, offset, part, claims)
            restored = await self._scripts.restore(packet_id, token, len(amounts), offset, chunk)
            if restored.status is RestoreStatus.SUPERSEDED:
                raise RebuildSuperseded(packet_id)
            if restored.status is not RestoreStatus.OK:
                raise RebuildFailed(
                    f"packet {packet_id}: chunk at {offset} refused, {restored.status.name}"
                )


def _is_booked(user_id: UserId, grab: Grab, claims: dict[int, RestoredShare]) -> bool:
    booked = claims.get(grab.seq)
    return booked is not None and booked.user_id == user_id


def _restored(
    packet_id: PacketId, offset: int, amounts: Sequence[Fen], claims: dict[int, RestoredShare]
) -> list[RestoredShare]:
    """The shares after the first `offset` ones: as they were claimed, or as the split made them."""
    shares = []
    for seq, amount_fen in enumerate(amounts, start=offset + 1):
        share = claims.get(seq) or RestoredShare(seq, amount_fen)
        if share.amount_fen != amount_fen:
            raise RebuildFailed(
                f"packet {packet_id}: share {seq} is booked with {share.amount_fen} fen,"
                f" the split says {amount_fen}"
            )
        shares.append(share)
    return shares
