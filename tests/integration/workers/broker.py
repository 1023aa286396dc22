"""RabbitMQ as a test sees it: the queues of the service, whose names all tests share."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import aio_pika
from aio_pika import Message
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aio_pika.exceptions import ChannelNotFoundEntity

from tests.eventually import eventually
from tests.servers.rabbitmq import RabbitServer
from workers.topology import (
    CLAIMS_EXCHANGE,
    CLAIMS_ROUTING_KEY,
    LEDGER_QUEUE,
    dead_letter_queue,
    declare_ledger_queue,
)

DEAD_QUEUE = dead_letter_queue(LEDGER_QUEUE)
DELIVERED_WITHIN_S = 2.0


class QueueState(NamedTuple):
    ready: int
    consumers: int


@dataclass(slots=True)
class Broker:
    """Each call has a connection of its own, so that it survives whatever the test does."""

    server: RabbitServer

    @property
    def url(self) -> str:
        return self.server.url

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[AbstractChannel]:
        async with await aio_pika.connect(self.url, timeout=20) as connection:
            yield await connection.channel(on_return_raises=True)

    async def declare(self) -> None:
        async with self.channel() as channel:
            await declare_ledger_queue(channel)

    async def delete(self, queue: str) -> None:
        async with self.channel() as channel:
            await channel.queue_delete(queue)

    async def forget(self) -> None:
        """As if no process of the service had ever connected."""
        async with self.channel() as channel:
            await channel.queue_delete(LEDGER_QUEUE)
            await channel.queue_delete(DEAD_QUEUE)
            await channel.exchange_delete(CLAIMS_EXCHANGE)

    async def unbind(self) -> None:
        async with self.channel() as channel:
            queue = await channel.get_queue(LEDGER_QUEUE)
            await queue.unbind(CLAIMS_EXCHANGE, CLAIMS_ROUTING_KEY)

    async def bind(self) -> None:
        async with self.channel() as channel:
            queue = await channel.get_queue(LEDGER_QUEUE)
            await queue.bind(CLAIMS_EXCHANGE, CLAIMS_ROUTING_KEY)

    async def publish(self, body: bytes) -> None:
        async with self.channel() as channel:
            exchange = await channel.get_exchange(CLAIMS_EXCHANGE)
            await exchange.publish(Message(body), CLAIMS_ROUTING_KEY, mandatory=True)

    async def state(self, queue: str = LEDGER_QUEUE) -> QueueState | None:
        """What waits in a queue and how many consume it; None when there is no such queue."""
        async with self.channel() as channel:
            try:
                declared = (await channel.declare_queue(queue, passive=True)).declaration_result
            except ChannelNotFoundEntity:
                return None
        return QueueState(declared.message_count or 0, declared.consumer_count or 0)

    async def left_behind(self, queue: str = LEDGER_QUEUE) -> int:
        """What is in a queue once nobody consumes it: a consumer's end gives back what it held."""

        async def probe() -> list[QueueState]:
            state = await self.state(queue)
            return [state] if state is not None and state.consumers == 0 else []

        [state] = await eventually(probe, what=f"{queue} without a consumer")
        return state.ready

    async def refuse_one(self, *, requeue: bool) -> None:
        """Be delivered one message of the ledger's queue, and give it back or set it aside."""
        async with self.channel() as channel:
            await channel.set_qos(prefetch_count=1)
            queue = await channel.get_queue(LEDGER_QUEUE)
            async with queue.iterator(timeout=20) as messages:
                async for message in messages:
                    await message.nack(requeue=requeue)
                    return

    async def take(self, queue: str) -> list[AbstractIncomingMessage]:
        """Take everything out of a queue."""
        state = await self.state(queue)
        waiting = 0 if state is None else state.ready
        taken: list[AbstractIncomingMessage] = []
        async with self.channel() as channel:
            found = await channel.get_queue(queue)
            async with found.iterator(timeout=20) as messages:
                while len(taken) < waiting:
                    message = await anext(messages)
                    taken.append(message)
                    await message.ack()
        return taken

    async def deliver_and_die(self) -> bool:
        """Take one of the ledger's messages, if any, and lose the connection unanswered."""
        arrived: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
        async with self.channel() as channel:
            await channel.set_qos(prefetch_count=1)
            await (await channel.get_queue(LEDGER_QUEUE)).consume(arrived.put)
            with suppress(TimeoutError):
                async with asyncio.timeout(DELIVERED_WITHIN_S):
                    await arrived.get()
                    return True
        return False

    def described(self) -> dict[str, dict[str, Any]]:
        """Type and arguments of each queue, as the broker itself tells them."""
        columns = ("name", "type", "durable", "arguments")
        printed = self.server.ctl("list_queues", "--formatter", "json", *columns)
        return {row["name"]: row for row in json.loads(printed)}
