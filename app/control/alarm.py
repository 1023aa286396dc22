"""What somebody has to look at now: one logger, so that monitoring needs one rule."""

import logging

_alarms = logging.getLogger("redpacket.alarm")


def raise_alarm(kind: str, detail: str) -> None:
    """Log at level CRITICAL on `redpacket.alarm`; docs/runbook.md says what to do about each."""
    _alarms.critical("ALARM %s: %s", kind, detail)
