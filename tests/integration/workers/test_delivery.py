"""From the outbox over RabbitMQ into MySQL: what is not safely queued stays in the outbox."""

import pytest
from aio_pika import DeliveryMode

from tests.eventually import eventually
from tests.integration.workers.lab import Lab, Watched, running
from workers.publisher import AmqpPublisher
from workers.topology import DELIVERY_LIMIT, LEDGER_QUEUE


async def test_claims_arrive_once_each_and_nothing_stays_behind(lab: Lab) -> None:
    packet = await lab.packet(shares=60)
    async with running(lab.consumer(), lab.relay()):
        grabs = []
        for number in range(20):
            grabs += await lab.grab(packet, *(f"user{number}-{n}" for n in range(3)))

        rows = await lab.booked(packet, 60)
        await lab.outbox_is_empty()

    assert [(seq, amount_fen) for seq, _, amount_fen in rows] == [
        (grab.seq, grab.amount_fen) for grab in grabs
    ]
    assert await lab.money_gap() == 0
    assert await lab.waiting_letters() == []
    assert await lab.broker.left_behind() == 0


@pytest.mark.parametrize("trouble", ["unbound", "deleted", "never declared"])
async def test_what_cannot_be_routed_stays_in_the_outbox_and_is_delivered_later(
    lab: Lab, trouble: str
) -> None:
    if trouble != "never declared":
        await lab.broker.declare()
    if trouble == "unbound":
        await lab.broker.unbind()
    if trouble == "deleted":
        await lab.broker.delete(LEDGER_QUEUE)
    packet = await lab.packet(shares=5)
    watched = Watched(AmqpPublisher(lab.broker.url))

    async with running(lab.relay(watched)):
        for number in range(5):
            await lab.grab(packet, f"user{number}")

        async def refused_twice() -> bool:
            return watched.failed >= 2

        await eventually(refused_twice, what="two refused messages")
        assert await lab.outbox() == 5
        assert await lab.rows(packet) == []

        async with running(lab.consumer()):  # declares and binds the queue
            assert len(await lab.booked(packet, 5)) == 5
            await lab.outbox_is_empty()


async def test_without_a_confirm_in_time_nothing_leaves_the_outbox(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.amqp.CLOSE_TIMEOUT_S", 0.2)
    await lab.broker.declare()
    packet = await lab.packet(shares=2)
    watched = Watched(AmqpPublisher(lab.broker.url, confirm_timeout_s=0.3))
    async with running(lab.relay(watched)):
        await lab.grab(packet, "ann")
        await lab.outbox_is_empty()

        lab.broker.server.pause()
        try:
            await lab.grab(packet, "bob")

            async def refused() -> bool:
                return watched.failed >= 1

            await eventually(refused, what="a message that was not confirmed in time")
            assert await lab.outbox() == 1
        finally:
            lab.broker.server.resume()

        await lab.outbox_is_empty()
        async with running(lab.consumer()):
            assert len(await lab.booked(packet, 2)) == 2


async def test_queues_keep_their_messages_and_messages_outlive_the_broker(lab: Lab) -> None:
    await lab.broker.declare()
    packet = await lab.packet(shares=1)
    await lab.grab(packet, "ann")
    async with running(lab.relay()):
        await lab.outbox_is_empty()

    described = lab.broker.described()
    [message] = await lab.broker.take(LEDGER_QUEUE)

    assert message.delivery_mode == DeliveryMode.PERSISTENT
    assert set(described) == {LEDGER_QUEUE, f"{LEDGER_QUEUE}.dead"}
    for queue in described.values():
        assert queue["type"] == "quorum"
        assert queue["durable"] is True
    arguments = {name: value for name, _, value in described[LEDGER_QUEUE]["arguments"]}
    assert arguments["x-delivery-limit"] == DELIVERY_LIMIT
    assert arguments["x-dead-letter-strategy"] == "at-least-once"
    assert arguments["x-overflow"] == "reject-publish"
    assert arguments["x-dead-letter-routing-key"] == f"{LEDGER_QUEUE}.dead"


async def test_a_relay_outlives_the_loss_of_its_connection(lab: Lab) -> None:
    packet = await lab.packet(shares=2)
    async with running(lab.consumer(), lab.relay()):
        await lab.grab(packet, "ann")
        await lab.booked(packet, 1)

        lab.broker.server.ctl("close_all_connections", "test")

        await lab.grab(packet, "bob")
        assert len(await lab.booked(packet, 2)) == 2
        await lab.outbox_is_empty()


async def test_a_full_queue_refuses_and_the_outbox_keeps_what_it_did_not_take(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.topology.MAX_QUEUED_MESSAGES", 3)
    monkeypatch.setattr("workers.relay.MESSAGE_BYTES", 1)  # an entry a message
    await lab.broker.declare()
    packet = await lab.packet(shares=40)
    watched = Watched(AmqpPublisher(lab.broker.url))
    async with running(lab.relay(watched)):
        for number in range(40):
            await lab.grab(packet, f"user{number}")

        async def refused_twice() -> bool:
            return watched.failed >= 2

        await eventually(refused_twice, what="two refusals of a full queue")
        assert await lab.outbox() > 0

        async with running(lab.consumer()):
            assert len(await lab.booked(packet, 40)) == 40
            await lab.outbox_is_empty()
    assert await lab.waiting_letters() == []
    assert await lab.money_gap() == 0
