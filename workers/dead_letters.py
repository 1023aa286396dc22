"""Where claims go that can never be booked, each alone, with the reason."""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractChannel

from app.ledger.claims import Rejected
from workers.topology import declare_dead_letter_queue

PUT_TIMEOUT_S: Final = 10.0
PUT_AT_ONCE: Final = 500
MAX_REASON: Final = 1000  # the headers of a message have to fit into one frame


class DeadLetters(Protocol):
    async def put(self, rejected: Sequence[Rejected]) -> None:
        """Return when all of them are kept; raise when one may not be."""


class AmqpDeadLetters:
    """Keeps them in the dead-letter queue of `queue`, with the reason as a header."""

    def __init__(self, channel: AbstractChannel, queue: str) -> None:
        self._channel = channel
        self._queue = queue

    async def put(self, rejected: Sequence[Rejected]) -> None:
        async with asyncio.timeout(PUT_TIMEOUT_S):
            # Again, for a queue that somebody deleted would hold up everything behind this.
            kept_in = await declare_dead_letter_queue(self._channel, self._queue)
        for first in range(0, len(rejected), PUT_AT_ONCE):
            async with asyncio.timeout(PUT_TIMEOUT_S), asyncio.TaskGroup() as confirms:
                for letter in rejected[first : first + PUT_AT_ONCE]:
                    confirms.create_task(self._publish(letter, kept_in.name))

    async def _publish(self, letter: Rejected, queue: str) -> None:
        message = Message(
            letter.body.encode(),
            delivery_mode=DeliveryMode.PERSISTENT,
            headers={"x-reason": letter.reason[:MAX_REASON]},
        )
        await self._channel.default_exchange.publish(message, queue, mandatory=True)


class FileDeadLetters:
    """Keeps them in a file of JSON lines, for dev mode, which has no broker."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def put(self, rejected: Sequence[Rejected]) -> None:
        await asyncio.to_thread(self._append, rejected)

    def _append(self, rejected: Sequence[Rejected]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            for body, reason in rejected:
                file.write(json.dumps({"body": body, "reason": reason}, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
