"""A place where the real scripts run on a real server, and where one sees what they wrote."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self, cast

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from lua.certificate import Certificate, install_certificate
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
    Outcome,
)
from lua.script import CommandRunner, Script, script_names
from lua.scripts import Scripts
from splitter.money import Fen
from tests.servers.redis import RedisServer

PACKET: Final = PacketId(4711)
LONG_AGO_MS: Final = 1_000_000_000_000  # 2001
FAR_AHEAD_MS: Final = 4_102_444_800_000  # 2100
SOCKET_TIMEOUT_S: Final = 10.0
# The right type of no key of a packet.
WRONG_TYPE_VALUE: Final = "a string"
VERBS: Final = script_names()
# The keys a script works on.
KEYS_OF: Final = {verb: Script(verb).key_names for verb in VERBS}
TOKEN: Final = "lab.token"

Client = Redis | RedisCluster


class Share(NamedTuple):
    seq: int
    amount_fen: int


class BoardRow(NamedTuple):
    user: str
    score: int


@dataclass(frozen=True)
class LabServer:
    """A server and the kind of client its users have. `cluster`: they speak Cluster to it."""

    server: RedisServer
    cluster: bool

    def connect(self) -> Client:
        retry = Retry(NoBackoff(), 0)
        if self.cluster:
            return RedisCluster.from_url(
                self.server.url,
                decode_responses=True,
                socket_timeout=SOCKET_TIMEOUT_S,
                retry=retry,
            )
        return self.connect_plainly()

    def connect_plainly(self) -> Redis:
        """A client of this one node. On the cluster too it reaches every key: there is one node."""
        return Redis.from_url(
            self.server.url,
            decode_responses=True,
            socket_timeout=SOCKET_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )


class Held(NamedTuple):
    """All that Redis holds of a packet; `messages` are those of its partition."""

    state: str | None
    remaining: list[Share]
    claims: dict[str, Grab]
    board: list[str]
    messages: list[dict[str, Any]]


@dataclass
class Lab:
    """The scripts under a key prefix of their own, and `raw` eyes and hands beside them."""

    place: LabServer
    client: Client
    raw: Redis
    prefix: str
    keys: KeySpace
    scripts: Scripts
    certificate: Certificate

    @classmethod
    async def enter(cls, place: LabServer, prefix: str) -> Self:
        client, raw = place.connect(), place.connect_plainly()
        keys = KeySpace(prefix=prefix)
        certificate = Certificate(TOKEN)
        scripts = Scripts(client, keys, certificate)
        lab = cls(place, client, raw, prefix, keys, scripts, certificate)
        await lab.certify()
        return lab

    async def move_to(self, prefix: str) -> None:
        """Go on under another, unused prefix, over the same connections."""
        await self._forget_certificates()
        self.prefix = prefix
        self.keys = KeySpace(prefix=prefix)
        self.scripts = Scripts(self.client, self.keys, self.certificate)
        await self.certify()

    async def _forget_certificates(self) -> None:
        # Left behind they would be walked through by every later snapshot.
        async with self.raw.pipeline(transaction=False) as pipeline:
            for key in self.keys.certificates():
                pipeline.unlink(key)
            await pipeline.execute()

    async def certify(self) -> None:
        await install_certificate(self.raw, self.keys, TOKEN)

    async def leave(self) -> None:
        await self._forget_certificates()
        await self.client.aclose()
        await self.raw.aclose()

    def of(self, packet_id: PacketId = PACKET) -> PacketKeys:
        return self.keys.packet(packet_id)

    async def load(
        self, amounts: Sequence[int], packet_id: PacketId = PACKET, chunk: int = 2000
    ) -> None:
        for at in range(0, len(amounts), chunk):
            part = fen(amounts[at : at + chunk])
            loaded = await self.scripts.load(packet_id, len(amounts), at, part)
            assert loaded == Loaded(LoadStatus.OK, at + len(part))

    async def open(
        self,
        amounts: Sequence[int],
        packet_id: PacketId = PACKET,
        *,
        opens_at_ms: int = LONG_AGO_MS,
        expires_at_ms: int = FAR_AHEAD_MS,
    ) -> None:
        """Load and open a packet of these shares."""
        await self.load(amounts, packet_id)
        opened = await self.scripts.open(
            packet_id,
            shares=len(amounts),
            total_fen=Fen(sum(amounts)),
            opens_at_ms=opens_at_ms,
            expires_at_ms=expires_at_ms,
        )
        assert opened == Opened(OpenStatus.OK, len(amounts), Fen(sum(amounts)))

    async def grab(self, *users: str, packet_id: PacketId = PACKET) -> list[Grab]:
        """What each user of one call got, the call itself being OK."""
        reply = await self.try_grab(*users, packet_id=packet_id)
        assert reply.status is GrabStatus.OK
        assert len(reply.grabs) == len(users)
        return reply.grabs

    async def try_grab(self, *users: str, packet_id: PacketId = PACKET) -> GrabReply:
        return await self.scripts.grab(packet_id, [UserId(user) for user in users])

    async def grab_status(self, *users: str, packet_id: PacketId = PACKET) -> GrabStatus:
        """The status of a call that gave nobody anything."""
        reply = await self.try_grab(*users, packet_id=packet_id)
        assert reply.grabs == []
        return reply.status

    async def expire(self) -> None:
        await self.set_meta(expires_at_ms=LONG_AGO_MS)

    async def close(self, *, claimed: int, remaining: int) -> None:
        """Close a packet that has expired."""
        await self.expire()
        closed = await self.scripts.close(PACKET)
        assert closed == Closed(CloseStatus.OK, claimed, remaining)

    async def run(self, *command: Any) -> Any:
        return await cast(CommandRunner, self.raw).execute_command(*command)

    async def set_meta(self, **fields: int | str) -> None:
        pairs = [part for pair in fields.items() for part in pair]
        await self.run("HSET", self.of().meta, *pairs)

    async def state(self) -> str | None:
        state: str | None = await self.run("HGET", self.of().meta, "state")
        return state

    async def remaining(self) -> list[str]:
        shares: list[str] = await self.run("LRANGE", self.of().shares, 0, -1)
        return shares

    async def claims(self) -> dict[str, Grab]:
        """Every recorded claim, written as the grab that a repeat of it must answer."""
        claims: dict[str, str] = await self.run("HGETALL", self.of().claims)
        return {
            user: Grab(Outcome.REPEATED, *map(int, value.split(":")))
            for user, value in claims.items()
        }

    async def board(self) -> list[BoardRow]:
        """Best first, as it is served."""
        flat = await self.run("ZREVRANGE", self.of().board, 0, -1, "WITHSCORES")
        return [
            BoardRow(user, int(score)) for user, score in zip(flat[::2], flat[1::2], strict=True)
        ]

    async def outbox(self, packet_id: PacketId = PACKET) -> list[dict[str, Any]]:
        """The messages of the packet's partition, oldest first; an entry has nothing but one."""
        entries = await self.run("XRANGE", self.of(packet_id).outbox, "-", "+")
        assert all(list(fields) == ["claims"] for _, fields in entries)
        return [json.loads(fields["claims"]) for _, fields in entries]

    async def look(self) -> Held:
        return Held(
            state=await self.state(),
            remaining=[Share(*map(int, share.split(":"))) for share in await self.remaining()],
            claims=await self.claims(),
            board=[row.user for row in await self.board()],
            messages=await self.outbox(),
        )

    async def snapshot(self) -> dict[str, bytes]:
        """Everything under our prefix but the certificates, byte for byte."""
        found = {name async for name in self.raw.scan_iter(match=f"{self.prefix}:*")}
        names = sorted(found - set(self.keys.certificates()))
        return {name: await self.dump(name) or b"" for name in names}

    async def dump(self, key: str) -> bytes | None:
        return await self.raw.dump(key)

    async def restore(self, key: str, dumped: bytes | None) -> None:
        """Make a key what it was when it was dumped; None: it was not there."""
        await self.run("DEL", key)
        if dumped is not None:
            await self.run("RESTORE", key, 0, dumped)

    async def answers_or_changes_nothing(self, call: Callable[[], Awaitable[object]]) -> object:
        """The call's answer; when it raises, everything must be as before."""
        before = await self.snapshot()
        try:
            return await call()
        except Exception:
            assert await self.snapshot() == before
            raise


def fen(amounts: Sequence[int]) -> list[Fen]:
    return [Fen(amount) for amount in amounts]


def users(count: int, first: int = 1) -> list[str]:
    return [f"u{number}" for number in range(first, first + count)]
