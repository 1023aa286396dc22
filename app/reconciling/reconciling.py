"""`reconcile`: packet after packet, next to live traffic; finds, repairs, and looks again."""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tortoise.exceptions import BaseORMException

from app.control.progress import Progress
from app.ledger.posting import InsufficientFunds
from app.packets.opening import NotCertified, OpeningFailed, PacketOpener, note_open
from app.packets.splitting import Splitting
from app.packets.terms import terms_of
from app.reconciling.books import Books
from app.reconciling.findings import MAY_BE_UNDER_WAY, Finding
from app.reconciling.redis_side import RedisSide
from app.reconciling.repair import repair_books
from app.recovery.in_flight import InFlightClaims
from app.recovery.packets import PacketRecovery, RebuildFailed, RebuildSuperseded
from app.settling.retiring import KEEP_MS
from app.settling.settling import BooksDiffer, Settling
from app.store.database import Database, is_data_error
from app.store.models import Packet
from lua.ids import PacketId, UserId, is_on_mysql
from lua.scripts import MAX_USERS_PER_GRAB, Scripts

log = logging.getLogger(__name__)

PACKETS_PER_PAGE: Final = 50
# A packet that was just created, has just expired or just sold out is still being worked on.
GRACE_S: Final = 120


class Scope(NamedTuple):
    """Which packets: one, those created from `since` until before `until` (SQL times), or all."""

    name: str
    packet_id: PacketId | None = None
    since: str | None = None
    until: str | None = None


@dataclass(slots=True)
class ReconcileReport:
    packets: int = 0
    conflicts: int = 0  # claims that the house has paid, ever; 0 unless Redis lost answered grabs
    found: list[Finding] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)  # what repair did not cure


