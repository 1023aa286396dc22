"""The board out of SQL costs what it shows, not what the packet has."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from app.store.database import Database, Transaction
from app.store.times import now_ms
from lua.ids import PacketId, UserId
from ranking.sql_packet_board import SqlPacketBoard
from tests.integration.store.books import Books
from tests.integration.store.plans import plan_of, steps_of

PACKET = PacketId(3)
CLAIMS = 3000
USER = UserId("user1500")
DIFFERENT_AMOUNTS = [1, 7, 401, CLAIMS]


async def fill(books: Books, different: int) -> None:
    """Packets of many claims, and statistics where the database gathers them by itself."""
    claims = [(seq, f"user{seq}", 1 + seq * 37 % different) for seq in range(1, CLAIMS + 1)]
    for packet_id in (PACKET - 1, PACKET, PACKET + 1):
        await books.insert_claims(packet_id, claims)
    if books.database.dialect == "mysql":
        await books.rows("ANALYZE TABLE claim")


def index_of(sql: str) -> tuple[str, str]:
    """The index in MariaDB, and what SQLite says."""
    if "user_id = %s" in sql:
        return "claim_once_a_user", "(packet_id=? AND user_id=?)"
    if "seq IN (" in sql:
        return "PRIMARY", "USING PRIMARY KEY (packet_id=? AND seq=?)"
    return "claim_rank", "USING COVERING INDEX claim_rank (packet_id=? AND amount_fen"


@pytest.mark.parametrize("different", DIFFERENT_AMOUNTS)
async def test_every_statement_uses_its_index_and_sorts_nothing(
    books: Books, different: int
) -> None:
    await fill(books, different)
    sent: list[tuple[str, Sequence[Any]]] = []

    async def noted(sql: str, values: Sequence[Any]) -> list[dict[str, Any]]:
        sent.append((sql, values))
        return await books.database.rows(sql, values)

    board = SqlPacketBoard(noted, now_ms)
    await board.top(PACKET, CLAIMS, 100)
    await board.around(PACKET, CLAIMS, USER, 100)

    assert len(sent) == 3 + 7
    for sql, values in sent:
        index, seek = index_of(sql)
        if books.database.dialect == "sqlite":
            details = await steps_of(books, sql, values)
            reads = [detail for detail in details if detail.split()[1] == "claim"]
            assert reads
            assert all(seek in detail for detail in reads), details
            assert not any("TEMP B-TREE" in detail for detail in details), details
            continue
        plan = await plan_of(books, sql, values)
        extras = [row["Extra"] for row in plan if row["table"] == "claim"]
        assert {row["key"] for row in plan if row["table"] == "claim"} == {index}, plan
        assert index != "claim_rank" or all("Using index" in extra for extra in extras), plan
        assert not any("filesort" in row["Extra"] for row in plan), plan


@pytest.mark.parametrize("different", DIFFERENT_AMOUNTS)
async def test_beside_counting_it_reads_a_few_times_what_it_shows(
    mysql: Database, different: int
) -> None:
    books = Books(mysql)
    await fill(books, different)

    async def reads_so_far(work: Transaction) -> int:
        status = await work.rows("SHOW SESSION STATUS LIKE 'Handler_read%%'")
        return sum(int(row["Value"]) for row in status)

    async def reads(work: Transaction) -> tuple[int, int, int]:
        board = SqlPacketBoard(work.rows, now_ms)
        marks = [await reads_so_far(work)]
        await board.top(PACKET, CLAIMS, 10)
        marks.append(await reads_so_far(work))
        found = await board.rank(PACKET, CLAIMS, USER)
        marks.append(await reads_so_far(work))
        await board.around(PACKET, CLAIMS, USER, 10)
        marks.append(await reads_so_far(work))
        top, rank, around = (after - before for before, after in itertools.pairwise(marks))
        assert found is not None
        return top, rank - found.rank, around - found.rank

    top, rank, around = await mysql.transaction(reads)

    assert top < 80
    assert rank < 10
    assert around < 120
