"""Alive and ready are two questions."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest

from app.config import Settings
from app.services import open_services
from tests.deployment import Deployment, make_ready, running_api
from tests.eventually import eventually
from tests.servers.ports import free_ports
from tests.servers.redis import RedisServer, start_redis
from workers.recoverer import Recoverer

HANG_S = 10.0  # less than the socket time-outs of a command and its retries


class Service(NamedTuple):
    url: str
    session: aiohttp.ClientSession


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    with start_redis(tmp_path / "own-redis") as server:
        yield server


@pytest.fixture
async def own_service(settings: Settings, own_redis: RedisServer) -> AsyncIterator[Service]:
    """A service over a Redis that a test may stop: its address and a client."""
    [port] = free_ports(1)
    own = replace(settings, redis_url=own_redis.url, port=port)
    async with open_services(own) as services:
        await make_ready(services)
        stop = asyncio.Event()
        recovering = asyncio.create_task(Recoverer(services.recovery).run(stop))
        async with running_api(own, services) as url, aiohttp.ClientSession() as session:
            yield Service(url, session)
        stop.set()
        await recovering


async def test_a_running_service_is_alive_and_ready(deployment: Deployment) -> None:
    alive = await deployment.ask("GET", "/healthz")
    ready = await deployment.ask("GET", "/readyz")

    assert (alive.status, alive.body) == (200, {"status": "alive"})
    assert (ready.status, ready.body["checks"]) == (200, {"redis": True, "mysql": True})


async def test_without_redis_the_service_is_alive_but_not_ready(
    own_service: Service, own_redis: RedisServer
) -> None:
    url, session = own_service
    own_redis.kill()

    async with session.get(f"{url}/readyz") as ready:
        assert ready.status == 503
        assert (await ready.json())["checks"] == {"redis": False, "mysql": True}
    async with session.get(f"{url}/healthz") as alive:
        assert alive.status == 200
    own_redis.start()

    async def ready_again() -> bool:
        async with session.get(f"{url}/readyz") as again:
            return again.status == 200

    await eventually(ready_again, what="ready once the new run is certified")


async def test_with_redis_hanging_the_service_says_not_ready_until_it_answers_again(
    own_service: Service, own_redis: RedisServer
) -> None:
    url, session = own_service

    async def ready() -> int:
        # A hang shows as a TimeoutError: readiness has to answer within its own bound.
        async with asyncio.timeout(HANG_S), session.get(f"{url}/readyz") as answer:
            return answer.status

    async def ready_again() -> bool:
        return await ready() == 200

    own_redis.pause()
    try:
        assert await ready() == 503
        async with asyncio.timeout(HANG_S), session.get(f"{url}/healthz") as alive:
            assert alive.status == 200
    finally:
        own_redis.resume()

    await eventually(ready_again, what="ready once Redis goes on")
