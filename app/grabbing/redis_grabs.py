"""Grabs of packets in Redis: coalesced, certified, refused at once while Redis is in trouble."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from asyncmy.errors import MySQLError
from tortoise.exceptions import BaseORMException

from app.grabbing.breaker import Breaker, BreakerLimits
from app.grabbing.coalescer import Coalescer, CoalescerLimits
from app.recovery.certificates import Certificates
from app.store.database import DatabaseBusy
from lua.certificate import Certificate
from lua.ids import PacketId, UserId
from lua.replies import Grab, GrabReply, GrabStatus
from lua.scripts import Scripts

log = logging.getLogger(__name__)

_NO_PACKET: Final = PacketId(0)
_NOBODY: Final = UserId("probe")


class NotAnswering(Exception):
    """Redis runs, and would not answer a grab."""


class RedisGrabs:
    def __init__(
        self,
        scripts: Scripts,
        certificates: Certificates,
        certificate: Certificate,
        on_new_certificate: Callable[[], None],
        limits: BreakerLimits | None = None,
    ) -> None:
        """`on_new_certificate` forgets what was learnt from a Redis that may have lost data."""
        self._scripts = scripts
        self._certificates = certificates
        self._certificate = certificate
        self._on_new_certificate = on_new_certificate
        self.coalescer = Coalescer(self._call, CoalescerLimits())
        self.breaker = Breaker(self.probe, limits or BreakerLimits(), self.coalescer.let_go)

    def submit(self, packet_id: PacketId, user_id: UserId) -> asyncio.Future[Grab]:
        return self.coalescer.submit(packet_id, user_id)

    async def refresh_certificate(self) -> None:
        """Learn which certificate is in force."""
        published = await self._certificates.published()
        token = None if published is None else published.token
        if token != self._certificate.token:
            self._certificate.token = token
            self._on_new_certificate()

    async def probe(self) -> None:
        """Raise unless a grab would be answered now, as running the script shows."""
        try:
            await self.refresh_certificate()
        except (BaseORMException, MySQLError, DatabaseBusy, OSError) as error:
            log.debug("the last known certificate has to do: %r", error)
        reply = await self._scripts.grab(_NO_PACKET, [_NOBODY])
        if reply.status is not GrabStatus.UNKNOWN:
            raise NotAnswering(reply.status.name.lower())

    async def shut_down(self) -> None:
        await self.coalescer.drain()
        await self.breaker.shut_down()

    async def _call(self, packet_id: PacketId, user_ids: Sequence[UserId]) -> GrabReply:
        with self.breaker.watching():
            reply = await self._scripts.grab(packet_id, user_ids)
        if reply.status is GrabStatus.UNCERTIFIED:
            self.breaker.trip("its run is not certified")
        return reply
