"""What settling, recovery, reconciliation and dead letters read, they read by an index."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from app.ledger.dead_letters import find_letter, list_letters
from app.reconciling.books import Books as ReconciledBooks
from app.settling.due import due_packets, unsettled_packets
from app.settling.settling import _close_books
from app.store import database as module
from app.store.database import Database, Transaction
from app.store.times import to_sql
from lua.ids import PacketId
from splitter.money import Fen
from tests.integration.store.books import AT_MS, Books, claim
from tests.integration.store.plans import plan_of, steps_of

PACKETS = 12
CLAIMS = 300
UNSETTLED = 2000
DUE = 40
LETTERS = 1000
OTHERS = 3000
PACKET = PacketId(7)
Statement = tuple[str, Sequence[Any]]


class NotClosed(Exception):
    """Takes back what was written to see how it is written."""


async def close_books(database: Database) -> None:
    async def close(work: Transaction) -> None:
        await _close_books(work, PACKET)
        raise NotClosed

    with suppress(NotClosed):
        await database.transaction(close)


async def examine(database: Database) -> None:
    await ReconciledBooks(PACKET, [Fen(1)] * CLAIMS).read(database)


READS: dict[str, Callable[[Database], Awaitable[Any]]] = {
    "due packets": due_packets,
    "more due packets": lambda database: due_packets(database, (to_sql(AT_MS), PACKET)),
    "unsettled packets": lambda database: unsettled_packets(database, PACKET, 100),
    "dead letters": lambda database: list_letters(database, "waiting", 500, 100),
    "a dead letter": lambda database: find_letter(database, 5),
    "closing the books": close_books,
    "examining the books": examine,
}
# What MySQL reads by each of these names is the only thing it may read of the table.
INDEXES = {
    "unsettled": {"PRIMARY", "unsettled_due"},
    "dead_letter": {"PRIMARY", "dead_letter_in_state"},
    "claim": {"PRIMARY", "claim_rank"},
    "ledger_entry": {"ledger_entry_once", "ledger_entry_of_account", "ledger_entry_of_journal"},
}


@pytest.fixture
async def full_books(books: Books) -> Books:
    """Enough rows that a wrong index would cost, and statistics that say so."""
    for packet_id in range(1, PACKETS + 1):
        await books.fund(packet_id, CLAIMS, CLAIMS, state="closing")
        await books.book([claim(packet_id, seq, f"u{seq}", 1) for seq in range(1, CLAIMS)])
    await books.insert(
        "account", *({"id": f"user:other{number}", "balance_fen": 1} for number in range(OTHERS))
    )
    await books.insert(
        "ledger_entry",
        *(
            {
                "journal": f"other{number}",
                "reference": f"other{number}",
                "account_id": f"user:other{number}",
                "amount_fen": 1,
                "booked_at": to_sql(AT_MS),
            }
            for number in range(OTHERS)
        ),
    )
    await books.insert(
        "unsettled",
        *(
            {
                "packet_id": number,
                "due_at": to_sql(AT_MS) if number <= DUE else "2090-01-01 00:00:00",
            }
            for number in range(1, UNSETTLED + 1)
        ),
    )
    await books.insert(
        "dead_letter",
        *(
            {
                "queue": "q",
                "body": b"{}",
                "body_hash": number.to_bytes(32, "big"),
                "reason": "",
                "state": "replayed" if number % 3 else "waiting",
                "times": 1,
                "noted_at": to_sql(AT_MS),
            }
            for number in range(LETTERS)
        ),
    )
    if books.database.dialect == "mysql":
        await books.rows(
            "ANALYZE TABLE account, claim, ledger_entry, packet, unsettled, dead_letter"
        )
    else:
        await books.run("ANALYZE")
    return books


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Statement]:
    """Every reading statement, as it is sent."""
    statements: list[Statement] = []
    rows = module._rows

    async def noted(
        client: Any, dialect: str, sql: str, values: Sequence[Any]
    ) -> list[dict[str, Any]]:
        statements.append((sql, values))
        return await rows(client, dialect, sql, values)

    monkeypatch.setattr(module, "_rows", noted)
    return statements


@pytest.mark.parametrize("name", READS)
async def test_each_reads_by_an_index(full_books: Books, sent: list[Statement], name: str) -> None:
    await READS[name](full_books.database)

    assert sent
    for sql, values in list(sent):
        if full_books.database.dialect == "sqlite":
            details = await steps_of(full_books, sql, values)
            assert not any(each.startswith("SCAN ") for each in details if "CONSTANT" not in each)
            continue
        plan = await plan_of(full_books, sql, values)
        for row in plan:
            allowed = INDEXES.get(row["table"], {"PRIMARY"})
            assert row["table"] is None or row["key"] in allowed, (sql, plan)
            assert row["type"] not in ("ALL", "index"), (sql, plan)
        if "LIMIT" in sql:
            assert not any("filesort" in row["Extra"] for row in plan), (sql, plan)
