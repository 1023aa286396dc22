"""A store in trouble, as clients see it: quick refusals, no wrong answers, healed by itself."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from app.config import Settings
from app.control.switches import CREATIONS, GRABS, Switches, packet_switch
from app.services import open_services
from lua.ids import is_on_mysql
from lua.keys import KeySpace
from tests.deployment import (
    Answer,
    Deployment,
    make_ready,
    running_api,
    running_workers,
)
from tests.eventually import eventually
from tests.servers.redis import RedisServer, start_redis
from workers.recoverer import Recoverer

REFUSED_WITHIN_S = 0.05
SWITCHED_WITHIN_S = 1.0


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    with start_redis(tmp_path / "own-redis") as server:
        yield server


@pytest.fixture
async def fragile(settings: Settings, own_redis: RedisServer) -> AsyncIterator[Deployment]:
    """A deployment over a Redis that a test may stop, with a recoverer."""
    own = replace(settings, redis_url=own_redis.url)
    async with open_services(own) as services:
        await make_ready(services)
        stop = asyncio.Event()
        recovering = asyncio.create_task(Recoverer(services.recovery).run(stop))
        async with (
            running_api(own, services) as url,
            running_workers(services) as dead_letters,
            aiohttp.ClientSession() as session,
        ):
            yield Deployment(own, services, url, session, dead_letters)
            if not own_redis.is_running:
                await asyncio.to_thread(own_redis.start)
            own_redis.resume()
        stop.set()
        await recovering


async def grabs_answered(deployment: Deployment, packet_id: str, user: str) -> Answer:
    async def probe() -> list[Answer]:
        answer = await deployment.grab(packet_id, user)
        return [answer] if answer.status == 200 else []

    [answer] = await eventually(probe, what="an answered grab")
    return answer


@pytest.mark.parametrize("trouble", ["down", "hanging"])
async def test_without_redis_grabs_are_refused_at_once_and_answered_again_afterwards(
    fragile: Deployment, own_redis: RedisServer, trouble: str
) -> None:
    packet_id = await fragile.create("sender", 1000, 10)
    first = await fragile.grab(packet_id, "ann")
    await fragile.booked(packet_id, 1)
    if trouble == "down":
        own_redis.kill()
    else:
        own_redis.pause()
    began_s = time.monotonic()
    noticed = await fragile.grab(packet_id, "bob")
    assert noticed.status == 503
    assert time.monotonic() - began_s < 1.0

    slowest_s = 0.0
    for number in range(200):
        began_s = time.monotonic()
        answer = await fragile.grab(packet_id, f"user{number}")
        slowest_s = max(slowest_s, time.monotonic() - began_s)
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert slowest_s < REFUSED_WITHIN_S

    if trouble == "down":
        await asyncio.to_thread(own_redis.start)
    else:
        own_redis.resume()
    again = await grabs_answered(fragile, packet_id, "ann")
    assert again.body == first.body | {"outcome": "repeated"}


async def test_a_packet_created_without_redis_lives_its_whole_life_on_mysql(
    fragile: Deployment, own_redis: RedisServer
) -> None:
    before = await fragile.create("sender", 1000, 10)
    won_before = await fragile.grab(before, "ann")
    await fragile.booked(before, 1)
    own_redis.kill()
    await fragile.grab(before, "eve")

    packet_id = await fragile.create("sender", 1000, 10)
    assert is_on_mysql(fragile.services.packet_ids.read(packet_id))
    answers = await asyncio.gather(
        *(fragile.grab(packet_id, f"user{number % 12}") for number in range(60))
    )

    outcomes = [answer.body["outcome"] for answer in answers]
    assert outcomes.count("grabbed") == 10
    assert outcomes.count("sold_out") == 10
    told = {
        (answer.body["seq"], answer.body["amount_fen"])
        for answer in answers
        if answer.body["outcome"] in ("grabbed", "repeated")
    }
    assert sorted(seq for seq, _ in told) == list(range(1, 11))
    assert sum(amount_fen for _, amount_fen in told) == 1000
    view = await fragile.ask("GET", f"/v1/packets/{packet_id}", user="ann")
    board = await fragile.ask("GET", f"/v1/packets/{packet_id}/board", user="ann")
    assert (view.body["claimed"], view.body["remaining"]) == (10, 0)
    assert [rank["amount_fen"] for rank in board.body["ranks"]] == sorted(
        (amount_fen for _, amount_fen in told), reverse=True
    )
    assert {rank["tier"] for rank in board.body["ranks"]} == {"sql"}
    claim = await fragile.ask("GET", f"/v1/packets/{before}/claim", user="ann")
    assert claim.body["amount_fen"] == won_before.body["amount_fen"]

    await asyncio.to_thread(own_redis.start)  # it stays where it is
    late = await fragile.grab(packet_id, "late")
    assert late.body["outcome"] == "sold_out"


async def test_a_large_packet_is_not_sent_without_redis_and_costs_nothing(
    fragile: Deployment, own_redis: RedisServer
) -> None:
    packet_id = await fragile.create("sender", 1000, 10)
    own_redis.kill()
    await fragile.grab(packet_id, "ann")
    await fragile.top_up("sender", 5000)

    answer = await fragile.ask(
        "POST",
        "/v1/packets",
        user="sender",
        body={"total_fen": 5000, "shares": 1001},
        key="large",
    )

    assert (answer.status, answer.code) == (503, "unavailable")
    account = await fragile.ask("GET", "/v1/account", user="sender")
    assert account.body["balance_fen"] == 5000


async def test_switches_work_within_a_second(deployment: Deployment) -> None:
    one, other = await deployment.create("s", 100, 5), await deployment.create("s", 100, 5)
    switches = Switches(deployment.services.database)
    ids = deployment.services.packet_ids

    async def answers(of_one: int, of_other: int, creation: int) -> bool:
        create = await deployment.ask(
            "POST",
            "/v1/packets",
            user="s",
            body={"total_fen": 10**9, "shares": 1},
            key=f"k{time.monotonic_ns()}",
        )
        got = [(await deployment.grab(packet_id, "ann")).status for packet_id in (one, other)]
        return [*got, create.status] == [of_one, of_other, creation]

    async def become(of_one: int, of_other: int, creation: int) -> None:
        await eventually(
            lambda: answers(of_one, of_other, creation),
            what=f"{of_one} {of_other} {creation}",
            deadline_s=SWITCHED_WITHIN_S,
        )

    await become(200, 200, 409)
    await switches.turn_off(packet_switch(ids.read(one)), "complaint")
    await become(503, 200, 409)
    await switches.turn_off(GRABS, "incident")
    await become(503, 503, 409)
    await switches.turn_off(CREATIONS, "incident")
    await become(503, 503, 503)
    refused = await deployment.grab(one, "ann")
    assert (refused.code, refused.headers["retry-after"]) == ("switched_off", "1")
    for name in (GRABS, CREATIONS, packet_switch(ids.read(one))):
        await switches.turn_on(name)
    await become(200, 200, 409)


async def test_a_full_backlog_refuses_new_grabs_until_it_is_half_worked_off(
    settings: Settings,
) -> None:
    own = replace(settings, backlog_entries=20)
    async with open_services(own) as services:
        await make_ready(services)
        async with running_api(own, services) as url, aiohttp.ClientSession() as session:
            deployment = Deployment(own, services, url, session, None)  # type: ignore[arg-type]
            packet_id = await deployment.create("sender", 100_000, 1000)
            refused_after = 0

            async def refused() -> bool:
                nonlocal refused_after
                answer = await deployment.grab(packet_id, f"user{refused_after}")
                refused_after += answer.status == 200
                return answer.status == 503 and answer.code == "overloaded"

            await eventually(refused, what="a grab that is refused")
            assert refused_after > 20

            async with running_workers(services):
                await grabs_answered(deployment, packet_id, "later")
            assert services.backlog.entries <= 10


async def test_messages_that_wait_in_the_broker_count_as_backlog(settings: Settings) -> None:
    own = replace(settings, backlog_messages=100)
    keys = KeySpace(own.partitions, own.key_prefix)
    async with open_services(own) as services:
        await make_ready(services)
        for waiting, is_shut in ((101, True), (51, True), (49, False), (100, False)):
            await services.redis.set(keys.queued(), waiting)
            await services.backlog.refresh()
            assert services.backlog.is_shut is is_shut
