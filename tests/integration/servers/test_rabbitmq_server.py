"""Private RabbitMQ: quorum queues survive a kill, the node obeys rabbitmqctl and a pause."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aio_pika
import pytest

from tests.servers.deadline import poll_until
from tests.servers.rabbitmq import RabbitServer, start_rabbitmq

QUEUE = "kept"
ANSWER_WITHIN_S = 15


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    with start_rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as started:
        yield started


async def declare(channel: aio_pika.abc.AbstractChannel) -> aio_pika.abc.AbstractQueue:
    return await channel.declare_queue(
        QUEUE, durable=True, arguments={"x-queue-type": "quorum"}, timeout=ANSWER_WITHIN_S
    )


async def publish(url: str, body: bytes) -> None:
    async with await aio_pika.connect(url, timeout=ANSWER_WITHIN_S) as connection:
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        await declare(channel)
        message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, QUEUE, timeout=ANSWER_WITHIN_S)


async def take(url: str) -> bytes:
    async with await aio_pika.connect(url, timeout=ANSWER_WITHIN_S) as connection:
        channel = await connection.channel()
        queue = await declare(channel)
        async with queue.iterator(timeout=ANSWER_WITHIN_S) as messages:
            async for message in messages:
                await message.ack()
                return message.body
    raise AssertionError("the queue ended")


async def test_confirmed_message_in_a_quorum_queue_survives_kill(server: RabbitServer) -> None:
    await publish(server.url, b"claims 1..200")
    server.flush_queue_names()
    port, first_pid = server.port, server.pid
    server.kill()
    assert not server.is_running
    server.restart()
    assert (server.port, server.pid != first_pid) == (port, True)
    assert await take(server.url) == b"claims 1..200"


async def test_queue_declared_anew_under_an_old_name_survives_kill(server: RabbitServer) -> None:
    await publish(server.url, b"old")
    server.flush_queue_names()
    async with await aio_pika.connect(server.url, timeout=ANSWER_WITHIN_S) as connection:
        await (await connection.channel()).queue_delete(QUEUE)
    await publish(server.url, b"new")

    server.flush_queue_names()
    server.kill()
    server.restart()

    assert await take(server.url) == b"new"


async def test_message_survives_orderly_restart(server: RabbitServer) -> None:
    await publish(server.url, b"claims 201..400")
    server.restart()
    assert await take(server.url) == b"claims 201..400"


def test_pid_is_the_virtual_machine_itself(server: RabbitServer) -> None:
    assert Path(f"/proc/{server.pid}/comm").read_text().strip() == "beam.smp"


async def test_ctl_lists_queues_and_stops_and_starts_the_broker(server: RabbitServer) -> None:
    await publish(server.url, b"one more")
    # A broker counts the messages of its quorum queues once in a few seconds.
    poll_until(
        lambda: f"{QUEUE}\t1\n" in server.ctl("list_queues", "name", "messages"),
        deadline_s=30,
        what="rabbitmqctl shows the message",
    )
    server.ctl("stop_app")
    with pytest.raises(OSError, match="refused"):
        server.probe()
    server.ctl("start_app")
    server.wait_ready()
    assert await take(server.url) == b"one more"


async def test_paused_broker_greets_nobody_until_resumed(server: RabbitServer) -> None:
    server.pause()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(aio_pika.connect(server.url), timeout=0.5)
    server.resume()
    server.wait_ready()
    await publish(server.url, b"after the pause")
    assert await take(server.url) == b"after the pause"
