"""The Redis of another deployment behind the address answers nobody, and is left as it was."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from redis.asyncio import Redis

from app.config import Settings
from app.recovery.deployment import Deployment as Owner
from app.redis_client import open_redis
from app.services import open_services
from lua.certificate import Certificate, install_certificate
from lua.ids import PacketId, UserId
from lua.replies import GrabStatus
from lua.scripts import Scripts
from splitter.money import Fen
from tests.chaos.proxy import Proxy
from tests.deployment import Answer, Deployment, make_ready, running_api, running_workers
from tests.eventually import eventually
from tests.integration.money.lab import MoneyLab
from tests.servers.redis import RedisServer, start_redis
from workers.recoverer import Recoverer

THEIR_PACKET = PacketId(7)
FAR_AHEAD_MS = 4_102_444_800_000


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[RedisServer]:
    with start_redis(tmp_path / "their-redis") as server:
        yield server


@pytest.fixture
async def proxy(redis_server: RedisServer) -> AsyncIterator[Proxy]:
    proxy = Proxy(redis_server.port)
    await proxy.open()
    yield proxy
    proxy.close()


@pytest.fixture
async def ours(settings: Settings, proxy: Proxy) -> AsyncIterator[Deployment]:
    """A deployment that reaches its Redis through the proxy, a recoverer at work."""
    own = replace(settings, redis_url=f"redis://127.0.0.1:{proxy.port}")
    stop = asyncio.Event()
    async with open_services(own) as services:
        await make_ready(services)
        recoverer = asyncio.create_task(Recoverer(services.recovery).run(stop))
        async with (
            running_api(own, services) as url,
            running_workers(services) as dead_letters,
            aiohttp.ClientSession() as session,
        ):
            yield Deployment(own, services, url, session, dead_letters)
            stop.set()
            await recoverer


@pytest.fixture
async def their_redis(theirs: RedisServer, ours: Deployment) -> AsyncIterator[Redis]:
    """Certified for another deployment of the same key prefix, with a packet that is open."""
    keys = ours.services.keys
    redis = open_redis(theirs.url, connections=4)
    token = Owner(b"their secret" * 3).new_token()
    await install_certificate(redis, keys, token)
    scripts = Scripts(redis, keys, Certificate(token))
    await scripts.load(THEIR_PACKET, 1, 0, [Fen(100)])
    await scripts.open(
        THEIR_PACKET, shares=1, total_fen=Fen(100), opens_at_ms=1, expires_at_ms=FAR_AHEAD_MS
    )
    reply = await scripts.grab(THEIR_PACKET, [UserId("their-user")])
    assert reply.status is GrabStatus.OK
    yield redis
    await redis.aclose()


async def dump(redis: Redis) -> dict[bytes, bytes | None]:
    keys = sorted([key async for key in redis.scan_iter()])
    return {key: await redis.dump(key) for key in keys}


async def test_it_answers_nobody_and_is_left_as_it_was(
    ours: Deployment,
    their_redis: Redis,
    theirs: RedisServer,
    proxy: Proxy,
    redis_server: RedisServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, "redpacket.alarm")
    before = await dump(their_redis)
    assert before
    packet_id = await ours.create("sender", 1000, 10)
    first = await ours.grab(packet_id, "ann")
    assert first.status == 200

    proxy.lead_to(theirs.port)

    async def alarm() -> bool:
        await ours.grab(packet_id, "eve")
        return "ALARM foreign redis" in caplog.text

    await eventually(alarm, what="an alarm")
    answers = [await ours.grab(packet_id, f"u{number}") for number in range(20)]
    assert {(answer.status, answer.code) for answer in answers} == {(503, "unavailable")}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers)
    by_our_name = ours.services.packet_ids.write(THEIR_PACKET)
    assert (await ours.grab(by_our_name, "eve")).status == 503
    assert await dump(their_redis) == before

    proxy.lead_to(redis_server.port)

    async def answered() -> Answer | None:
        answer = await ours.grab(packet_id, "ann")
        return answer if answer.status == 200 else None

    again = await eventually(answered, what="grabs that are answered again")
    assert again is not None
    assert again.body == first.body | {"outcome": "repeated"}
    rest = [await ours.grab(packet_id, f"w{number}") for number in range(9)]
    assert sorted(answer.body["seq"] for answer in [first, *rest]) == list(range(1, 11))
    await ours.booked(packet_id, 10)
    await MoneyLab(ours.services).balanced()
