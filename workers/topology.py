"""Exchanges and queues of RabbitMQ. Each queue is a quorum queue with its own dead letters."""

from typing import Final

from aio_pika.abc import AbstractChannel, AbstractExchange, AbstractQueue, ExchangeType

CLAIMS_EXCHANGE: Final = "redpacket.claims"
LEDGER_QUEUE: Final = "redpacket.ledger"
CLAIMS_ROUTING_KEY: Final = "claims"
# A message that keeps killing its consumer is set aside after this many deliveries. A consumer
# that fails holds its messages and tries again by itself, so ordinary trouble never counts.
DELIVERY_LIMIT: Final = 20
# Without a limit RabbitMQ 4 throws away what was delivered 20 times, if only to be looked at. It
# reads -1 as "never"; RabbitMQ 3 reads that as "at once". Both understand a number nobody reaches.
DEAD_LETTER_DELIVERY_LIMIT: Final = 2**31 - 1
# When the queue is full the broker refuses, and claims wait in the outbox: its memory is bounded.
MAX_QUEUED_MESSAGES: Final = 50_000


def dead_letter_queue(queue: str) -> str:
    return f"{queue}.dead"


async def declare_claims_exchange(channel: AbstractChannel) -> AbstractExchange:
    return await channel.declare_exchange(CLAIMS_EXCHANGE, ExchangeType.TOPIC, durable=True)


async def declare_dead_letter_queue(channel: AbstractChannel, queue: str) -> AbstractQueue:
    return await channel.declare_queue(
        dead_letter_queue(queue),
        durable=True,
        arguments={"x-queue-type": "quorum", "x-delivery-limit": DEAD_LETTER_DELIVERY_LIMIT},
    )


async def declare_ledger_queue(channel: AbstractChannel) -> AbstractQueue:
    """Declare the ledger's queue with its dead-letter queue, and bind it to the claims exchange."""
    exchange = await declare_claims_exchange(channel)
    dead_letters = await declare_dead_letter_queue(channel, LEDGER_QUEUE)
    queue = await channel.declare_queue(
        LEDGER_QUEUE,
        durable=True,
        arguments={
            "x-queue-type": "quorum",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": dead_letters.name,
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
            "x-delivery-limit": DELIVERY_LIMIT,
            "x-max-length": MAX_QUEUED_MESSAGES,
            # One consumer at a time keeps the order: a marker is booked after all before it.
            "x-single-active-consumer": True,
        },
    )
    await queue.bind(exchange, CLAIMS_ROUTING_KEY)
    return queue
