"""`redpacket worker NAME`: opens the connections a worker needs and runs it."""

import asyncio
import logging
import socket
from contextlib import AsyncExitStack
from typing import Literal, assert_never

from app.config import BadSettings, Settings
from app.ledger.dead_letters import DeadLetters
from app.recovery.deployment import Deployment
from app.redis_client import check_redis, open_redis
from app.services import open_services
from app.store.database import open_database
from lua.keys import KeySpace
from workers.dead_letter_keeper import dead_letter_keeper
from workers.ledger import LedgerHandler, ledger_consumer
from workers.opener import Opener
from workers.publisher import AmqpPublisher
from workers.queue_watch import QueueWatch
from workers.recoverer import Recoverer
from workers.relay import Relay
from workers.settler import Settler
from workers.topology import LEDGER_QUEUE

log = logging.getLogger(__name__)

WorkerName = Literal["relay", "ledger", "opener", "settle", "recover"]


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
    elif name == "settle":
        async with open_services(settings) as services:
            await Settler(services.database, services.settling, services.owner).run(stop)
    elif name == "recover":
        async with open_services(settings) as services:
            await Recoverer(services.recovery).run(stop)
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
        await asyncio.gather(
            Relay(redis, keys, Deployment(settings.secret), publisher, instance).run(stop),
            QueueWatch(_amqp_url(settings), redis, keys).run(stop),
        )


async def _run_ledger(settings: Settings, stop: asyncio.Event) -> None:
    async with open_database(settings.mysql_url, connections=4) as database:
        letters = DeadLetters(database, LEDGER_QUEUE)
        await asyncio.gather(
            ledger_consumer(_amqp_url(settings), LedgerHandler(database, letters)).run(stop),
            dead_letter_keeper(_amqp_url(settings), LEDGER_QUEUE, letters).run(stop),
        )
