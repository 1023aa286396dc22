"""The consumer: acknowledged only what is booked or set aside, and set aside only what must be."""

import asyncio
from collections.abc import Sequence

import pytest
from aio_pika.abc import AbstractIncomingMessage

from app.store.models import Packet
from tests.eventually import eventually
from tests.integration.workers.broker import DEAD_QUEUE
from tests.integration.workers.lab import HookedHandler, Lab, message_of, running
from tests.servers.database import DatabaseServer
from workers.amqp import ConnectionLost
from workers.consumer import Consumer
from workers.ledger import LedgerHandler
from workers.topology import DELIVERY_LIMIT, LEDGER_QUEUE, declare_ledger_queue


async def claims_in_queue(lab: Lab, shares: int = 5, claimed: int = 5) -> Packet:
    """A packet whose claims wait in RabbitMQ as one message each."""
    await lab.broker.declare()
    packet = await lab.packet(shares)
    for number in range(claimed):
        [grab] = await lab.grab(packet, f"user{number}")
        await lab.broker.publish(message_of(packet, f"user{number}", grab))
    return packet


async def test_while_the_database_is_down_nothing_is_acknowledged_or_set_aside(
    lab: Lab, database_server: DatabaseServer
) -> None:
    packet = await claims_in_queue(lab)
    refused = 0

    async def count() -> None:
        nonlocal refused
        refused += 1

    database_server.kill()
    try:
        async with running(lab.consumer(HookedHandler(lab, before=count))):

            async def tried_again() -> bool:
                return refused >= 3

            await eventually(tried_again, what="a batch that is tried again")
            await asyncio.to_thread(database_server.start)
            assert len(await lab.booked(packet, 5)) == 5
    finally:
        if not database_server.is_running:
            database_server.start()

    assert await lab.broker.left_behind() == 0
    assert await lab.waiting_letters() == []
    assert await lab.money_gap() == 0


async def test_acknowledgements_lost_after_the_commit_book_nothing_twice(lab: Lab) -> None:
    packet = await claims_in_queue(lab)
    handled = 0

    async def lose_the_connection() -> None:
        nonlocal handled
        handled += 1
        if handled == 1:
            lab.broker.server.ctl("close_all_connections", "test")

    async with running(lab.consumer(HookedHandler(lab, after=lose_the_connection))):

        async def delivered_again() -> bool:
            return handled >= 2

        await eventually(delivered_again, what="a second delivery")
        await lab.booked(packet, 5)

    assert len(await lab.rows(packet)) == 5
    assert await lab.broker.left_behind() == 0
    assert await lab.money_gap() == 0


@pytest.mark.parametrize("queue", [LEDGER_QUEUE, "connection"])
async def test_an_idle_consumer_comes_back_when_its_queue_or_connection_is_gone(
    lab: Lab, queue: str
) -> None:
    packet = await lab.packet(shares=1)
    [grab] = await lab.grab(packet, "ann")
    async with running(lab.consumer()):
        await lab.until_consumed()

        if queue == "connection":
            lab.broker.server.ctl("close_all_connections", "test")
        else:
            await lab.broker.delete(queue)

        await lab.until_consumed()
        await lab.broker.publish(message_of(packet, "ann", grab))
        await lab.booked(packet, 1)


async def test_told_to_stop_in_mid_batch_the_consumer_finishes_and_acknowledges_it(
    lab: Lab,
) -> None:
    packet = await claims_in_queue(lab)
    begun, go_on, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        begun.set()
        await go_on.wait()

    consumer = lab.consumer(HookedHandler(lab, before=hold))
    consuming = asyncio.create_task(consumer.run(stop))
    async with asyncio.timeout(20):
        await begun.wait()
    stop.set()
    go_on.set()
    async with asyncio.timeout(20):
        await consuming

    assert len(await lab.rows(packet)) + await lab.broker.left_behind() == 5
    async with running(lab.consumer()):
        assert len(await lab.booked(packet, 5)) == 5
    assert await lab.broker.left_behind() == 0


async def test_a_batch_that_fails_when_told_to_stop_goes_to_the_next_consumer(lab: Lab) -> None:
    packet = await claims_in_queue(lab)
    tried = asyncio.Event()

    async def fail() -> None:
        tried.set()
        raise ConnectionError("the database is gone")

    async with running(lab.consumer(HookedHandler(lab, before=fail))), asyncio.timeout(20):
        await tried.wait()
    assert await lab.rows(packet) == []

    async with running(lab.consumer()):
        assert len(await lab.booked(packet, 5)) == 5


async def test_a_message_that_keeps_killing_its_consumer_is_set_aside_by_the_broker(
    lab: Lab,
) -> None:
    await lab.broker.declare()
    await lab.broker.publish(b"deadly")
    deliveries = 0

    async def delivered_and_died() -> bool:
        nonlocal deliveries
        if await lab.broker.state(DEAD_QUEUE) == (1, 0):
            return True
        deliveries += await lab.broker.deliver_and_die()
        return False

    await eventually(delivered_and_died, what="the message in the dead-letter queue")

    assert deliveries == DELIVERY_LIMIT + 1


async def test_a_deadly_message_takes_none_of_its_neighbours_along(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.topology.DELIVERY_LIMIT", 5)
    packet = await claims_in_queue(lab, shares=6, claimed=5)
    await lab.broker.publish(b"deadly")
    [late] = await lab.grab(packet, "late")
    await lab.broker.publish(message_of(packet, "late", late))

    class Mortal(Consumer):
        async def _handle_batch(
            self,
            batch: Sequence[AbstractIncomingMessage],
            stop: asyncio.Event,
            lost: asyncio.Event,
        ) -> bool:
            if any(message.body == b"deadly" for message in batch):
                raise ConnectionLost  # to the broker, that is a death: nothing is acknowledged
            return await super()._handle_batch(batch, stop, lost)

    handler = LedgerHandler(lab.services.database, lab.letters)

    async def handle(messages: Sequence[AbstractIncomingMessage]) -> None:
        await handler.handle([message.body for message in messages])

    mortal = Mortal("mortal", lab.broker.url, declare_ledger_queue, handle)
    async with running(mortal, lab.keeper()):
        rows = await lab.booked(packet, 6)
        [letter] = await lab.dead_letters(1)

    assert len(rows) == 6
    assert letter.body == b"deadly"
    assert letter.reason == "its consumer died or lost the broker each time it was delivered"
    assert await lab.broker.left_behind() == 0
