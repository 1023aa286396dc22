"""Real servers once a session; a key prefix, a database and queues of its own for each test."""

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from app.auth.tokens import TokenSettings
from app.config import Settings
from app.services import Services, open_services
from tests.deployment import Deployment, make_ready, running_api, running_workers
from tests.integration.workers.broker import Broker
from tests.servers.chosen import start_database
from tests.servers.database import DatabaseServer
from tests.servers.ports import free_ports
from tests.servers.rabbitmq import RabbitServer, start_rabbitmq
from tests.servers.redis import RedisServer, start_redis


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with start_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="session")
def database_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatabaseServer]:
    with start_database(tmp_path_factory.mktemp("database")) as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    with start_rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as server:
        yield server


@pytest.fixture
def mysql_url(database_server: DatabaseServer) -> Iterator[str]:
    name = f"test_{secrets.token_hex(6)}"
    yield database_server.create_database(name)
    database_server.drop_database(name)


@pytest.fixture(params=["mysql", "sqlite"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each database in turn, for what must hold on both."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path / 'test.sqlite3'}"
    return str(request.getfixturevalue("mysql_url"))


@pytest.fixture
def settings(redis_server: RedisServer, mysql_url: str) -> Settings:
    [port] = free_ports(1)
    return Settings(
        redis_url=redis_server.url,
        mysql_url=mysql_url,
        secret=secrets.token_hex(32).encode(),
        tokens=TokenSettings("HS256", secrets.token_hex(32)),
        port=port,
        partitions=4,
        key_prefix=f"t{secrets.token_hex(4)}",
    )


@pytest.fixture
async def broker(rabbitmq_server: RabbitServer) -> AsyncIterator[Broker]:
    """RabbitMQ without a queue of an earlier test."""
    broker = Broker(rabbitmq_server)
    await broker.forget()
    yield broker
    await broker.forget()


@pytest.fixture
async def services(settings: Settings) -> AsyncIterator[Services]:
    """The wired service over real Redis and MariaDB, without HTTP and workers."""
    async with open_services(settings) as opened:
        await make_ready(opened)
        yield opened


@pytest.fixture
async def deployment(settings: Settings, services: Services) -> AsyncIterator[Deployment]:
    """HTTP on a free port, and claims handed straight to the ledger: what a client sees."""
    async with (
        running_api(settings, services) as url,
        running_workers(services) as dead_letters,
        aiohttp.ClientSession() as session,
    ):
        yield Deployment(settings, services, url, session, dead_letters)
