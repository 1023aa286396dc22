"""Waits until everything that is under way has arrived in MySQL, and looks for what has not."""

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Final

from app.services import Services
from app.settling.due import due_packets
from tests.chaos.senders import Created
from tests.chaos.stand import Stand
from tests.eventually import eventually
from tests.integration.workers.broker import Broker
from workers.topology import LEDGER_QUEUE, dead_letter_queue

DRAIN_DEADLINE_S: Final = 120.0
DEAD_LETTER_QUEUES: Final = (dead_letter_queue(LEDGER_QUEUE),)


async def drain(stand: Stand, services: Services, created: Sequence[Created]) -> float:
    """Return after how many seconds nothing is under way. Raises TimeoutError."""
    began_s = time.monotonic()

    async def nothing_is_under_way() -> bool:
        # In the order of the way, for what leaves one place arrives in the next.
        if await entries_in_outboxes(services) or await unbooked_packets(services, created):
            return False
        if await due_packets(services.database):
            return False
        queues = await asyncio.to_thread(messages_in_queues, stand)
        return not any(queues[name] for name in queues if name not in DEAD_LETTER_QUEUES)

    await eventually(
        nothing_is_under_way,
        what="outboxes and queues empty, a row for every claim, and all settled that is due",
        deadline_s=DRAIN_DEADLINE_S,
    )
    return time.monotonic() - began_s


async def entries_in_outboxes(services: Services) -> int:
    return sum([await services.redis.xlen(stream) for stream in services.keys.outboxes()])


async def unbooked_packets(services: Services, created: Sequence[Created]) -> int:
    """Packets of which Redis holds more claims than there are rows."""
    rows = await services.database.transaction(
        lambda work: work.rows("SELECT packet_id, COUNT(*) AS claims FROM claim GROUP BY packet_id")
    )
    booked = {row["packet_id"]: row["claims"] for row in rows}
    async with services.redis.pipeline(transaction=False) as pipeline:
        for packet in created:
            pipeline.hlen(services.keys.packet(packet.packet_id).claims)
        claims = await pipeline.execute()
    return sum(
        count > booked.get(packet.packet_id, 0)
        for packet, count in zip(created, claims, strict=True)
    )


def messages_in_queues(stand: Stand) -> dict[str, int]:
    """Messages by queue, ready or unacknowledged, as of some seconds ago.

    The broker counts those of a quorum queue anew every five seconds only.
    """
    printed = stand.rabbitmq.ctl("list_queues", "--formatter", "json", "name", "messages")
    return {row["name"]: row["messages"] for row in json.loads(printed)}


async def left_in_queues(stand: Stand) -> dict[str, int]:
    """What is left in each queue, exactly: for when no consumer is there to hold anything."""
    broker = Broker(stand.rabbitmq)
    return {
        name: await broker.left_behind(name)
        for name in await asyncio.to_thread(messages_in_queues, stand)
    }
