"""Trouble that is no death: a broker that stops, a queue that is unbound, an orderly shutdown."""

import asyncio
import time
from pathlib import Path

import pytest
from aio_pika import Message
from redis import Redis

from app.config import Settings
from app.ledger.claims import Claim, claim_body
from app.services import Services
from splitter.money import Fen
from tests.durability.fleet import MIDDLE, SHARES, Fleet
from tests.durability.program import environment_of, redpacket
from tests.eventually import eventually
from tests.servers.guarded import GuardedProcess
from tests.servers.programs import plain_environment
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer
from workers.topology import CLAIMS_EXCHANGE, CLAIMS_ROUTING_KEY

BROKER_STOPS_S = 20.0
SLOWEST_ANSWER_S = 10.0


async def test_a_broker_that_stops_for_20_s_costs_no_answer_and_hangs_no_request(
    fleet: Fleet, rabbitmq_server: RabbitServer
) -> None:
    crowd, users = await fleet.crowd()
    asking = asyncio.create_task(crowd.everybody(users))
    await crowd.reached(MIDDLE)

    rabbitmq_server.pause()
    until_s = time.monotonic() + BROKER_STOPS_S
    try:
        await asking
        while time.monotonic() < until_s:  # the crowd keeps asking all the while
            await crowd.everybody(users[::3])
        assert await fleet.outbox() > 0
    finally:
        rabbitmq_server.resume()

    await fleet.reckon(crowd, "broker stopped for 20 s")
    assert crowd.slowest_s < SLOWEST_ANSWER_S
    assert not crowd.troubles


async def test_an_unbound_queue_keeps_the_outbox_and_drains_it_when_bound_again(
    fleet: Fleet,
) -> None:
    crowd, users = await fleet.crowd()
    await crowd.everybody(users[:MIDDLE])

    await fleet.broker.unbind()
    await crowd.everybody(users[MIDDLE:])

    async def nothing_arrives_any_more() -> bool:
        return await fleet.broker.state() == (0, 1) and await fleet.outbox() > 0

    await eventually(nothing_arrives_any_more, what="a queue run dry and an outbox kept")
    await fleet.broker.bind()

    await fleet.reckon(crowd, "queue unbound")
    assert not crowd.troubles


async def test_every_claim_delivered_again_in_other_batches_changes_nothing(fleet: Fleet) -> None:
    crowd, users = await fleet.crowd()
    await crowd.everybody(users)
    await fleet.reckon(crowd, "delivered once")
    number = fleet.services.packet_ids.read(fleet.packet_id)
    winners = await fleet.services.live.winners(number, SHARES)
    assert winners is not None
    bodies = [
        claim_body(Claim(number, grab.seq, user, Fen(grab.amount_fen), grab.at_ms))
        for user, grab in winners.items()
    ]

    async with fleet.broker.channel() as channel:
        exchange = await channel.get_exchange(CLAIMS_EXCHANGE)
        for first in range(0, SHARES, 77):
            message = Message(b"\n".join(bodies[first : first + 77]))
            await exchange.publish(message, CLAIMS_ROUTING_KEY, mandatory=True)

    async def consumed() -> bool:
        listed = fleet.broker.server.ctl("list_queues", "--no-table-headers", "messages")
        return set(listed.split()) == {"0"}

    await eventually(consumed, what="queues without messages")
    await fleet.reckon(crowd, "delivered twice")


async def test_sigterm_under_load_answers_every_grab_that_was_let_in(fleet: Fleet) -> None:
    crowd, users = await fleet.crowd()
    asking = asyncio.create_task(crowd.everybody(users))
    statuses = []
    for answers in (MIDDLE // 2, MIDDLE, MIDDLE * 3 // 2):
        await crowd.reached(answers)
        statuses.append(await asyncio.to_thread(fleet.api.end_in_order))
        await asyncio.to_thread(fleet.api.start)

    await asking
    await fleet.reckon(crowd, "SIGTERM api, three times")
    assert statuses == [0, 0, 0]
    # Had an accepted grab gone unanswered, its user would have learnt of the claim by asking again.
    assert crowd.first_words == {"grabbed": SHARES}
    assert "503" not in crowd.troubles


async def test_workers_told_to_stop_under_load_leave_the_rest_to_their_successors(
    fleet: Fleet,
) -> None:
    crowd, users = await fleet.crowd()
    asking = asyncio.create_task(crowd.everybody(users))
    await crowd.reached(MIDDLE)

    workers = (fleet.relay, fleet.ledger)
    statuses = await asyncio.gather(*(asyncio.to_thread(w.end_in_order) for w in workers))
    await asyncio.gather(*(asyncio.to_thread(worker.start) for worker in workers))

    await asking
    await fleet.reckon(crowd, "SIGTERM relay and ledger")
    assert statuses == [0, 0]


@pytest.mark.parametrize("arguments", [("serve",), ("worker", "relay")])
async def test_a_redis_that_does_not_fsync_every_write_is_refused_at_start(
    settings: Settings,
    services: Services,
    redis_server: RedisServer,
    tmp_path: Path,
    arguments: tuple[str, ...],
) -> None:
    log = tmp_path / "refused.log"
    with Redis.from_url(redis_server.url) as redis:
        redis.config_set("appendfsync", "everysec")
        try:
            process = GuardedProcess(
                redpacket(*arguments),
                directory=tmp_path,
                log=log,
                environment=plain_environment() | environment_of(settings),
            )
            status = await asyncio.to_thread(process.exit_status, 20.0)
            process.release()
        finally:
            redis.config_set("appendfsync", "always")

    assert status == 2
    assert "durability fsync needs appendfsync always" in log.read_text()
