"""Outbox stream to RabbitMQ: an entry leaves Redis only after the broker has confirmed it."""

import asyncio
import logging
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from app.control.alarm import raise_alarm
from app.control.pausing import pause
from app.recovery.deployment import Deployment
from lua.certificate import held_tokens
from lua.keys import KeySpace, is_wrong_type
from lua.script import CommandRunner
from workers.amqp import keep_running

log = logging.getLogger(__name__)

MESSAGE_BYTES: Final = 64 * 1024
_FIELD: Final = b"claims"
_FROM_START: Final = b"0-0"


class Publisher(Protocol):
    """Takes messages over: returns when all are safe elsewhere, raises when one may not be."""

    async def publish(self, bodies: Sequence[bytes]) -> None: ...


@dataclass(frozen=True, slots=True)
class RelayLimits:
    """One entry holds the claims of one script call, up to about 20 KiB."""

    entries_per_read: int = 1024  # over all streams, but one of each at least
    entries_per_stream: int = 64
    block_ms: int = 1000  # under the socket time-out
    abandoned_ms: int = 10_000  # what another relay has read and not confirmed for this long
    # Without a backlog, entries are left to gather for this long: a message costs broker, consumer
    # and database about the same whether it holds 10 claims or 200.
    gather_ms: int = 10

    def of_each(self, streams: int) -> int:
        return max(1, min(self.entries_per_stream, self.entries_per_read // streams))


class _Entry(NamedTuple):
    stream: str
    entry_id: bytes
    body: bytes


class Relay:
    """Moves outbox entries to a publisher, many entries a message, at least once each."""

    def __init__(
        self,
        redis: Redis,
        keys: KeySpace,
        deployment: Deployment,
        publisher: Publisher,
        name: str,
        limits: RelayLimits | None = None,
    ) -> None:
        self._redis = redis
        self._runner: CommandRunner = redis
        self._keys = keys
        self._streams = keys.outboxes()
        self._deployment = deployment
        # Where the address comes to lead to another deployment's server there is no such group.
        self.group: Final = f"relay:{deployment.name}"
        self._publisher = publisher
        self._name = name
        self._limits = limits or RelayLimits()
        self._count = self._limits.of_each(len(self._streams))

    async def run(self, stop: asyncio.Event) -> None:
        await keep_running("relay", lambda: self._relay_until(stop), stop)

    async def drain(self) -> int:
        """Move all that is in the outbox now; returns the number of entries."""
        await self._create_groups()
        moved = 0
        while entries := await self._read(">", block_ms=None):
            await self._move(entries)
            moved += len(entries)
        return moved

    async def _relay_until(self, stop: asyncio.Event) -> None:
        await self._create_groups()
        # What this relay had read before it died or failed comes first.
        while entries := await self._read("0", block_ms=None):
            await self._move(entries)
        loop = asyncio.get_running_loop()
        next_takeover_s = 0.0
        while not stop.is_set():
            if loop.time() >= next_takeover_s:
                await self._take_over_abandoned()
                next_takeover_s = loop.time() + self._limits.abandoned_ms / 1000
            if entries := await self._read(">", block_ms=self._limits.block_ms):
                await self._move(entries)
                if len(entries) < self._count:
                    await pause(stop, self._limits.gather_ms / 1000)

    async def _create_groups(self) -> None:
        _, tokens = await held_tokens(self._redis, self._keys)
        self._deployment.refuse_foreign(tokens)
        for stream in self._streams:
            try:
                await self._redis.xgroup_create(stream, self.group, id="0", mkstream=True)
            except ResponseError as error:
                if is_wrong_type(error):
                    await self._put_aside(stream)
                elif "BUSYGROUP" not in str(error):
                    raise

    async def _put_aside(self, stream: str) -> None:
        """Somebody wrote something else over an outbox: keep it, and let grabs go on."""
        name = f"{stream}:put-aside:{secrets.token_hex(4)}"
        async with self._redis.pipeline(transaction=True) as pipeline:
            await pipeline.watch(stream)
            if await pipeline.type(stream) in (b"stream", b"none"):  # another relay was here
                return
            pipeline.multi()  # type: ignore[no-untyped-call]
            pipeline.rename(stream, name)
            pipeline.xgroup_create(stream, self.group, id="0", mkstream=True)
            await pipeline.execute()
        raise_alarm("outbox overwritten", f"what was written over {stream} is kept as {name}")

    async def _read(self, after: str, block_ms: int | None) -> list[_Entry]:
        # execute_command: the typed call answers in two shapes, by protocol version.
        options: list[Any] = ["BLOCK", block_ms] if block_ms else []
        reply = await self._runner.execute_command(
            *("XREADGROUP", "GROUP", self.group, self._name, "COUNT", self._count, *options),
            *("STREAMS", *self._streams, *[after] * len(self._streams)),
        )
        return list(_entries(reply))

    async def _take_over_abandoned(self) -> None:
        for stream in self._streams:
            cursor = _FROM_START
            while True:
                reply = await self._runner.execute_command(
                    *(
                        "XAUTOCLAIM",
                        stream,
                        self.group,
                        self._name,
                        self._limits.abandoned_ms,
                        cursor,
                    ),
                    *("COUNT", self._count),
                )
                cursor = reply[0]
                if entries := list(_entries({stream.encode(): reply[1]})):
                    log.info("took over %d entries of %s", len(entries), stream)
                    await self._move(entries)
                if cursor == _FROM_START:
                    break

    async def _move(self, entries: Sequence[_Entry]) -> None:
        await self._publisher.publish(list(pack([entry.body for entry in entries])))
        ids: dict[str, list[bytes]] = {}
        for entry in entries:
            ids.setdefault(entry.stream, []).append(entry.entry_id)
        async with self._redis.pipeline(transaction=False) as pipeline:
            for stream, stream_ids in ids.items():
                # Both or neither: an entry that is acknowledged but not deleted is read by no one,
                # and stays for ever. A transaction a stream, for each may be in another slot.
                pipeline.execute_command("MULTI")
                pipeline.xack(stream, self.group, *stream_ids)
                pipeline.xdel(stream, *stream_ids)
                pipeline.execute_command("EXEC")
            await pipeline.execute()


def _entries(reply: Any) -> Iterator[_Entry]:
    """The entries of an XREADGROUP reply, in the shape of either protocol version."""
    if not reply:
        return
    streams = reply.items() if isinstance(reply, dict) else reply
    for stream, found in streams:
        # Protocol 3 wraps the entries of a stream once more; an entry begins with its id.
        wrapped = len(found) == 1 and not isinstance(next(iter(found[0]), None), bytes)
        for entry_id, fields in found[0] if wrapped else found:
            if fields:  # an entry of our own pending list that was deleted has none
                yield _Entry(stream.decode(), entry_id, _body(fields))


def _body(fields: Any) -> bytes:
    """What grab.lua wrote; of anything else all there is, for the consumer to set aside."""
    named = fields if isinstance(fields, dict) else dict(zip(*[iter(fields)] * 2, strict=True))
    body = named.get(_FIELD)
    return body if isinstance(body, bytes) else repr(fields).encode()


def pack(bodies: Sequence[bytes]) -> Iterator[bytes]:
    """Join entries into messages, an entry a line, of about MESSAGE_BYTES."""
    lines: list[bytes] = []
    size = 0
    for body in bodies:
        if lines and size + len(body) > MESSAGE_BYTES:
            yield b"\n".join(lines)
            lines, size = [], 0
        lines.append(body)
        size += len(body)
    if lines:
        yield b"\n".join(lines)
