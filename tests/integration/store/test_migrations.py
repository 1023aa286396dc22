"""Migrations: from nothing, again, after a death half-way; and models that match the tables."""

import re
from datetime import datetime
from importlib import import_module
from typing import Any

import pytest
from tortoise.migrations.executor import MigrationExecutor, MigrationTarget
from tortoise.models import Model

from app.store import models
from app.store.database import Database, open_database
from app.store.times import to_datetime, to_ms, to_sql
from tests.integration.store.books import Books, claim

MIGRATIONS = ["0001_first_tables", "0002_closing_the_books"]
MODELS: list[type[Model]] = [
    models.Packet,
    models.Claim,
    models.Account,
    models.LedgerEntry,
    models.Idempotency,
]
LAST_MS = 253_402_300_799_999
BIGGEST = 2**63 - 1
EXTREMES: list[tuple[type[Model], dict[str, Any]]] = [
    (
        models.Packet,
        {
            "id": BIGGEST,
            "sender_id": "Z" * 64,
            "greeting": "恭🧧" * 100,
            "kind": "lucky",
            "total_fen": BIGGEST,
            "shares": 2**31 - 1,
            "min_fen": BIGGEST,
            "cap_fen": BIGGEST,
            "split_version": 2**15 - 1,
            "seed": bytes(range(224, 256)),
            "commitment": bytes(range(32)),
            "state": "settled",
            "remaining_fen": BIGGEST,
            "remaining_shares": 2**31 - 1,
            "created_at": to_sql(0),
            "opens_at": to_sql(1_790_000_000_001),
            "expires_at": to_sql(LAST_MS),
        },
    ),
    (
        models.Packet,
        {
            "id": 1,
            "sender_id": "-",
            "greeting": "",
            "kind": "equal",
            "total_fen": 1,
            "shares": 1,
            "min_fen": 1,
            "cap_fen": None,
            "split_version": 1,
            "seed": b"\x00%s\\'\"\x1a\n" * 4,
            "commitment": bytes(32),
            "state": "funded",
            "remaining_fen": 0,
            "remaining_shares": 0,
            "created_at": to_sql(999),
            "opens_at": to_sql(1000),
            "expires_at": to_sql(1001),
        },
    ),
    (
        models.Claim,
        {
            "packet_id": BIGGEST,
            "seq": 2**31 - 1,
            "user_id": "_" * 64,
            "amount_fen": BIGGEST,
            "claimed_at": to_sql(LAST_MS),
        },
    ),
    (models.Account, {"id": f"outside:{'x' * 72}", "balance_fen": -(2**63)}),
    (models.Account, {"id": f"user:{'x' * 64}", "balance_fen": BIGGEST}),
    (
        models.LedgerEntry,
        {
            "journal": "j" * 96,
            "reference": "r" * 96,
            "account_id": "a" * 80,
            "amount_fen": -(2**63),
            "booked_at": to_sql(1_790_000_000_999),
        },
    ),
    (
        models.Idempotency,
        {
            "user_id": "u" * 64,
            "key": "~!'\"\\%s" + "k" * 57,
            "request_hash": bytes(range(128, 160)),
            "subject": "s" * 96,
            "created_at": to_sql(1),
        },
    ),
]


async def tables(database: Database) -> set[str]:
    source = {
        "mysql": "SELECT table_name AS name FROM information_schema.tables"
        " WHERE table_schema = DATABASE()",
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'",
    }[database.dialect]
    return {row["name"] for row in await Books(database).rows(source)}


async def columns(database: Database, table: str) -> set[str]:
    source = {
        "mysql": "SELECT column_name AS name FROM information_schema.columns"
        " WHERE table_schema = DATABASE() AND table_name = %s",
        "sqlite": "SELECT name FROM pragma_table_info(%s)",
    }[database.dialect]
    return {row["name"] for row in await Books(database).rows(source, [table])}


