"""Opens packets that were funded by a process that died before it had opened them."""

import asyncio
import logging
from typing import Final

from tortoise.queryset import QuerySet

from app.packets.opening import OpeningFailed, PacketOpener
from app.store.database import Database
from app.store.models import Packet
from app.store.times import now_ms, to_datetime
from workers.amqp import keep_running, pause

log = logging.getLogger(__name__)

GRACE_MS: Final = 5_000  # the process that funded a packet opens it within this time
INTERVAL_S: Final = 1.0
PACKETS_PER_PAGE: Final = 100


def overdue_packets(now: int) -> QuerySet[Packet]:
    """The packets that should be open at `now`, in milliseconds, by id."""
    funded_before = to_datetime(now - GRACE_MS)
    return Packet.filter(state="funded", created_at__lt=funded_before).order_by("id")


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
        opened = 0
        last_id = 0
        while overdue := await self._overdue_after(last_id):
            for packet in overdue:
                try:
                    await self._opener.open(packet)
                    opened += 1
                except (OpeningFailed, ValueError) as error:
                    log.error("packet %d does not open: %s", packet.id, error)
            last_id = overdue[-1].id
        return opened

    async def _overdue_after(self, last_id: int) -> list[Packet]:
        query = overdue_packets(now_ms()).filter(id__gt=last_id)
        return await self._database.read(lambda: query.limit(self._packets_per_page))

    async def _open_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await self.open_overdue()
            await pause(stop, INTERVAL_S)
