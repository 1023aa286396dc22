"""One connection to RabbitMQ at a time, made again with a growing pause whenever it breaks."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 5.0
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0


class ConnectionLost(Exception):
    """RabbitMQ closed the connection or the channel."""


class Session:
    """A connection with one channel; `lost` is set when either is gone."""

    def __init__(self, connection: AbstractConnection, channel: AbstractChannel) -> None:
        self.channel = channel
        self.lost = asyncio.Event()
        connection.close_callbacks.add(self._note_lost)
        channel.close_callbacks.add(self._note_lost)

    def _note_lost(self, *_: Any) -> None:
        self.lost.set()


@asynccontextmanager
async def session(url: str) -> AsyncIterator[Session]:
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        connection = await aio_pika.connect(url)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            # An unroutable message must be an error: the relay would delete a claim nobody queued.
            channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        yield Session(connection, channel)
    finally:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await connection.close()


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


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Wait, but no longer than until `stop` is set."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
