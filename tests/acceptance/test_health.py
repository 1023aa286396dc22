"""Alive and ready are two questions."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from app.config import Settings
from app.services import open_services
from tests.deployment import Deployment, running_api
from tests.servers.ports import free_ports
from tests.servers.redis import RedisServer, start_redis


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    with start_redis(tmp_path / "own-redis") as server:
        yield server


async def test_a_running_service_is_alive_and_ready(deployment: Deployment) -> None:
    alive = await deployment.ask("GET", "/healthz")
    ready = await deployment.ask("GET", "/readyz")

    assert (alive.status, alive.body) == (200, {"status": "alive"})
    assert (ready.status, ready.body["checks"]) == (200, {"redis": True, "mysql": True})


async def test_without_redis_the_service_is_alive_but_not_ready(
    settings: Settings, own_redis: RedisServer
) -> None:
    [port] = free_ports(1)
    own = replace(settings, redis_url=own_redis.url, port=port)
    async with open_services(own) as services:
        await services.database.migrate()
        async with running_api(own, services) as url, aiohttp.ClientSession() as session:
            own_redis.kill()

            async with session.get(f"{url}/readyz") as ready:
                assert ready.status == 503
                assert (await ready.json())["checks"] == {"redis": False, "mysql": True}
            async with session.get(f"{url}/healthz") as alive:
                assert alive.status == 200
            own_redis.start()

            async with session.get(f"{url}/readyz") as again:
                assert again.status == 200
