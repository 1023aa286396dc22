"""`redpacket worker NAME`: opens the connections a worker needs and runs it."""

import asyncio
import logging
import socket
from contextlib import AsyncExitStack
from typing import Literal, assert_never

from app.config import BadSettings, Settings
from app.redis_client import check_redis, open_redis
from app.services import open_services
from app.store.database import open_database
from lua.keys import KeySpace
from workers.consumer import LedgerConsumer
from workers.ledger import LedgerHandler
from workers.opener import Opener
from workers.publisher import AmqpPublisher
from workers.relay import Relay

log = logging.getLogger(__name__)

WorkerName = Literal["relay", "ledger", "opener"]


async def run_worker(
    name: WorkerName, settings: Settings, instance: str | None, stop: asyncio.Event
) -> None:
    """Run one worker until `stop`, then finish what was begun."""
    log.info("worker %s starts", name)
    if name == "relay":
        await _run_relay(settings, instance or socket.gethostname(), stop)
    elif name == "ledger":
        await _run_ledger(settings, stop)
    elif name == "opener":
        async with open_services(settings) as services:
            await Opener(services.database, services.opener).run(stop)
    else:
        assert_never(name)
    log.info("worker %s stopped", name)


def _amqp_url(settings: Settings) -> str:
    if settings.amqp_url is None:
        raise BadSettings("REDPACKET_AMQP_URL is not set")
    return settings.amqp_url


async def _run_relay(settings: Settings, instance: str, stop: asyncio.Event) -> None:
    async with AsyncExitStack() as opened:
        redis = open_redis(settings.redis_url, connections=4)
        opened.push_async_callback(redis.aclose)
        await check_redis(redis, settings.durability)
        publisher = AmqpPublisher(_amqp_url(settings))
        opened.push_async_callback(publisher.close)
        keys = KeySpace(settings.partitions, settings.key_prefix)
        await Relay(redis, keys, publisher, instance).run(stop)


async def _run_ledger(settings: Settings, stop: asyncio.Event) -> None:
    async with open_database(settings.mysql_url, connections=4) as database:
        consumer = LedgerConsumer(
            _amqp_url(settings), lambda dead_letters: LedgerHandler(database, dead_letters)
        )
        await consumer.run(stop)
