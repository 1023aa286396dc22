"""`redpacket reconcile`: compare Redis, claim rows and ledger, and repair them where asked."""

import sys
from collections import Counter
from datetime import date, datetime, timedelta, timezone
from typing import Any, Final

from app.reconciling.findings import Finding
from app.reconciling.reconciling import ReconcileReport, Reconciling, Scope
from app.store.times import to_ms, to_sql
from lua.ids import PacketId

DAY_ZONE: Final = timezone(timedelta(hours=8))  # the calendar of the people who send


def scope_of(packet_id: PacketId | None, day: str | None) -> Scope:
    """The packets asked for. ValueError for what is not a day."""
    if packet_id is not None:
        return Scope(f"packet:{packet_id}", packet_id=packet_id)
    if day is None:
        return Scope("all")
    begin = datetime.combine(date.fromisoformat(day), datetime.min.time(), DAY_ZONE)
    since, until = (to_sql(to_ms(at)) for at in (begin, begin + timedelta(days=1)))
    return Scope(f"day:{day}", since=since, until=until)


async def reconcile(
    reconciling: Reconciling, scope: Scope, *, repair: bool, resume: bool
) -> tuple[dict[str, Any], bool]:
    """The report, and whether everything agreed."""
    report = await reconciling.run(scope, repair=repair, resume=resume, progress=_show_progress)
    found: dict[str, Any] = {
        "scope": scope.name,
        "packets": report.packets,
        "differences": len(report.found),
        "kinds": dict(Counter(finding.kind for finding in report.found)),
        "conflicts": report.conflicts,
        "findings": [_as_json(finding) for finding in report.found],
    }
    if repair:
        found["left"] = [_as_json(finding) for finding in report.left]
    return found, not report.found


def _as_json(finding: Finding) -> dict[str, str]:
    return {
        "packet": str(finding.packet_id),
        "kind": finding.kind,
        "detail": finding.detail,
    }


def _show_progress(report: ReconcileReport) -> None:
    print(f"{report.packets} packets, {len(report.found)} differences", file=sys.stderr)
