"""Inputs that have brought other services down: greedy users, full memory, huge keys going away."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from app.config import Settings
from app.services import open_services
from lua.ids import PacketId, UserId
from lua.replies import RestoredShare, ResumeStatus
from lua.scripts import MAX_SHARES_PER_LOAD
from splitter.money import Fen
from tests.deployment import Deployment, make_ready, running_api, running_workers
from tests.eventually import eventually
from tests.servers.redis import RedisServer, start_redis

MILLION = 1_000_000
REBUILD = "rebuild"


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    with start_redis(tmp_path / "own-redis") as server:
        yield server


@pytest.fixture
async def alone(settings: Settings, own_redis: RedisServer) -> AsyncIterator[Deployment]:
    """A deployment whose Redis a test may fill."""
    own = replace(settings, redis_url=own_redis.url)
    async with open_services(own) as services:
        await make_ready(services)
        async with (
            running_api(own, services) as url,
            running_workers(services) as dead_letters,
            aiohttp.ClientSession() as session,
        ):
            yield Deployment(own, services, url, session, dead_letters)


async def test_one_users_hundred_grabs_at_once_win_one_share_and_leave_nine(
    deployment: Deployment,
) -> None:
    packet_id = await deployment.create("sender", 1000, 10)

    greedy = await asyncio.gather(*(deployment.grab(packet_id, "greedy") for _ in range(100)))
    others = await asyncio.gather(*(deployment.grab(packet_id, f"u{n}") for n in range(9)))
    late = await deployment.grab(packet_id, "late")

    assert Counter(answer.body["outcome"] for answer in greedy) == {"grabbed": 1, "repeated": 99}
    assert len({(answer.body["seq"], answer.body["amount_fen"]) for answer in greedy}) == 1
    assert {answer.body["outcome"] for answer in others} == {"grabbed"}
    assert late.body["outcome"] == "sold_out"
    await deployment.booked(packet_id, 10)


async def test_fifty_first_credits_to_one_account_at_once_all_count(
    deployment: Deployment,
) -> None:
    async def credit(number: int) -> int:
        answer = await deployment.ask(
            "POST",
            "/v1/admin/accounts/newcomer/top-ups",
            user="root",
            admin=True,
            body={"amount_fen": number},
            key=f"credit-{number}",
        )
        return answer.status

    statuses = await asyncio.gather(*(credit(number) for number in range(1, 51)))
    async with asyncio.timeout(60):
        while 503 in statuses:  # all connections in use: ask again, with the same keys
            statuses = await asyncio.gather(*(credit(number) for number in range(1, 51)))

    account = await deployment.ask("GET", "/v1/account", user="newcomer")
    assert set(statuses) == {201}
    assert account.body["balance_fen"] == sum(range(1, 51))


async def test_grabs_at_the_limit_of_redis_memory_are_refused_whole_and_go_on_after(
    alone: Deployment,
) -> None:
    packet_id = await alone.create("sender", 1000, 10)
    first = await alone.grab(packet_id, "ann")
    await alone.booked(packet_id, 1)
    redis = alone.services.redis
    await redis.config_set("maxmemory", 1)

    full = [await alone.grab(packet_id, user) for user in ("bob", "ann", "bob")]

    assert {(answer.status, answer.code) for answer in full} == {(503, "unavailable")}
    await redis.config_set("maxmemory", 0)
    again = await alone.grab(packet_id, "ann")
    rest = [await alone.grab(packet_id, f"u{number}") for number in range(9)]
    assert again.body == first.body | {"outcome": "repeated"}
    assert sorted(answer.body["seq"] for answer in rest) == list(range(2, 11))
    await alone.booked(packet_id, 10)


async def million_claims(alone: Deployment) -> PacketId:
    """A packet that Redis holds sold out, as a rebuild puts it back."""
    packet_id, scripts = PacketId(7), alone.services.scripts
    await scripts.suspend(packet_id, REBUILD)
    for first in range(1, MILLION + 1, MAX_SHARES_PER_LOAD):
        seqs = range(first, min(first + MAX_SHARES_PER_LOAD, MILLION + 1))
        chunk = [RestoredShare(seq, Fen(1), 1, UserId(f"user{seq}")) for seq in seqs]
        await scripts.restore(packet_id, REBUILD, MILLION, first - 1, chunk)
    resumed = await scripts.resume(
        packet_id,
        REBUILD,
        shares=MILLION,
        total_fen=Fen(MILLION),
        opens_at_ms=1,
        expires_at_ms=2,
        closed=True,
    )
    assert resumed.status is ResumeStatus.OK
    return packet_id


@pytest.mark.parametrize("by", ["retiring", "rebuilding"])
async def test_a_packet_of_a_million_claims_goes_without_holding_up_the_server(
    alone: Deployment, by: str
) -> None:
    """Freed by another thread: the event loop of Redis never walks through its members."""
    services = alone.services
    packet_id = await million_claims(alone)
    other = await alone.create("sender", 1000, 10)
    claims = services.keys.packet(packet_id).claims
    before = (await services.redis.info("memory"))["lazyfreed_objects"]
    if by == "retiring":
        await services.scripts.retire(packet_id, 1)
    else:
        await services.scripts.suspend(packet_id, "again")
        await services.scripts.restore(
            packet_id, "again", MILLION, 0, [RestoredShare(1, Fen(1), 1, UserId("user1"))]
        )

    first = await alone.grab(other, "ann")

    async def freed_lazily() -> bool:
        await services.redis.exists(claims)
        return bool((await services.redis.info("memory"))["lazyfreed_objects"] >= before + 2)

    await eventually(freed_lazily, what="claims and board freed in the background")
    again = await alone.grab(other, "ann")
    assert again.body == first.body | {"outcome": "repeated"}
    assert int(await services.redis.hlen(claims)) == (0 if by == "retiring" else 1)
