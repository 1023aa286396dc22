"""How a database would run a statement."""

from collections.abc import Sequence
from typing import Any

from tests.integration.store.books import Books

# MySQL 9 explains in prose unless asked, but with partitions; MariaDB in a table without them.
_AS_TABLE = "/*!80000 FORMAT=TRADITIONAL */"
_WITH_PARTITIONS = f"{_AS_TABLE} /*M! PARTITIONS */"


async def plan_of(
    books: Books, sql: str, values: Sequence[Any] = (), *, partitions: bool = False
) -> list[dict[str, Any]]:
    """The rows of MySQL's EXPLAIN, with what it leaves out as empty strings."""
    how = _WITH_PARTITIONS if partitions else _AS_TABLE
    rows = await books.rows(f"EXPLAIN {how} {sql}", values)
    return [row | {"Extra": row["Extra"] or ""} for row in rows]


async def steps_of(books: Books, sql: str, values: Sequence[Any] = ()) -> list[str]:
    """The steps of SQLite's plan."""
    rows = await books.rows(f"EXPLAIN QUERY PLAN {sql}", values)
    return [row["detail"] for row in rows]
