"""Opens packets that were funded by a process that died before it had opened them."""

import asyncio
import logging
from typing import Final

from redis.exceptions import ResponseError
from tortoise.queryset import QuerySet

from app.control.pausing import pause
from app.packets.opening import OpeningFailed, PacketOpener
from app.store.database import Database
from app.store.models import Packet
from app.store.times import now_ms, to_datetime
from workers.amqp import keep_running

log = logging.getLogger(__name__)

GRACE_MS: Final = 5_000  # the process that funded a packet opens it within this time
INTERVAL_S: Final = 1.0
PACKETS_PER_PAGE: Final = 100


def overdue_packets(now: int) -> QuerySet[Packet]:
    """The packets that should be open at `now`, in milliseconds, in the order of their index."""
    funded_before = to_datetime(now - GRACE_MS)
    return Packet.filter(state="funded", created_at__lt=funded_before).order_by("expires_at", "id")


class Opener:
    def __init__(
        self, database: Database, opener: PacketOpener, *, packets_per_page: int = PACKETS_PER_PAGE
    ) -> None:
        self._database = database
        self._opener = opener
        self._packets_per_page = packets_per_page

    async def run(self, stop: asyncio.Event) -> None:
        await keep_running("opener", lambda: self._open_until(stop), stop)

    async def open_overdue(self) -> int:
        """Open the packets that should be open by now; returns how many were.

        Page after page, so that packets that cannot be opened do not hide those behind them.
        """
        opened = refused = 0
        while overdue := await self._overdue(refused):
            for packet in overdue:
                try:
                    await self._opener.open(packet)
                    opened += 1
                except (OpeningFailed, ValueError, ResponseError) as error:
                    log.error("packet %d does not open: %s", packet.id, error)
                    refused += 1
        return opened

    async def _overdue(self, skipped: int) -> list[Packet]:
        # What was opened is no longer overdue; what could not be opened still is, and is skipped.
        query = overdue_packets(now_ms()).offset(skipped).limit(self._packets_per_page)
        return await self._database.read(lambda: query)

    async def _open_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await self.open_overdue()
            await pause(stop, INTERVAL_S)
