"""Opens packets that were funded by a process that died before it had opened them."""

import asyncio
import logging
from typing import Final

from app.packets.opening import OpeningFailed, PacketOpener
from app.store.database import Database
from app.store.models import Packet
from app.store.times import now_ms, to_datetime
from workers.amqp import keep_running, pause

log = logging.getLogger(__name__)

GRACE_MS: Final = 5_000  # the process that funded a packet opens it within this time
INTERVAL_S: Final = 1.0
PACKETS_PER_PASS: Final = 100


class Opener:
    def __init__(self, database: Database, opener: PacketOpener) -> None:
        self._database = database
        self._opener = opener

    async def run(self, stop: asyncio.Event) -> None:
        await keep_running("opener", lambda: self._open_until(stop), stop)

    async def open_overdue(self) -> int:
        """Open the packets that should be open by now; returns how many were."""
        funded_before = to_datetime(now_ms() - GRACE_MS)
        overdue = await self._database.read(
            lambda: (
                Packet.filter(state="funded", created_at__lt=funded_before)
                .order_by("id")
                .limit(PACKETS_PER_PASS)
            )
        )
        opened = 0
        for packet in overdue:
            try:
                await self._opener.open(packet)
                opened += 1
            except OpeningFailed as error:
                log.error("%s", error)
        return opened

    async def _open_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await self.open_overdue()
            await pause(stop, INTERVAL_S)
