"""One typed call a script. Those that grabs depend on run under the certificate of their server."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, cast

from redis.exceptions import NoScriptError

from lua.certificate import Certificate
from lua.ids import PacketId, UserId
from lua.keys import KeySpace, PacketKeys
from lua.replies import (
    Closed,
    CloseStatus,
    Grab,
    GrabReply,
    GrabStatus,
    Loaded,
    LoadStatus,
    Opened,
    OpenStatus,
    ResendStatus,
    Resent,
    Restored,
    RestoredShare,
    RestoreStatus,
    Resumed,
    ResumeStatus,
    Retired,
    RetireStatus,
    Suspended,
    SuspendStatus,
)
from lua.script import CommandRunner, Script
from splitter.money import Fen

MAX_USERS_PER_GRAB: Final = 1000  # HSET takes two arguments a user, and Lua unpacks under 8,000
MAX_SHARES_PER_LOAD: Final = 2000
MAX_BOARD_SCORE: Final = 2**53 - 1


def tie_factor(shares: int) -> int:
    """The room a board score keeps below the amount so that equal amounts rank in claim order."""
    return 1 << shares.bit_length()


# Sends the command of a script; the keys are those of its packet.
CertifiedCall = Callable[[CommandRunner, PacketKeys, tuple[Any, ...]], Awaitable[Any]]


async def call_once(redis: CommandRunner, _: PacketKeys, command: tuple[Any, ...]) -> Any:
    return await redis.execute_command(*command)


class Scripts:
    """The atomic operations on packets, over one Redis connection pool.

    `call_grab` sends the grab: a durability level may want more than the server's word for it.
    """

    def __init__(
        self,
        redis: CommandRunner,
        keys: KeySpace,
        certificate: Certificate,
        call_grab: CertifiedCall = call_once,
    ) -> None:
        self._redis = redis
        self._keys = keys
        self._certificate = certificate
        self._call_grab = call_grab
        self._load = Script("load")
        self._open = Script("open")
        self._grab = Script("grab")
        self._close = Script("close")
        self._suspend = Script("suspend")
        self._restore = Script("restore")
        self._resume = Script("resume")
        self._resend = Script("resend")
        self._retire = Script("retire")

    async def load(
        self, packet_id: PacketId, shares: int, offset: int, amounts: Sequence[Fen]
    ) -> Loaded:
        """Load one chunk of a packet of `shares` shares, `offset` shares after the first."""
        if not 1 <= len(amounts) <= MAX_SHARES_PER_LOAD:
            raise ValueError(f"a chunk is 1 to {MAX_SHARES_PER_LOAD} shares, got {len(amounts)}")
        reply = await self._certified(self._load, packet_id, [offset, tie_factor(shares), *amounts])
        if reply is None:
            return Loaded(LoadStatus.UNCERTIFIED, 0)
        return Loaded(LoadStatus(reply[0]), reply[1])

    async def open(
        self,
        packet_id: PacketId,
        *,
        shares: int,
        total_fen: Fen,
        opens_at_ms: int,
        expires_at_ms: int,
    ) -> Opened:
        args = [shares, total_fen, opens_at_ms, expires_at_ms, tie_factor(shares)]
        reply = await self._certified(self._open, packet_id, args)
        if reply is None:
            return Opened(OpenStatus.UNCERTIFIED, 0, Fen(0))
        return Opened(OpenStatus(reply[0]), reply[1], Fen(reply[2]))

    async def grab(self, packet_id: PacketId, user_ids: Sequence[UserId]) -> GrabReply:
        """Grab for many users at once; `grabs` is in the order of `user_ids`, empty unless OK."""
        if not 1 <= len(user_ids) <= MAX_USERS_PER_GRAB:
            raise ValueError(f"a call is 1 to {MAX_USERS_PER_GRAB} users, got {len(user_ids)}")
        reply = await self._certified(
            self._grab, packet_id, [packet_id, *user_ids], self._call_grab
        )
        if reply is None:
            return GrabReply(GrabStatus.UNCERTIFIED, 0, [])
        grabs = [Grab._make(reply[at : at + 4]) for at in range(2, len(reply), 4)]
        return GrabReply(GrabStatus(reply[0]), reply[1], grabs)

    async def close(self, packet_id: PacketId) -> Closed:
        reply = await self._certified(self._close, packet_id, [])
        if reply is None:
            return Closed(CloseStatus.UNCERTIFIED, 0, 0)
        return Closed(CloseStatus(reply[0]), reply[1], reply[2])

    async def suspend(self, packet_id: PacketId, rebuild: str) -> Suspended:
        """Stop all grabs of a packet; `rebuild` names the rebuilding that owns it from now on."""
        [status] = await self._suspend.run(self._redis, self._keys.packet(packet_id), [rebuild])
        return Suspended(SuspendStatus(status))

    async def restore(
        self,
        packet_id: PacketId,
        rebuild: str,
        shares: int,
        offset: int,
        chunk: Sequence[RestoredShare],
    ) -> Restored:
        """Put one chunk of a suspended packet of `shares` shares back, by seq."""
        if not 1 <= len(chunk) <= MAX_SHARES_PER_LOAD:
            raise ValueError(f"a chunk is 1 to {MAX_SHARES_PER_LOAD} shares, got {len(chunk)}")
        args = [rebuild, offset, tie_factor(shares), *(share.argument() for share in chunk)]
        status, restored = await self._restore.run(self._redis, self._keys.packet(packet_id), args)
        return Restored(RestoreStatus(status), restored)

    async def resume(
        self,
        packet_id: PacketId,
        rebuild: str,
        *,
        shares: int,
        total_fen: Fen,
        opens_at_ms: int,
        expires_at_ms: int,
        closed: bool,
    ) -> Resumed:
        state = "closed" if closed else "open"
        times = [opens_at_ms, expires_at_ms]
        args = [rebuild, shares, total_fen, *times, tie_factor(shares), state]
        status, restored, restored_fen = await self._resume.run(
            self._redis, self._keys.packet(packet_id), args
        )
        return Resumed(ResumeStatus(status), restored, Fen(restored_fen))

    async def resend(self, packet_id: PacketId, user_ids: Sequence[UserId]) -> Resent:
        """Write the claims of these users to the outbox once more."""
        if not 1 <= len(user_ids) <= MAX_USERS_PER_GRAB:
            raise ValueError(f"a call is 1 to {MAX_USERS_PER_GRAB} users, got {len(user_ids)}")
        status, resent = await self._resend.run(
            self._redis, self._keys.packet(packet_id), [packet_id, *user_ids]
        )
        return Resent(ResendStatus(status), resent)

    async def retire(self, packet_id: PacketId, keep_ms: int) -> Retired:
        """Keep a settled packet closed, and let its keys go after `keep_ms` milliseconds."""
        [status] = await self._retire.run(self._redis, self._keys.packet(packet_id), [keep_ms])
        return Retired(RetireStatus(status))

    async def _certified(
        self,
        script: Script,
        packet_id: PacketId,
        args: Sequence[Any],
        call: CertifiedCall = call_once,
    ) -> list[int] | None:
        """The reply; None where no certificate is known, or the server was not given it."""
        token = self._certificate.token
        if token is None:
            return None
        keys = self._keys.packet(packet_id)
        command = script.command(token, keys, args)
        try:
            return cast(list[int], await call(self._redis, keys, command))
        except NoScriptError:
            return None
