"""One connection to RabbitMQ at a time, made again with a growing pause whenever it breaks."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs, urlsplit

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection

from app.control.pausing import pause

T = TypeVar("T")

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 5.0
CLOSE_TIMEOUT_S: Final = 5.0
HEARTBEAT_S: Final = 10  # unless the URL names one; a dead link shows after three missed
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 1.0  # what waits for us, Redis to be certified above all, waits no longer


class ConnectionLost(Exception):
    """RabbitMQ closed the connection or the channel, or cancelled the consumer."""


class Session:
    """A connection with one channel; `lost` is set when either is gone, or a consumer of it."""

    def __init__(self, connection: AbstractConnection, channel: AbstractChannel) -> None:
        self.channel = channel
        self.lost = asyncio.Event()
        connection.close_callbacks.add(self._note_lost)
        channel.close_callbacks.add(self._note_lost)

    async def notice_cancelled_consumers(self) -> None:
        """Count a consumer that the broker cancelled, as when its queue is deleted, as a loss.

        The channel itself stays open then, and nothing would ever be delivered on it again.
        """
        underlay = await self.channel.get_underlay_channel()
        underlay.on_consumer_cancel_callbacks.add(self._note_lost)

    async def next_of(self, arrived: asyncio.Queue[T], stop: asyncio.Event) -> T | None:
        """Wait for what arrives next; None when `stop` is set. Raises ConnectionLost."""
        item = asyncio.create_task(arrived.get())
        ends = [asyncio.create_task(stop.wait()), asyncio.create_task(self.lost.wait())]
        try:
            await asyncio.wait([item, *ends], return_when=asyncio.FIRST_COMPLETED)
            if self.lost.is_set():
                raise ConnectionLost
            return item.result() if item.done() else None
        finally:
            for task in (item, *ends):
                task.cancel()

    def _note_lost(self, *_: Any) -> None:
        self.lost.set()


@asynccontextmanager
async def session(url: str) -> AsyncIterator[Session]:
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        connection = await aio_pika.connect(with_heartbeat(url))
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            # An unroutable message must be an error: the relay would delete a claim nobody queued.
            channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        yield Session(connection, channel)
    finally:
        # A broker that does not answer the farewell must not hide why we are leaving.
        with suppress(Exception):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await connection.close()


def with_heartbeat(url: str) -> str:
    query = urlsplit(url).query
    if "heartbeat" in parse_qs(query):
        return url
    return f"{url}{'&' if query else '?'}heartbeat={HEARTBEAT_S}"


async def keep_running(name: str, work: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
    """Run `work` again and again until `stop`; a failure is logged and followed by a pause.

    `work` returns when `stop` is set, and raises on trouble.
    """
    pause_s = FIRST_PAUSE_S
    loop = asyncio.get_running_loop()
    while not stop.is_set():
        began_s = loop.time()
        try:
            await work()
        except Exception as error:
            log.warning("%s: %r; trying again", name, error)
        if loop.time() - began_s > LONGEST_PAUSE_S:
            pause_s = FIRST_PAUSE_S
        await pause(stop, pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
