"""The relay and Redis: nothing leaves the outbox before somebody else has it."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from redis.asyncio import Redis

from app.config import Settings
from app.redis_client import open_redis
from lua.script import CommandRunner
from tests.eventually import eventually
from tests.integration.workers.lab import (
    AT_ONCE_ABANDONED,
    NEVER_ABANDONED,
    Collector,
    Lab,
    running,
)
from workers.relay import Publisher, Relay, RelayLimits


@pytest.fixture(params=[2, 3])
async def redis(request: pytest.FixtureRequest, settings: Settings) -> AsyncIterator[Redis]:
    """A client of either protocol version, which give the same reply in different shapes."""
    client = open_redis(f"{settings.redis_url}?protocol={request.param}", connections=4)
    yield client
    await client.aclose()


def relay_over(
    redis: Redis,
    lab: Lab,
    publisher: Publisher,
    name: str = "one",
    limits: RelayLimits = NEVER_ABANDONED,
) -> Relay:
    return Relay(redis, lab.services.keys, lab.services.deployment, publisher, name, limits)


async def grab_one_by_one(lab: Lab, claims: int) -> None:
    packet = await lab.packet(shares=claims)
    for number in range(claims):
        await lab.grab(packet, f"user{number}")


async def until_published(collector: Collector, lines: int) -> None:
    async def probe() -> bool:
        return len(collector.lines) >= lines

    await eventually(probe, what=f"{lines} published entries")


async def test_a_relay_sends_its_own_pending_entries_again_after_a_restart(
    lab: Lab, redis: Redis
) -> None:
    await grab_one_by_one(lab, 7)
    broken = Collector(failures_left=10_000)
    async with running(relay_over(redis, lab, broken)):
        await eventually(lambda: lab.pending(), what="entries read by a relay that cannot send")
    assert await lab.pending() == {"one": 7}
    assert await lab.outbox() == 7
    collector = Collector()

    async with running(relay_over(redis, lab, collector)):
        await until_published(collector, 7)
        await lab.outbox_is_empty()

    assert len(set(collector.lines)) == len(collector.lines) == 7


async def test_another_relay_takes_over_what_a_dead_one_had_read(lab: Lab, redis: Redis) -> None:
    await grab_one_by_one(lab, 7)
    async with running(relay_over(redis, lab, Collector(failures_left=10_000), "dead")):
        await eventually(lambda: lab.pending(), what="entries read by a relay that cannot send")
    collector = Collector()
    few_at_a_time = RelayLimits(entries_per_stream=2, abandoned_ms=1, block_ms=50)

    async with running(relay_over(redis, lab, collector, "other", few_at_a_time)):
        await lab.outbox_is_empty()

    assert len(set(collector.lines)) == 7


async def test_a_relay_leaves_alone_what_another_is_busy_with(lab: Lab, redis: Redis) -> None:
    await grab_one_by_one(lab, 3)
    async with running(relay_over(redis, lab, Collector(failures_left=10_000), "busy")):
        await eventually(lambda: lab.pending(), what="entries read by a relay that cannot send")
    collector = Collector()

    async with running(relay_over(redis, lab, collector, "other")):
        await grab_one_by_one(lab, 1)
        await until_published(collector, 1)

    assert len(collector.lines) == 1
    assert await lab.pending() == {"busy": 3}


async def test_a_stream_that_was_deleted_is_read_again_when_it_is_back(
    lab: Lab, redis: Redis
) -> None:
    collector = Collector()
    async with running(relay_over(redis, lab, collector)):
        await grab_one_by_one(lab, 2)
        await until_published(collector, 2)

        await lab.services.redis.unlink(*lab.services.keys.outboxes())
        await grab_one_by_one(lab, 5)

        await until_published(collector, 7)
        await lab.outbox_is_empty()


async def test_entries_of_a_pending_list_that_were_deleted_hide_none_behind_them(
    lab: Lab, redis: Redis
) -> None:
    await grab_one_by_one(lab, 9)
    async with running(relay_over(redis, lab, Collector(failures_left=10_000))):
        await eventually(lambda: lab.pending(), what="entries read by a relay that cannot send")
    runner: CommandRunner = lab.services.redis
    for stream in lab.services.keys.outboxes():
        for entry_id, _ in await lab.services.redis.xrange(stream, count=6) or []:
            await runner.execute_command("XDEL", stream, entry_id)
    collector = Collector()
    two_at_a_time = RelayLimits(entries_per_stream=2, abandoned_ms=1, block_ms=50)

    async with running(relay_over(redis, lab, collector, limits=two_at_a_time)):
        await until_published(collector, 3)
        await lab.outbox_is_empty()


async def test_one_read_is_bounded_however_much_waits(lab: Lab, redis: Redis) -> None:
    await grab_one_by_one(lab, 30)
    collector = Collector()
    limits = RelayLimits(entries_per_read=16, block_ms=50)  # four of each of the four streams

    async with running(relay_over(redis, lab, collector, limits=limits)):
        await until_published(collector, 30)

    assert max(len(b"\n".join(bodies).split(b"\n")) for bodies in collector.published) <= 4


async def test_told_to_stop_in_mid_batch_the_relay_finishes_the_batch(lab: Lab) -> None:
    class Held(Collector):
        async def publish(self, bodies: Sequence[bytes]) -> None:
            begun.set()
            await go_on.wait()
            await super().publish(bodies)

    begun, go_on, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()
    await grab_one_by_one(lab, 3)
    held = Held()
    relaying = asyncio.create_task(lab.relay(held).run(stop))
    async with asyncio.timeout(20):
        await begun.wait()

    stop.set()
    go_on.set()

    async with asyncio.timeout(20):
        await relaying
    assert len(held.lines) == 3
    assert await lab.pending() == {}
    assert await lab.outbox() == 0


async def test_two_relays_share_the_work_and_lose_nothing(lab: Lab) -> None:
    collector = Collector()
    relays = [lab.relay(collector, name) for name in ("one", "two")]

    async with running(*relays):
        await grab_one_by_one(lab, 40)
        await until_published(collector, 40)
        await lab.outbox_is_empty()

    assert len(set(collector.lines)) == 40


async def test_an_entry_of_another_kind_is_passed_on_for_the_consumer_to_set_aside(
    lab: Lab, redis: Redis
) -> None:
    stream = lab.services.keys.outboxes()[0]
    await lab.services.redis.xadd(stream, {"hello": "world"})
    collector = Collector()

    async with running(relay_over(redis, lab, collector)):
        await until_published(collector, 1)
        await lab.outbox_is_empty()

    assert b"hello" in collector.lines[0]


async def test_draining_moves_everything_that_is_there(lab: Lab, redis: Redis) -> None:
    await grab_one_by_one(lab, 12)
    collector = Collector()

    assert await relay_over(redis, lab, collector).drain() == 12

    assert await lab.outbox() == 0


async def test_entries_acknowledged_are_deleted_in_the_same_transaction(lab: Lab) -> None:
    await grab_one_by_one(lab, 3)
    async with lab.services.redis.monitor() as monitor:
        await lab.relay(Collector()).drain()
        await lab.services.redis.echo("the end")
        seen: list[str] = []
        async for command in monitor.listen():
            verb = command["command"].split()[0].upper()
            seen.append(verb)
            if verb == "ECHO":
                break

    start = seen.index("MULTI")
    assert seen[start : start + 4] == ["MULTI", "XACK", "XDEL", "EXEC"]


async def test_a_relay_that_takes_over_reads_from_the_start_of_the_pending_list(lab: Lab) -> None:
    await grab_one_by_one(lab, 1)
    async with running(lab.relay(Collector(failures_left=10_000), "dead")):
        await eventually(lambda: lab.pending(), what="an entry read by a relay that cannot send")

    async with running(lab.relay(Collector(), "other", AT_ONCE_ABANDONED)):
        await lab.outbox_is_empty()

    groups = await lab.services.redis.xinfo_groups(lab.services.keys.outboxes()[0])
    assert groups[0]["name"] == f"relay:{lab.services.deployment.name}".encode()
