"""Reads a queue in batches: one transaction a batch, and acknowledgements only after its COMMIT."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from aio_pika.abc import AbstractIncomingMessage

from workers.amqp import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    ConnectionLost,
    Session,
    keep_running,
    pause,
    session,
)
from workers.dead_letters import AmqpDeadLetters
from workers.ledger import LedgerHandler
from workers.topology import LEDGER_QUEUE, declare_ledger_queue

log = logging.getLogger(__name__)

PREFETCH: Final = 32  # messages of up to 64 KiB
BATCH_BYTES: Final = 96 * 1024
BROKER_TIMEOUT_S: Final = 10.0  # to subscribe, and to take the acknowledgements of a batch


class LedgerConsumer:
    """Feeds the ledger queue to a handler. A batch that fails is held and tried again."""

    def __init__(self, url: str, make_handler: Callable[[AmqpDeadLetters], LedgerHandler]) -> None:
        self._url = url
        self._make_handler = make_handler

    async def run(self, stop: asyncio.Event) -> None:
        await keep_running("ledger consumer", lambda: self._consume_until(stop), stop)

    async def _consume_until(self, stop: asyncio.Event) -> None:
        async with session(self._url) as opened:
            handler = self._make_handler(AmqpDeadLetters(opened.channel, LEDGER_QUEUE))
            arrived = await _subscribe(opened)
            while not stop.is_set():
                batch = await _next_batch(arrived, stop, opened.lost)
                if batch:
                    await self._handle(handler.handle, batch, stop, opened.lost)

    async def _handle(
        self,
        handle: Callable[[Sequence[bytes]], Awaitable[None]],
        batch: Sequence[AbstractIncomingMessage],
        stop: asyncio.Event,
        lost: asyncio.Event,
    ) -> None:
        pause_s = FIRST_PAUSE_S
        bodies = [message.body for message in batch]
        while True:
            try:
                await handle(bodies)
                break
            except Exception as error:
                log.warning("batch of %d messages: %r; trying again", len(batch), error)
            await pause(stop, pause_s)
            if stop.is_set() or lost.is_set():
                return  # unacknowledged: it will be delivered again
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        async with asyncio.timeout(BROKER_TIMEOUT_S):
            # Each by itself: `multiple` would speak for every earlier message of the channel too.
            for message in batch:
                await message.ack()


async def _subscribe(opened: Session) -> asyncio.Queue[AbstractIncomingMessage]:
    """Declare the queue and consume it; the returned queue never holds more than PREFETCH."""
    arrived: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    async with asyncio.timeout(BROKER_TIMEOUT_S):
        await opened.channel.set_qos(prefetch_count=PREFETCH)
        queue = await declare_ledger_queue(opened.channel)
        await opened.notice_cancelled_consumers()
        await queue.consume(arrived.put)
    return arrived


async def _next_batch(
    arrived: asyncio.Queue[AbstractIncomingMessage], stop: asyncio.Event, lost: asyncio.Event
) -> list[AbstractIncomingMessage]:
    """Wait for messages and take what is there, up to BATCH_BYTES; nothing when `stop` is set."""
    message = asyncio.create_task(arrived.get())
    ends = [asyncio.create_task(stop.wait()), asyncio.create_task(lost.wait())]
    try:
        await asyncio.wait([message, *ends], return_when=asyncio.FIRST_COMPLETED)
        if lost.is_set():
            raise ConnectionLost
        if not message.done():
            return []
        batch = [message.result()]
    finally:
        for task in (message, *ends):
            task.cancel()
    size = len(batch[0].body)
    while size < BATCH_BYTES and not arrived.empty():
        batch.append(arrived.get_nowait())
        size += len(batch[-1].body)
    return batch
