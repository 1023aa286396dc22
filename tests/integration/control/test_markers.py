"""Markers: what is one, booked as often as they come, and dropped when nobody waits any more."""

import pytest

from app.control.markers import KEPT_S, book_markers, is_marker_booked, marker_body, parse_marker
from app.store.database import Database
from tests.integration.store.books import Books


@pytest.mark.parametrize("name", ["recover:1a2b", "x", "a" * 64])
def test_a_marker_is_read_as_it_was_written(name: str) -> None:
    assert parse_marker(marker_body(name).encode()) == name


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[1]",
        b'{"marker"',
        b'{"marker": 1}',
        b'{"marker": ""}',
        b'{"marker": "A"}',
        b'{"marker": "x", "more": 1}',
        b'{"marker": "' + b"x" * 65 + b'"}',
        b'{"marker": ' + b"[" * 100_000,
        b'{"marker": "\xff"}',
    ],
)
def test_what_is_no_marker_is_none(line: bytes) -> None:
    assert parse_marker(line) is None


async def test_a_marker_that_comes_twice_is_booked_once(database: Database) -> None:
    assert not await is_marker_booked(database, "a")

    await database.transaction(lambda work: book_markers(work, ["a", "b"]))
    await database.transaction(lambda work: book_markers(work, ["a"]))

    assert await is_marker_booked(database, "a")
    assert await is_marker_booked(database, "b")


async def test_old_ones_are_dropped_by_those_that_come_later(
    database: Database, books: Books
) -> None:
    await database.transaction(lambda work: book_markers(work, ["old", "recent"]))
    await books.run(
        f"UPDATE marker SET booked_at = {database.now(plus_s=-KEPT_S - 1)} WHERE name = 'old'"
    )

    await database.transaction(lambda work: book_markers(work, ["new"]))

    names = await books.rows("SELECT name FROM marker ORDER BY name")
    assert [row["name"] for row in names] == ["new", "recent"]