class Reconciling:
    def __init__(
        self,
        database: Database,
        scripts: Scripts,
        splitting: Splitting,
        redis_side: RedisSide,
        in_flight: InFlightClaims,
        recovery: PacketRecovery,
        opener: PacketOpener,
        settling: Settling,
    ) -> None:
        self._database = database
        self._scripts = scripts
        self._splitting = splitting
        self._redis_side = redis_side
        self._in_flight = in_flight
        self._recovery = recovery
        self._opener = opener
        self._settling = settling

    async def run(
        self,
        scope: Scope,
        *,
        repair: bool,
        resume: bool = False,
        progress: Callable[[ReconcileReport], None] = lambda _: None,
    ) -> ReconcileReport:
        """Reconcile the packets of `scope`. `resume` goes on where a run of it was cut off.

        Raises ClaimsUnderWay where claims do not arrive in MySQL, without which nothing is sure.
        """
        report = ReconcileReport()
        position = Progress(self._database, f"reconcile:{scope.name}")
        after_id = PacketId(await position.read() if resume else -1)
        async for page in self._pages(scope, after_id):
            await self._reconcile_page(page, report, repair=repair)
            await position.note(page[-1].id)
            progress(report)
        await position.forget()
        [row] = await self._database.rows("SELECT COUNT(*) AS conflicts FROM conflict")
        report.conflicts = row["conflicts"]
        return report

    async def _pages(self, scope: Scope, after_id: PacketId) -> AsyncIterator[list[Packet]]:
        conditions, values = ["id > %s"], [after_id]
        bounds: list[tuple[str, Any]] = [
            ("id = %s", scope.packet_id),
            ("created_at >= %s", scope.since),
            ("created_at < %s", scope.until),
        ]
        for condition, value in bounds:
            if value is not None:
                conditions.append(condition)
                values.append(value)
        while True:
            rows = await self._database.rows(
                f"SELECT id FROM packet WHERE {' AND '.join(conditions)}"
                f" ORDER BY id LIMIT {PACKETS_PER_PAGE}",
                values,
            )
            if not rows:
                return
            ids = [row["id"] for row in rows]
            values[0] = ids[-1]
            yield await self._packets(ids)

    async def _packets(self, ids: Sequence[int]) -> list[Packet]:
        return await self._database.read(lambda: Packet.filter(id__in=ids).order_by("id"))

    async def _reconcile_page(
        self, page: Sequence[Packet], report: ReconcileReport, *, repair: bool
    ) -> None:
        seen = {PacketId(packet.id): await self.examine(PacketId(packet.id)) for packet in page}
        report.packets += len(seen)
        if any(finding.kind in MAY_BE_UNDER_WAY for of_one in seen.values() for finding in of_one):
            await self._in_flight.arrived()
            for packet_id, findings in seen.items():
                if any(finding.kind in MAY_BE_UNDER_WAY for finding in findings):
                    seen[packet_id] = _lasting(await self.examine(packet_id), findings)
        for packet_id, findings in seen.items():
            report.found += findings
            if findings and repair:
                report.left += await self._repair(packet_id, findings)

    async def examine(self, packet_id: PacketId) -> list[Finding]:
        """Everything that is wrong with a packet right now."""
        packet = await self._database.read(lambda: Packet.get(id=packet_id))
        amounts = await self._splitting.amounts(terms_of(packet), bytes(packet.seed))
        findings: list[Finding] = []
        if not is_on_mysql(packet_id):
            findings += await self._redis_side.findings(packet, amounts)
        findings += await Books(packet_id, amounts).read(self._database)
        if await self._is_late(packet_id):
            findings.append(Finding(packet_id, "not_settled", "it is due, and no settler came"))
        return [finding for finding in findings if not await self._is_young(finding)]

    async def _repair(self, packet_id: PacketId, findings: Sequence[Finding]) -> list[Finding]:
        try:
            await self._cure(packet_id, findings)
        except (
            *(RebuildFailed, RebuildSuperseded, OpeningFailed, NotCertified),
            *(BooksDiffer, InsufficientFunds),
        ) as error:
            log.error("packet %d is not repaired: %r", packet_id, error)
        except BaseORMException as error:
            if not is_data_error(error):
                raise
            log.error("packet %d is not repaired: %r", packet_id, error)
        return _lasting(await self.examine(packet_id), findings)

    async def _cure(self, packet_id: PacketId, findings: Sequence[Finding]) -> None:
        kinds = {finding.kind for finding in findings}
        packet = await self._database.read(lambda: Packet.get(id=packet_id))
        amounts = await self._splitting.amounts(terms_of(packet), bytes(packet.seed))
        books = Books(packet_id, amounts)
        if await books.read(self._database):
            await repair_books(self._database, books)
        if "claim_not_booked" in kinds:
            await self._resend(packet_id)
        if kinds & {"redis_lost", "redis_shares_differ", "redis_board_differs"}:
            await self._recovery.rebuild(packet_id)
        if "not_opened" in kinds:
            await self._opener.open(packet)
        if "open_not_noted" in kinds:
            await note_open(self._database, packet_id)
        if "not_settled" in kinds:
            await self._settling.settle(packet_id)
        if "not_retired" in kinds:
            await self._scripts.retire(packet_id, KEEP_MS)

    async def _resend(self, packet_id: PacketId) -> None:
        users: list[UserId] = await self._redis_side.unbooked_users(packet_id)
        for first in range(0, len(users), MAX_USERS_PER_GRAB):
            await self._scripts.resend(packet_id, users[first : first + MAX_USERS_PER_GRAB])
        await self._in_flight.arrived()

    async def _is_late(self, packet_id: PacketId) -> bool:
        now = self._database.now(plus_s=-GRACE_S)
        rows = await self._database.rows(
            f"SELECT packet_id FROM unsettled WHERE packet_id = %s AND due_at < {now}",
            [packet_id],
        )
        return bool(rows)

    async def _is_young(self, finding: Finding) -> bool:
        """Whether the packet is so new that its opening may still be going on."""
        if finding.kind not in ("not_opened", "open_not_noted"):
            return False
        now = self._database.now(plus_s=-GRACE_S)
        rows = await self._database.rows(
            f"SELECT id FROM packet WHERE id = %s AND created_at >= {now}", [finding.packet_id]
        )
        return bool(rows)


def _lasting(findings: Sequence[Finding], before: Sequence[Finding]) -> list[Finding]:
    """Without what may be a newer claim on its way: it was not there before."""
    return [each for each in findings if each.kind not in MAY_BE_UNDER_WAY or each in before]
