"""Settles packets that have expired or sold out."""

import asyncio
import logging
from typing import Final

from redis.exceptions import RedisError

from app.control.alarm import raise_alarm
from app.control.leases import hold_lease, release_lease
from app.control.pausing import pause
from app.recovery.in_flight import ClaimsUnderWay
from app.recovery.packets import RebuildFailed, RebuildSuperseded
from app.settling.due import due_packets
from app.settling.settling import BooksDiffer, Settled, Settling
from app.store.database import Database
from lua.ids import PacketId, is_on_mysql
from lua.keys import is_wrong_type
from workers.amqp import keep_running

log = logging.getLogger(__name__)

LEASE: Final = "settle"
LEASE_S: Final = 15
INTERVAL_S: Final = 0.5


class Settler:
    """One settler works at a time by a lease; that two do harms nothing."""

    def __init__(self, database: Database, settling: Settling, owner: str) -> None:
        self._database = database
        self._settling = settling
        self._owner = owner

    async def run(self, stop: asyncio.Event) -> None:
        await keep_running("settler", lambda: self._settle_until(stop), stop)
        await release_lease(self._database, LEASE, self._owner)

    async def settle_due(self) -> int:
        """Settle what is due; returns how many packets were.

        Goes through all of them, so that one that cannot be settled does not hide those behind it.
        """
        settled = 0
        redis_answers = True
        after: tuple[str, PacketId] | None = None
        while due := await due_packets(self._database, after):
            for _, packet_id in due:
                if not redis_answers and not is_on_mysql(packet_id):
                    continue
                try:
                    settled += await self._settle(packet_id)
                except (RedisError, OSError) as error:
                    log.warning("packet %d is settled later: %r", packet_id, error)
                    redis_answers = is_wrong_type(error)  # which is this packet's own trouble
            after = due[-1]
            if not await hold_lease(self._database, LEASE, self._owner, LEASE_S):
                break
        return settled

    async def _settle(self, packet_id: PacketId) -> bool:
        try:
            outcome = await self._settling.settle(packet_id)
        except BooksDiffer as error:
            raise_alarm("books differ", str(error))
            return False
        except (RebuildFailed, RebuildSuperseded, ClaimsUnderWay) as error:
            log.error("packet %d is settled later: %r", packet_id, error)
            return False
        if outcome is Settled.NOW:
            log.info("packet %d is settled", packet_id)
        return outcome is Settled.NOW

    async def _settle_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            if await hold_lease(self._database, LEASE, self._owner, LEASE_S):
                await self.settle_due()
            await pause(stop, INTERVAL_S)
