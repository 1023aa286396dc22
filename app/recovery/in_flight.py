"""Waits until every claim that is on its way from Redis to MySQL has arrived there."""

import asyncio
import secrets
from typing import Any, Final, cast

from redis.asyncio import Redis

from app.control.markers import is_marker_booked, marker_body
from app.store.database import Database
from lua.keys import KeySpace

POLL_S: Final = 0.05
WAIT_S: Final = 60.0
_BEFORE_ALL: Final = (0, 0)

EntryId = tuple[int, int]


class ClaimsUnderWay(Exception):
    """Claims that left Redis have not reached MySQL in time."""


class InFlightClaims:
    """The claims between Redis and MySQL: in outboxes, in a relay, in RabbitMQ, in a consumer."""

    def __init__(
        self, redis: Redis, keys: KeySpace, database: Database, wait_s: float = WAIT_S
    ) -> None:
        self._redis = redis
        self._outboxes = keys.outboxes()
        self._database = database
        self._wait_s = wait_s

    async def arrived(self) -> None:
        """Return once all that was under way at the call is booked. Raises ClaimsUnderWay.

        An entry leaves its outbox once RabbitMQ has confirmed it. When those of now are gone, a
        marker is sent after them; the ledger's queue has one active consumer, which takes it last.
        """
        try:
            async with asyncio.timeout(self._wait_s):
                await self._outboxes_passed(await self._ends(newest=True))
                marker = secrets.token_hex(16)
                await self._redis.xadd(self._outboxes[0], {"claims": marker_body(marker)})
                await self._marker_booked(marker)
        except TimeoutError:
            raise ClaimsUnderWay(
                f"claims under way have not been booked within {self._wait_s:.0f} s:"
                " are relay, RabbitMQ and ledger running?"
            ) from None

    async def _outboxes_passed(self, ends: list[EntryId]) -> None:
        while True:
            oldest = await self._ends(newest=False)
            waiting = zip(oldest, ends, strict=True)
            if not any(_BEFORE_ALL < first <= end for first, end in waiting):
                return
            await asyncio.sleep(POLL_S)

    async def _marker_booked(self, marker: str) -> None:
        while True:
            if await is_marker_booked(self._database, marker):
                return
            await asyncio.sleep(POLL_S)

    async def _ends(self, *, newest: bool) -> list[EntryId]:
        """The newest or oldest entry of each outbox; (0, 0) for an empty one."""
        async with self._redis.pipeline(transaction=False) as pipeline:
            for outbox in self._outboxes:
                if newest:
                    pipeline.xrevrange(outbox, count=1)
                else:
                    pipeline.xrange(outbox, count=1)
            replies = await pipeline.execute()
        return [_entry_id(reply) for reply in replies]


def _entry_id(entries: Any) -> EntryId:
    if not entries:
        return _BEFORE_ALL
    ms, _, number = cast(bytes, entries[0][0]).partition(b"-")
    return int(ms), int(number)
