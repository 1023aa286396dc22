"""Moves what RabbitMQ itself set aside into the table of dead letters."""

from collections.abc import Sequence
from typing import Any

from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue

from app.ledger.claims import Rejected
from app.ledger.dead_letters import DeadLetters
from workers.consumer import Consumer
from workers.topology import declare_dead_letter_queue


def dead_letter_keeper(url: str, queue: str, letters: DeadLetters) -> Consumer:
    """A message that killed its consumer again and again lands in the broker's own queue first."""

    async def declare(channel: AbstractChannel) -> AbstractQueue:
        return await declare_dead_letter_queue(channel, queue)

    async def keep(messages: Sequence[AbstractIncomingMessage]) -> None:
        await letters.put([Rejected(each.body, death_reason(each.headers)) for each in messages])

    return Consumer("dead-letter keeper", url, declare, keep)


def death_reason(headers: Any) -> str:
    """Why the broker set a message aside, from its x-death header."""
    deaths = headers.get("x-death") if headers else None
    first = deaths[0] if isinstance(deaths, list) and deaths else {}
    reason = first.get("reason", "unknown") if isinstance(first, dict) else "unknown"
    if isinstance(reason, bytes):
        reason = reason.decode(errors="replace")
    if reason == "delivery_limit":
        return "its consumer died or lost the broker each time it was delivered"
    return f"RabbitMQ set it aside: {reason}"
