"""Reads a queue in batches: one transaction a batch, and acknowledgements only after its COMMIT."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue

from app.control.pausing import pause
from workers.amqp import FIRST_PAUSE_S, LONGEST_PAUSE_S, Session, keep_running, session

log = logging.getLogger(__name__)

PREFETCH: Final = 32  # messages of up to 64 KiB
BATCH_BYTES: Final = 96 * 1024
BROKER_TIMEOUT_S: Final = 10.0  # to subscribe, and to take the acknowledgements of a batch

Declare = Callable[[AbstractChannel], Awaitable[AbstractQueue]]
Handle = Callable[[Sequence[AbstractIncomingMessage]], Awaitable[None]]


class Consumer:
    """Feeds a queue to a handler. A batch that fails is held and tried again."""

    def __init__(self, name: str, url: str, declare: Declare, handle: Handle) -> None:
        self._name = name
        self._url = url
        self._declare = declare
        self._handle = handle

    async def run(self, stop: asyncio.Event) -> None:
        await keep_running(self._name, lambda: self._consume_until(stop), stop)

    async def _consume_until(self, stop: asyncio.Event) -> None:
        """One message at a time until one comes for the first time, and many at a time then.

        What comes again may be what killed the consumer before. It is taken alone, so that no
        message beside it is charged with a delivery that was not its fault.
        """
        if await self._consume(stop, prefetch=1, until_fresh=True):
            await self._consume(stop, prefetch=PREFETCH, until_fresh=False)

    async def _consume(self, stop: asyncio.Event, *, prefetch: int, until_fresh: bool) -> bool:
        """Consume until `stop`; `until_fresh`: True once a message came for the first time."""
        # A session each: a consumer keeps the prefetch it began with.
        async with session(self._url) as opened:
            arrived = await _subscribe(opened, self._declare, prefetch)
            while batch := await _next_batch(opened, arrived, stop):
                if not await self._handle_batch(batch, stop, opened.lost):
                    return False
                if until_fresh and not batch[0].redelivered:
                    return True
        return False

    async def _handle_batch(
        self,
        batch: Sequence[AbstractIncomingMessage],
        stop: asyncio.Event,
        lost: asyncio.Event,
    ) -> bool:
        """True once the batch is handled and acknowledged; False leaves it to be sent again."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                await self._handle(batch)
                break
            except Exception as error:
                log.warning("%s: %d messages: %r; trying again", self._name, len(batch), error)
            await pause(stop, pause_s)
            if stop.is_set() or lost.is_set():
                return False
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        async with asyncio.timeout(BROKER_TIMEOUT_S):
            # Each by itself: `multiple` would speak for every earlier message of the channel too.
            for message in batch:
                await message.ack()
        return True


async def _subscribe(
    opened: Session, declare: Declare, prefetch: int
) -> asyncio.Queue[AbstractIncomingMessage]:
    """Declare the queue and consume it; the returned queue never holds more than `prefetch`."""
    arrived: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    async with asyncio.timeout(BROKER_TIMEOUT_S):
        await opened.channel.set_qos(prefetch_count=prefetch)
        queue = await declare(opened.channel)
        await opened.notice_cancelled_consumers()
        await queue.consume(arrived.put)
    return arrived


async def _next_batch(
    opened: Session, arrived: asyncio.Queue[AbstractIncomingMessage], stop: asyncio.Event
) -> list[AbstractIncomingMessage]:
    """Wait for messages and take what is there, up to BATCH_BYTES; nothing once `stop` is set.

    Raises ConnectionLost.
    """
    message = await opened.next_of(arrived, stop)
    if message is None:
        return []
    batch = [message]
    size = len(message.body)
    while size < BATCH_BYTES and not arrived.empty():
        batch.append(arrived.get_nowait())
        size += len(batch[-1].body)
    return batch
