"""Makes a run of Redis fit to answer grabs: compare, rebuild what it lost, certify."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from redis.asyncio import Redis

from app.control.leases import hold_lease, release_lease
from app.recovery.certificates import Certificates, Published
from app.recovery.deployment import Deployment
from app.recovery.in_flight import InFlightClaims
from app.recovery.packets import PacketRecovery, RebuildFailed
from app.recovery.rebuild_notes import stalled_rebuilds
from app.settling.due import unsettled_packets
from app.settling.retiring import KEEP_MS
from app.store.database import Database
from app.store.models import Packet
from lua.certificate import (
    Run,
    held_tokens,
    install_certificate,
    knows_scripts,
    revoke_certificate,
)
from lua.ids import PacketId, is_on_mysql
from lua.keys import KeySpace
from lua.scripts import Scripts

log = logging.getLogger(__name__)

LEASE: Final = "recover"
LEASE_S: Final = 30
PACKETS_PER_PAGE: Final = 200
AT_ONCE: Final = 8  # packets compared or rebuilt side by side
_SCAN_COUNT: Final = 1000


class RecoveryElsewhere(Exception):
    """Another process is recovering Redis right now."""


class RunChanged(Exception):
    """Redis was restarted or replaced while it was compared; it has to be compared again."""


@dataclass(slots=True)
class RecoveryReport:
    """`lost` says what each packet lacked; `failed`, of those not put back, why not."""

    compared: int = 0
    lost: dict[PacketId, str] = field(default_factory=dict)
    failed: dict[PacketId, str] = field(default_factory=dict)
    stray: int = 0  # packets that Redis held open although their books are closed
    certified: bool = False  # a new certificate was issued


class Recovery:
    def __init__(
        self,
        database: Database,
        redis: Redis,
        keys: KeySpace,
        scripts: Scripts,
        packets: PacketRecovery,
        in_flight: InFlightClaims,
        certificates: Certificates,
        deployment: Deployment,
        owner: str,
        check_server: Callable[[], Awaitable[None]],
    ) -> None:
        """`check_server` raises where this server's settings break a promise of the deployment."""
        self._database = database
        self._redis = redis
        self._keys = keys
        self._scripts = scripts
        self._packets = packets
        self._in_flight = in_flight
        self._certificates = certificates
        self._deployment = deployment
        self._owner = owner
        self._check_server = check_server

    async def is_needed(self) -> bool:
        """Whether the run behind the address is another than the certified one, or lost data."""
        run, tokens = await held_tokens(self._redis, self._keys)
        published = await self._certificates.published()
        if published is None or not _is_in_force(published, run, tokens):
            return True
        return not await knows_scripts(self._redis, published.token)

    async def recover(
        self, progress: Callable[[RecoveryReport], None] = lambda _: None
    ) -> RecoveryReport:
        """Compare every unsettled packet, rebuild those that lost data, certify if need be.

        On a certified run it compares and rebuilds under traffic, and leaves the certificate.
        Raises RecoveryElsewhere, RunChanged, ForeignRedis, ClaimsUnderWay, LeaseLost, UnsafeRedis.
        """
        if not await hold_lease(self._database, LEASE, self._owner, LEASE_S):
            raise RecoveryElsewhere
        try:
            return await self._recover(progress)
        finally:
            await release_lease(self._database, LEASE, self._owner)

    async def finish_rebuilds(self) -> int:
        """Go on with rebuilds on a certified run whose process died; returns how many ended.

        Raises ClaimsUnderWay, RebuildFailed, RebuildSuperseded; what is left is found again.
        """
        stalled = await stalled_rebuilds(self._database)
        if not stalled or not await hold_lease(self._database, LEASE, self._owner, LEASE_S):
            return 0
        try:
            for packet_id in stalled:
                log.warning("packet %d: its rebuilding was not finished", packet_id)
                await self._packets.rebuild(packet_id)
        finally:
            await release_lease(self._database, LEASE, self._owner)
        return len(stalled)

    async def _recover(self, progress: Callable[[RecoveryReport], None]) -> RecoveryReport:
        report = RecoveryReport()
        run, tokens = await held_tokens(self._redis, self._keys)
        self._deployment.refuse_foreign(tokens)
        published = await self._certificates.published()
        in_force = published is not None and _is_in_force(published, run, tokens)
        if in_force and published and not await knows_scripts(self._redis, published.token):
            # The same run with the same data: only its script cache was flushed.
            await self._certify(run, report)
            return report
        if not in_force:
            # Nothing is answered from now on, in no partition: what is compared stands still.
            await revoke_certificate(self._redis, self._keys)
        await self._compare_all(report, progress, certified=in_force)
        if not in_force:
            report.stray = await self._retire_strays()
            await self._certify(run, report)
        return report

    async def _certify(self, run: Run, report: RecoveryReport) -> None:
        await self._check_server()
        token = self._deployment.new_token()
        taken_by = await install_certificate(self._redis, self._keys, token)
        if taken_by != run:
            raise RunChanged(f"{run} became {taken_by}")
        await self._certificates.publish(run, token, LEASE, self._owner)
        report.certified = True
        log.warning("certified the run %s of Redis", run)

    async def _compare_all(
        self, report: RecoveryReport, progress: Callable[[RecoveryReport], None], *, certified: bool
    ) -> None:
        after_id = PacketId(-1)
        arrived = False
        while page := await self._unsettled(after_id):
            if not arrived and not certified:
                # What Redis lost may be on its way to MySQL still, and is not free to give away.
                await self._in_flight.arrived()
                arrived = True
                continue
            await self._compare_page(page, report, certified=certified)
            after_id = PacketId(page[-1].id)
            await hold_lease(self._database, LEASE, self._owner, LEASE_S)
            progress(report)

    async def _compare_page(
        self, page: Sequence[Packet], report: RecoveryReport, *, certified: bool
    ) -> None:
        gate = asyncio.Semaphore(AT_ONCE)

        async def compare(packet: Packet) -> None:
            async with gate:
                packet_id = PacketId(packet.id)
                if packet.state == "settled":  # listed until Redis knows
                    await self._scripts.retire(packet_id, KEEP_MS)
                    return
                lost = await self._packets.loss(packet)
                report.compared += 1
                if lost is not None:
                    log.error("packet %d: %s; rebuilding it", packet_id, lost)
                    report.lost[packet_id] = lost
                    await self._rebuild(packet_id, report, certified=certified)
                elif packet.state == "closing" and not certified:
                    # A settler may have counted its claims already: rebuilt, it is closed for good.
                    await self._rebuild(packet_id, report, certified=certified)

        # All end before the first failure is raised, for it says more than a group of them.
        ends = await asyncio.gather(
            *(compare(packet) for packet in page if not is_on_mysql(PacketId(packet.id))),
            return_exceptions=True,
        )
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    async def _rebuild(
        self, packet_id: PacketId, report: RecoveryReport, *, certified: bool
    ) -> None:
        try:
            left = await self._packets.rebuild(packet_id, all_have_arrived=not certified)
        except RebuildFailed as error:
            # It stays suspended, alone: no other packet has to wait for a person to look at it.
            log.error("%s", error)
            report.failed[packet_id] = str(error)
        else:
            log.warning("packet %d: rebuilt, %d shares are left", packet_id, left)

    async def _unsettled(self, after_id: PacketId) -> list[Packet]:
        ids = await unsettled_packets(self._database, after_id, PACKETS_PER_PAGE)
        return await self._database.read(lambda: Packet.filter(id__in=ids).order_by("id"))

    async def _retire_strays(self) -> int:
        """Close what Redis holds of packets whose books are closed, as older data does."""
        strays = 0
        page: list[PacketId] = []
        async for key in self._redis.scan_iter(self._keys.every_meta(), count=_SCAN_COUNT):
            page.append(self._keys.packet_of_meta(key.decode()))
            if len(page) >= PACKETS_PER_PAGE:
                strays += await self._retire_settled(page)
                page = []
        return strays + (await self._retire_settled(page) if page else 0)

    async def _retire_settled(self, packet_ids: Sequence[PacketId]) -> int:
        marks = ", ".join(["%s"] * len(packet_ids))
        rows = await self._database.rows(
            f"SELECT packet_id FROM unsettled WHERE packet_id IN ({marks})", list(packet_ids)
        )
        unsettled = {row["packet_id"] for row in rows}
        retired = 0
        for packet_id in packet_ids:
            if packet_id in unsettled:
                continue
            state = await self._redis.hget(self._keys.packet(packet_id).meta, "state")
            if state != b"closed":
                log.error("packet %d is open in Redis, its books are closed", packet_id)
                await self._scripts.retire(packet_id, KEEP_MS)
                retired += 1
        return retired


def _is_in_force(published: Published, run: Run, tokens: Sequence[str | None]) -> bool:
    return published.run == str(run) and all(token == published.token for token in tokens)
