"""`redpacket serve`, `worker relay` and `worker ledger` as processes, fresh for each test."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from app.config import Durability, Settings
from app.services import Services
from tests.deployment import Deployment, MemoryDeadLetters
from tests.durability.fleet import Fleet, start_all
from tests.durability.pair import FSYNC, Pair, running_pair
from tests.durability.program import Program, environment_of
from tests.eventually import eventually
from tests.integration.workers.broker import Broker
from tests.servers.rabbitmq import RabbitServer


@pytest.fixture
def level() -> Durability:
    """Tests at another level name it as their parameter."""
    return "fsync"


@pytest.fixture
async def pair(tmp_path: Path, level: Durability) -> AsyncIterator[Pair]:
    async with running_pair(tmp_path, FSYNC[level]) as pair:
        yield pair


@pytest.fixture
def settings(settings: Settings, rabbitmq_server: RabbitServer, level: Durability) -> Settings:
    """With a broker, and a secret that an environment variable can carry."""
    secret = secrets.token_hex(32).encode()
    return replace(settings, amqp_url=rabbitmq_server.url, secret=secret, durability=level)


@pytest.fixture
async def fleet(
    settings: Settings,
    services: Services,
    broker: Broker,
    rabbitmq_server: RabbitServer,
    tmp_path: Path,
) -> AsyncIterator[Fleet]:
    environment = environment_of(settings)
    api = Program(tmp_path, ("serve",), environment, settings.port)
    relay = Program(tmp_path, ("worker", "relay"), environment)
    ledger = Program(tmp_path, ("worker", "ledger"), environment)
    recover = Program(tmp_path, ("worker", "recover"), environment)
    with ExitStack() as guarded:
        for program in (api, relay, ledger, recover):
            guarded.enter_context(program)
        await start_all([api, relay, ledger, recover])

        async def consumer_is_there() -> bool:
            state = await broker.state()
            return state is not None and state.consumers > 0

        await eventually(consumer_is_there, what="a ledger consumer on its queue")
        # A queue declared less than a second ago does not outlive kill -9 (docs/durability.md).
        await asyncio.to_thread(rabbitmq_server.flush_queue_names)
        async with aiohttp.ClientSession() as session:
            deployment = Deployment(settings, services, api.url, session, MemoryDeadLetters())
            yield Fleet(api, relay, ledger, deployment, broker)
