"""Outbox stream to RabbitMQ: an entry leaves Redis only after the broker has confirmed it."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from lua.keys import KeySpace
from lua.scripts import CommandRunner
from workers.amqp import keep_running

log = logging.getLogger(__name__)

GROUP: Final = "relay"
ENTRIES_PER_STREAM: Final = 64  # one entry holds the claims of one script call
BLOCK_MS: Final = 1000  # under the socket time-out
ABANDONED_MS: Final = 10_000  # entries that another relay has read and not confirmed for this long
MESSAGE_BYTES: Final = 64 * 1024


class Publisher(Protocol):
    """Takes messages over: returns when all are safe elsewhere, raises when one may not be."""

    async def publish(self, bodies: Sequence[bytes]) -> None: ...


class _Entry(NamedTuple):
    stream: str
    entry_id: bytes
    body: bytes


class Relay:
    """Moves outbox entries to a publisher, many entries a message, at least once each."""

    def __init__(self, redis: Redis, keys: KeySpace, publisher: Publisher, name: str) -> None:
        self._redis = redis
        self._runner: CommandRunner = redis
        self._streams = keys.outboxes()
        self._publisher = publisher
        self._name = name

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
                next_takeover_s = loop.time() + ABANDONED_MS / 1000
            if entries := await self._read(">", block_ms=BLOCK_MS):
                await self._move(entries)

    async def _create_groups(self) -> None:
        for stream in self._streams:
            try:
                await self._redis.xgroup_create(stream, GROUP, id="0", mkstream=True)
            except ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise

    async def _read(self, after: str, block_ms: int | None) -> list[_Entry]:
        # execute_command: the typed call answers in two shapes, by protocol version.
        options: list[Any] = ["BLOCK", block_ms] if block_ms else []
        reply = await self._runner.execute_command(
            *("XREADGROUP", "GROUP", GROUP, self._name, "COUNT", ENTRIES_PER_STREAM, *options),
            *("STREAMS", *self._streams, *[after] * len(self._streams)),
        )
        return list(_entries(reply))

    async def _take_over_abandoned(self) -> None:
        for stream in self._streams:
            _, claimed, *_ = await self._redis.xautoclaim(
                stream, GROUP, self._name, ABANDONED_MS, count=ENTRIES_PER_STREAM
            )
            entries = [_Entry(stream, entry_id, fields[b"claims"]) for entry_id, fields in claimed]
            if entries:
                log.info("took over %d entries of %s", len(entries), stream)
                await self._move(entries)

    async def _move(self, entries: Sequence[_Entry]) -> None:
        await self._publisher.publish(list(pack([entry.body for entry in entries])))
        ids: dict[str, list[bytes]] = {}
        for entry in entries:
            ids.setdefault(entry.stream, []).append(entry.entry_id)
        async with self._redis.pipeline(transaction=False) as pipeline:
            for stream, stream_ids in ids.items():
                pipeline.xack(stream, GROUP, *stream_ids)
                pipeline.xdel(stream, *stream_ids)
            await pipeline.execute()


def _entries(reply: Any) -> Iterator[_Entry]:
    if not reply:
        return
    streams = reply.items() if isinstance(reply, dict) else reply
    for stream, entries in streams:
        for entry_id, fields in entries:
            if fields:  # an entry of our own pending list that was deleted has none
                yield _Entry(stream.decode(), entry_id, _body(fields))


def _body(fields: Any) -> bytes:
    body: bytes = fields[b"claims"] if isinstance(fields, dict) else fields[1]
    return body


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