async def test_migrating_twice_changes_nothing(database: Database, books: Books) -> None:
    await books.fund(1, 100, 2)
    await books.book([claim(1, 1, "ann", 10)])
    before = await books.snapshot()

    await database.migrate()

    assert await books.snapshot() == before


@pytest.mark.parametrize("statements", [1, 3, 99])
@pytest.mark.parametrize("at", range(len(MIGRATIONS)), ids=MIGRATIONS)
async def test_a_migration_that_died_half_way_starts_again(
    database_url: str, at: int, statements: int
) -> None:
    async with open_database(database_url, connections=1) as database:
        if at > 0:
            await migrate_to(database, MIGRATIONS[at - 1])
        for statement in statements_of(MIGRATIONS[at], database.dialect)[:statements]:
            await run_script(database, statement)

        await database.migrate()

        made = [
            table
            for name in MIGRATIONS
            for statement in statements_of(name, database.dialect)
            for table in re.findall(r"CREATE TABLE IF NOT EXISTS (\w+)", statement)
        ]
        assert set(made) <= await tables(database)
        assert {model._meta.db_table for model in MODELS} <= set(made)
        await Books(database).fund(1, 100, 2)


async def test_packets_made_before_there_was_settling_become_due(database_url: str) -> None:
    async with open_database(database_url, connections=1) as database:
        await migrate_to(database, MIGRATIONS[0])
        books = Books(database)
        for packet_id, state in enumerate(("funded", "open", "closing", "settled"), 1):
            await books.fund(packet_id, 100, 2, state=state)

        await database.migrate()

        listed = await books.rows(
            "SELECT packet_id FROM unsettled JOIN packet ON id = packet_id"
            " WHERE due_at = expires_at ORDER BY packet_id"
        )
        assert [row["packet_id"] for row in listed] == [1, 2, 3]


async def migrate_to(database: Database, name: str) -> None:
    executor = MigrationExecutor(
        database._client,
        {"redpacket": {"models": ["app.store.models"], "migrations": "app.store.migrations"}},
    )
    await executor.migrate([MigrationTarget(app_label="redpacket", name=name)])


def statements_of(name: str, dialect: str) -> list[str]:
    module = import_module(f"app.store.migrations.{name}")
    found: list[str] = module.MYSQL if dialect == "mysql" else module.SQLITE
    return found


async def run_script(database: Database, statement: str) -> None:
    """Without values, hence without placeholders: a % stands for itself."""
    await database.transaction(lambda work: work._client.execute_script(statement))


@pytest.mark.parametrize("model", MODELS)
async def test_a_model_has_the_columns_of_its_table(database: Database, model: type[Model]) -> None:
    named = set(model._meta.fields_db_projection.values())

    assert named == await columns(database, model._meta.db_table)


@pytest.mark.parametrize(("model", "values"), EXTREMES)
async def test_extreme_values_come_back_as_they_went_in(
    database: Database, model: type[Model], values: dict[str, Any]
) -> None:
    await Books(database).insert(model._meta.db_table, values)

    [found] = await database.read(lambda: model.all())

    assert {name: _as_written(getattr(found, name)) for name in values} == values


def _as_written(value: Any) -> Any:
    return to_sql(to_ms(value)) if isinstance(value, datetime) else value


@pytest.mark.parametrize("middle_ms", [1_790_000_000_007, 1_790_000_000_000, 1_790_000_000_100])
async def test_a_stored_time_is_found_by_its_millisecond(books: Books, middle_ms: int) -> None:
    await books.fund(1, 100, 3)
    await books.book([claim(1, seq, f"u{seq}", 1, middle_ms + seq - 2) for seq in (1, 2, 3)])

    async def seqs(**condition: Any) -> list[int]:
        query = models.Claim.filter(**condition).order_by("seq")
        return [row.seq for row in await books.database.read(lambda: query)]

    middle = to_datetime(middle_ms)
    assert await seqs(claimed_at=middle) == [2]
    assert await seqs(claimed_at__lt=middle) == [1]
    assert await seqs(claimed_at__gt=middle) == [3]
