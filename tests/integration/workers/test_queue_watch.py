"""What waits in RabbitMQ is told through Redis, shuts the gate, and is not believed for ever."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from app.config import Settings
from app.services import Services, open_services
from tests.deployment import make_ready
from tests.eventually import eventually
from tests.integration.workers.broker import Broker
from workers.queue_watch import KNOWN_FOR_MS, QueueWatch
from workers.topology import LEDGER_QUEUE

LIMIT = 10


@pytest.fixture
async def limited(settings: Settings) -> AsyncIterator[Services]:
    """A process that refuses grabs while more than ten messages wait."""
    async with open_services(replace(settings, backlog_messages=LIMIT)) as services:
        await make_ready(services)
        yield services


async def test_the_gate_follows_what_waits_in_the_queue(limited: Services, broker: Broker) -> None:
    await broker.declare()
    stop = asyncio.Event()
    watch = QueueWatch(broker.url, limited.redis, limited.keys)
    watching = asyncio.create_task(watch.run(stop))

    async def shut() -> bool:
        return limited.backlog.is_shut

    async def open_again() -> bool:
        return not limited.backlog.is_shut

    async def told() -> bool:
        return limited.backlog.messages == LIMIT

    for number in range(LIMIT):
        await broker.publish(b"%d" % number)
    await eventually(told, what="a number that is told")
    assert not limited.backlog.is_shut
    await broker.publish(b"one too many")
    await eventually(shut, what="a gate that is shut")

    async with broker.channel() as channel:
        await (await channel.get_queue(LEDGER_QUEUE)).purge()
    await eventually(open_again, what="a gate that is open again")
    stop.set()
    await watching


async def test_a_number_that_nobody_renews_is_forgotten_in_time(
    limited: Services, broker: Broker
) -> None:
    """With the queue gone the watch goes on asking, and says nothing."""
    await broker.declare()
    key = limited.keys.queued()
    stop = asyncio.Event()
    watching = asyncio.create_task(QueueWatch(broker.url, limited.redis, limited.keys).run(stop))

    async def told() -> bool:
        return await limited.redis.get(key) == b"0"

    await eventually(told, what="a number")
    assert 0 < await limited.redis.pttl(key) <= KNOWN_FOR_MS
    await broker.forget()
    await limited.redis.delete(key)
    await broker.declare()

    await eventually(told, what="a number of the queue that was made anew")
    stop.set()
    await watching
