"""Times are UTC milliseconds in code and on the wire, DATETIME(3) without a zone in MySQL."""

import time
from datetime import UTC, datetime, timedelta
from typing import Final

LATEST_MS: Final = 253_402_300_799_999  # the last millisecond that a DATETIME can hold

_EPOCH = datetime(1970, 1, 1)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def to_datetime(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)


def to_ms(at: datetime) -> int:
    """The milliseconds of a stored time; one that carries a zone is converted first."""
    if at.tzinfo is not None:
        at = at.astimezone(UTC).replace(tzinfo=None)
    return (at - _EPOCH) // timedelta(milliseconds=1)


def read_ms(value: datetime | str) -> int:
    """The milliseconds of a time as a raw statement returns it: SQLite returns text."""
    return to_ms(datetime.fromisoformat(value) if isinstance(value, str) else value)


def to_sql(at_ms: int) -> str:
    """The literal that both MySQL and SQLite take for a DATETIME(3).

    SQLite compares times as text, so this is exactly the text that a Tortoise query asks for.
    """
    return to_datetime(at_ms).isoformat(sep=" ")
