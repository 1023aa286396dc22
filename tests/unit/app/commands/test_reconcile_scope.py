"""What is asked to be reconciled: a packet, a day of the people who send, or all."""

import pytest

from app.commands.reconcile import scope_of
from app.reconciling.reconciling import Scope
from lua.ids import PacketId


def test_a_day_begins_at_midnight_in_china() -> None:
    scope = scope_of(None, "2026-03-01")

    assert scope == Scope("day:2026-03-01", since=scope.since, until=scope.until)
    assert str(scope.since).startswith("2026-02-28 16:00:00")
    assert str(scope.until).startswith("2026-03-01 16:00:00")


def test_one_packet_or_all() -> None:
    assert scope_of(PacketId(7), None) == Scope("packet:7", packet_id=PacketId(7))
    assert scope_of(None, None) == Scope("all")


@pytest.mark.parametrize("day", ["2026-02-30", "yesterday", "", "2026-3-1", "20260301x"])
def test_what_is_no_day_is_refused(day: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        scope_of(None, day)
