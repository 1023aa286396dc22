"""Tells everybody, through Redis, how many messages wait in RabbitMQ."""

import asyncio
from typing import Final

from redis.asyncio import Redis

from app.control.pausing import pause
from lua.keys import KeySpace
from workers.amqp import keep_running, session
from workers.topology import LEDGER_QUEUE

EVERY_S: Final = 0.5
KNOWN_FOR_MS: Final = 10_000  # without a relay nothing is queued, and outboxes tell the backlog
BROKER_TIMEOUT_S: Final = 5.0


class QueueWatch:
    """Runs beside a relay; several of them say the same."""

    def __init__(self, url: str, redis: Redis, keys: KeySpace) -> None:
        self._url = url
        self._redis = redis
        self._key = keys.queued()

    async def run(self, stop: asyncio.Event) -> None:
        await keep_running("queue watch", lambda: self._watch_until(stop), stop)

    async def _watch_until(self, stop: asyncio.Event) -> None:
        async with session(self._url) as opened:
            while not stop.is_set():
                async with asyncio.timeout(BROKER_TIMEOUT_S):
                    # A queue that is not there closes the channel; the next session asks again.
                    queue = await opened.channel.declare_queue(LEDGER_QUEUE, passive=True)
                waiting = queue.declaration_result.message_count or 0
                await self._redis.set(self._key, waiting, px=KNOWN_FOR_MS)
                await pause(stop, EVERY_S)
