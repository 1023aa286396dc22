"""`redpacket recover`: compare Redis with MySQL now, rebuild what it lost, certify it."""

import sys
from typing import Any

from app.recovery.recovery import Recovery, RecoveryReport


async def recover(recovery: Recovery) -> tuple[dict[str, Any], bool]:
    """The report, and whether Redis had lost nothing."""
    report = await recovery.recover(_show_progress)
    found = {
        "compared": report.compared,
        "rebuilt": [
            {"packet": str(packet_id), "lost": lost} for packet_id, lost in report.lost.items()
        ],
        "not_rebuilt": [
            {"packet": str(packet_id), "why": why} for packet_id, why in report.failed.items()
        ],
        "closed_again": report.stray,
        "certified": report.certified,
    }
    return found, not report.lost and not report.stray


def _show_progress(report: RecoveryReport) -> None:
    print(f"compared {report.compared}, rebuilt {len(report.lost)}", file=sys.stderr)
