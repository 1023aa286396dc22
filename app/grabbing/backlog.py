"""Refuses new grabs while more claims wait for MySQL than the stores in between should hold."""

import logging
from dataclasses import dataclass

from redis.asyncio import Redis

from lua.keys import KeySpace

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BacklogLimits:
    """High-water marks; the gate opens again once both backlogs are under half of them."""

    entries: int = 100_000  # of all outboxes; one holds the claims of a script call
    messages: int = 40_000  # in RabbitMQ; one holds many entries


class BacklogGate:
    """Shut while outboxes or queues hold too much. `refresh` looks; grabs only read `is_shut`."""

    def __init__(self, redis: Redis, keys: KeySpace, limits: BacklogLimits) -> None:
        self._redis = redis
        self._keys = keys
        self._limits = limits
        self.is_shut = False
        self.entries = 0
        self.messages = 0

    async def refresh(self) -> None:
        async with self._redis.pipeline(transaction=False) as pipeline:
            pipeline.get(self._keys.queued())
            for outbox in self._keys.outboxes():
                pipeline.xlen(outbox)
            queued, *lengths = await pipeline.execute()
        self.entries = sum(lengths)
        self.messages = int(queued or 0)
        fullness = max(self.entries / self._limits.entries, self.messages / self._limits.messages)
        if not self.is_shut and fullness > 1:
            self.is_shut = True
            log.error(
                "grabs are refused: %d entries and %d messages wait", self.entries, self.messages
            )
        elif self.is_shut and fullness < 0.5:
            self.is_shut = False
            log.warning("the backlog is worked off: grabs are taken again")
