"""Markers travel the way claims do: once one is booked, all that was sent before it is booked."""

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from app.store.database import Database, Transaction

_NAME: Final = re.compile(r"[a-z0-9:-]{1,64}")
KEPT_S: Final = 3600


def marker_body(name: str) -> str:
    """The outbox form of a marker."""
    return json.dumps({"marker": name})


def parse_marker(line: bytes) -> str | None:
    """The name of the marker that a line is; None where it is something else."""
    if not line.startswith(b'{"marker"'):
        return None
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    name = found.get("marker")
    return name if len(found) == 1 and isinstance(name, str) and _NAME.fullmatch(name) else None


async def book_markers(transaction: Transaction, names: Sequence[str]) -> None:
    """Note that they arrived, and drop what nobody waits for any more."""
    await transaction.run(f"DELETE FROM marker WHERE booked_at < {transaction.now(plus_s=-KEPT_S)}")
    for name in names:
        await transaction.run(_INSERT[transaction.dialect].format(now=transaction.now()), [name])


async def is_marker_booked(database: Database, name: str) -> bool:
    return bool(await database.rows("SELECT name FROM marker WHERE name = %s", [name]))


_INSERT = {
    "mysql": "INSERT INTO marker (name, booked_at) VALUES (%s, {now})"
    " ON DUPLICATE KEY UPDATE booked_at = booked_at",
    "sqlite": "INSERT INTO marker (name, booked_at) VALUES (%s, {now}) ON CONFLICT DO NOTHING",
}
