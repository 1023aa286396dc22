"""RabbitMQ as a test sees it: the queues of the service, whose names all tests share."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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


class DeadLetter(NamedTuple):
    body: str
    reason: str


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

    async def take(self, queue: str) -> list[AbstractIncomingMessage]:
        """Take everything out of a queue."""
        taken = []
        async with self.channel() as channel:
            found = await channel.get_queue(queue)
            while message := await found.get(fail=False):
                taken.append(message)
                await message.ack()
        return taken

    async def deliver_and_die(self, queue: str) -> bool:
        """Take a message, if there is one, and lose the connection before it is acknowledged."""
        async with self.channel() as channel:
            found = await channel.get_queue(queue)
            return await found.get(fail=False) is not None

    async def dead_letters(self) -> list[DeadLetter]:
        return [
            DeadLetter(message.body.decode(), str(message.headers.get("x-reason")))
            for message in await self.take(DEAD_QUEUE)
        ]

    def described(self) -> dict[str, dict[str, Any]]:
        """Type and arguments of each queue, as the broker itself tells them."""
        columns = ("name", "type", "durable", "arguments")
        printed = self.server.ctl("list_queues", "--formatter", "json", *columns)
        return {row["name"]: row for row in json.loads(printed)}
