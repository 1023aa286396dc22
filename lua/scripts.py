"""One typed call a script. Scripts go by hash, and again in full when the server lost them."""

from collections.abc import Sequence
from enum import IntEnum
from hashlib import sha1
from importlib.resources import files
from typing import Any, Final, NamedTuple, Protocol, cast

from redis.exceptions import NoScriptError

from lua.ids import PacketId, UserId
from lua.keys import KeySpace
from splitter.money import Fen

MAX_USERS_PER_GRAB: Final = 1000  # HSET takes two arguments a user, and Lua unpacks under 8,000
MAX_SHARES_PER_LOAD: Final = 2000
MAX_BOARD_SCORE: Final = 2**53 - 1


class CommandRunner(Protocol):
    """What a Redis, Redis Cluster or Valkey client offers to run one command."""

    async def execute_command(self, *args: Any, **options: Any) -> Any: ...


class LoadStatus(IntEnum):
    OK = 0
    ALREADY_OPEN = 1
    GAP = 2
    UNRANKABLE = 3


class OpenStatus(IntEnum):
    OK = 0
    ALREADY_OPEN = 1
    MISMATCH = 2


class GrabStatus(IntEnum):
    OK = 0
    UNKNOWN = 1
    LOADING = 2
    INCONSISTENT = 3


class CloseStatus(IntEnum):
    OK = 0
    UNKNOWN = 1
    LOADING = 2
    INCONSISTENT = 3


class Outcome(IntEnum):
    GRABBED = 1
    REPEATED = 2
    SOLD_OUT = 3
    NOT_OPEN_YET = 4
    EXPIRED = 5
    CLOSED = 6


class Grab(NamedTuple):
    """What one user got. `at_ms`: when it was claimed, or for NOT_OPEN_YET when grabs begin."""

    outcome: int  # an Outcome; a plain integer because the hot path compares millions of them
    seq: int
    amount_fen: int
    at_ms: int


class GrabReply(NamedTuple):
    status: GrabStatus
    now_ms: int
    grabs: list[Grab]


class Loaded(NamedTuple):
    status: LoadStatus
    loaded: int


class Opened(NamedTuple):
    status: OpenStatus
    loaded: int
    loaded_fen: Fen


class Closed(NamedTuple):
    status: CloseStatus
    claimed: int
    remaining: int


def tie_factor(shares: int) -> int:
    """The room a board score keeps below the amount so that equal amounts rank in claim order."""
    return 1 << shares.bit_length()


class Script:
    """A Lua file by name, run on a packet's keys."""

    def __init__(self, name: str) -> None:
        self.source: Final = files("lua").joinpath(f"{name}.lua").read_text(encoding="utf-8")
        self.sha: Final = sha1(self.source.encode(), usedforsecurity=False).hexdigest()

    async def run(
        self, redis: CommandRunner, keys: Sequence[str], args: Sequence[Any]
    ) -> list[int]:
        try:
            reply = await redis.execute_command("EVALSHA", self.sha, len(keys), *keys, *args)
        except NoScriptError:  # a restarted or promoted server has an empty script cache
            reply = await redis.execute_command("EVAL", self.source, len(keys), *keys, *args)
        return cast(list[int], reply)


class Scripts:
    """The atomic operations on packets, over one Redis connection pool."""

    def __init__(self, redis: CommandRunner, keys: KeySpace) -> None:
        self._redis = redis
        self._keys = keys
        self._load = Script("load")
        self._open = Script("open")
        self._grab = Script("grab")
        self._close = Script("close")

    async def load(
        self, packet_id: PacketId, shares: int, offset: int, amounts: Sequence[Fen]
    ) -> Loaded:
        """Load one chunk of a packet of `shares` shares, `offset` shares after the first."""
        if not 1 <= len(amounts) <= MAX_SHARES_PER_LOAD:
            raise ValueError(f"a chunk is 1 to {MAX_SHARES_PER_LOAD} shares, got {len(amounts)}")
        keys = self._keys.packet(packet_id)
        args = [offset, tie_factor(shares), *amounts]
        status, loaded = await self._load.run(self._redis, keys[:2], args)
        return Loaded(LoadStatus(status), loaded)

    async def open(
        self,
        packet_id: PacketId,
        *,
        shares: int,
        total_fen: Fen,
        opens_at_ms: int,
        expires_at_ms: int,
    ) -> Opened:
        keys = self._keys.packet(packet_id)
        args = [shares, total_fen, opens_at_ms, expires_at_ms, tie_factor(shares)]
        status, loaded, loaded_fen = await self._open.run(self._redis, keys[:4], args)
        return Opened(OpenStatus(status), loaded, Fen(loaded_fen))

    async def grab(self, packet_id: PacketId, user_ids: Sequence[UserId]) -> GrabReply:
        """Grab for many users at once; `grabs` is in the order of `user_ids`, empty unless OK."""
        if not 1 <= len(user_ids) <= MAX_USERS_PER_GRAB:
            raise ValueError(f"a call is 1 to {MAX_USERS_PER_GRAB} users, got {len(user_ids)}")
        reply = await self._grab.run(
            self._redis, self._keys.packet(packet_id), [packet_id, *user_ids]
        )
        grabs = [Grab._make(reply[at : at + 4]) for at in range(2, len(reply), 4)]
        return GrabReply(GrabStatus(reply[0]), reply[1], grabs)

    async def close(self, packet_id: PacketId) -> Closed:
        status, claimed, remaining = await self._close.run(
            self._redis, self._keys.packet(packet_id)[:3], []
        )
        return Closed(CloseStatus(status), claimed, remaining)
