"""Waits until everything that is under way has arrived in MySQL."""

import json
import time
from typing import Final

from app.services import Services
from tests.chaos.stand import Stand
from tests.eventually import eventually
from workers.topology import LEDGER_QUEUE, dead_letter_queue

DRAIN_DEADLINE_S: Final = 120.0
DEAD_LETTER_QUEUES: Final = (dead_letter_queue(LEDGER_QUEUE),)


async def drain(stand: Stand, services: Services) -> float:
    """Return after how many seconds nothing is under way. Raises TimeoutError."""
    began_s = time.monotonic()

    async def outboxes_are_empty() -> bool:
        return await entries_in_outboxes(services) == 0

    async def queues_are_empty() -> bool:
        # Counts what a consumer holds as well, which no passive declaration tells.
        queues = messages_in_queues(stand)
        return not any(queues[name] for name in queues if name not in DEAD_LETTER_QUEUES)

    async def nothing_is_under_way() -> bool:
        # In the order of the way, for what leaves one place arrives in the next.
        return await outboxes_are_empty() and await queues_are_empty()

    await eventually(
        nothing_is_under_way, what="outboxes and queues empty", deadline_s=DRAIN_DEADLINE_S
    )
    return time.monotonic() - began_s


async def entries_in_outboxes(services: Services) -> int:
    return sum([await services.redis.xlen(stream) for stream in services.keys.outboxes()])


def messages_in_queues(stand: Stand) -> dict[str, int]:
    """Messages by queue, ready or unacknowledged."""
    printed = stand.rabbitmq.ctl("list_queues", "--formatter", "json", "name", "messages")
    return {row["name"]: row["messages"] for row in json.loads(printed)}


def dead_letters(stand: Stand) -> int:
    queues = messages_in_queues(stand)
    return sum(queues.get(name, 0) for name in DEAD_LETTER_QUEUES)
