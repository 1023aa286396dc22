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
        async with session(self._url) as opened:
            subscription = await _Subscription.begin(opened, self._declare)
            while batch := await subscription.next_batch(stop):
                if not await self._handle_batch(batch, stop, opened.lost):
                    return
                await subscription.trust()

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


class _Subscription:
    """The queue's messages as they arrive: one at a time until one comes for the first time.

    What comes again may be what killed the consumer before. It is taken alone, so that no message
    beside it is charged with a delivery that was not its fault.
    """

    def __init__(self, opened: Session) -> None:
        self._opened = opened
        self._arrived: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
        self._prefetch = 0
        self._came_before = False

    @classmethod
    async def begin(cls, opened: Session, declare: Declare) -> "_Subscription":
        subscription = cls(opened)
        async with asyncio.timeout(BROKER_TIMEOUT_S):
            await subscription._take(1)
            queue = await declare(opened.channel)
            await opened.notice_cancelled_consumers()
            await queue.consume(subscription._arrived.put)
        return subscription

    async def next_batch(self, stop: asyncio.Event) -> list[AbstractIncomingMessage]:
        """Wait for messages and take what is there, up to BATCH_BYTES; nothing once `stop` is set.

        Raises ConnectionLost.
        """
        message = await self._opened.next_of(self._arrived, stop)
        if message is None:
            return []
        self._came_before = bool(message.redelivered)
        batch = [message]
        size = len(message.body)
        while size < BATCH_BYTES and not self._arrived.empty():
            batch.append(self._arrived.get_nowait())
            size += len(batch[-1].body)
        return batch

    async def trust(self) -> None:
        """After a batch that did no harm, let more than one message come at a time."""
        if self._prefetch == 1 and not self._came_before:
            async with asyncio.timeout(BROKER_TIMEOUT_S):
                await self._take(PREFETCH)

    async def _take(self, prefetch: int) -> None:
        await self._opened.channel.set_qos(prefetch_count=prefetch)
        self._prefetch = prefetch
