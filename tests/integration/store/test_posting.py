"""Journals: they balance, they pay only what is there, and each entry is booked once."""

import pytest
from tortoise.exceptions import IntegrityError

from app.ledger.posting import (
    TOP_UPS,
    AccountId,
    Entry,
    InsufficientFunds,
    Journal,
    post,
    user_account,
)
from app.store.database import Database
from lua.ids import UserId
from tests.integration.store.books import AT_MS, Books

ANN, BOB = user_account(UserId("ann")), user_account(UserId("bob"))


def transfer(name: str, payer: AccountId, payee: AccountId, amount_fen: int) -> Journal:
    entries = [Entry(payer, -amount_fen, f"{name}:a"), Entry(payee, amount_fen, f"{name}:b")]
    return Journal(name, entries, AT_MS)


async def test_an_unbalanced_journal_is_refused_whole(database: Database, books: Books) -> None:
    crooked = Journal("crooked", [Entry(TOP_UPS, -10, "x"), Entry(ANN, 11, "y")], AT_MS)

    with pytest.raises(ValueError, match="crooked does not sum to 0"):
        await database.transaction(
            lambda work: post(work, [transfer("t", TOP_UPS, ANN, 5), crooked])
        )

    assert (await books.snapshot()).entries == {}


async def test_posting_draws_no_warning_from_the_database(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """Each would be fetched with another round trip, and logged."""
    await database.transaction(lambda work: post(work, [transfer("t1", TOP_UPS, ANN, 10)]))
    await database.transaction(lambda work: post(work, [transfer("t2", TOP_UPS, ANN, 10)]))

    assert [record for record in caplog.records if record.name.startswith("asyncmy")] == []


async def test_an_account_pays_its_last_fen_and_not_one_more(
    database: Database, books: Books
) -> None:
    await database.transaction(lambda work: post(work, [transfer("t1", TOP_UPS, ANN, 10)]))
    await database.transaction(lambda work: post(work, [transfer("t2", ANN, BOB, 10)]))

    with pytest.raises(InsufficientFunds):
        await database.transaction(lambda work: post(work, [transfer("t3", ANN, BOB, 1)]))

    balances = (await books.snapshot()).balances
    assert balances == {TOP_UPS: -10, ANN: 0, BOB: 10}


async def test_one_journal_short_of_funds_undoes_all_of_its_transaction(
    database: Database, books: Books
) -> None:
    await database.transaction(lambda work: post(work, [transfer("t1", TOP_UPS, ANN, 10)]))
    before = await books.snapshot()
    journals = [transfer("t2", ANN, BOB, 5), transfer("t3", BOB, ANN, 500)]

    with pytest.raises(InsufficientFunds):
        await database.transaction(lambda work: post(work, journals))

    assert await books.snapshot() == before


async def test_a_reference_is_booked_once(database: Database, books: Books) -> None:
    journal = transfer("t1", TOP_UPS, ANN, 10)
    await database.transaction(lambda work: post(work, [journal]))

    with pytest.raises(IntegrityError):
        await database.transaction(lambda work: post(work, [journal]))

    assert (await books.snapshot()).balances[ANN] == 10


async def test_an_account_nobody_paid_into_has_nothing(database: Database) -> None:
    with pytest.raises(InsufficientFunds):
        await database.transaction(lambda work: post(work, [transfer("t", BOB, ANN, 1)]))


async def test_no_journals_are_no_work(database: Database, books: Books) -> None:
    await database.transaction(lambda work: post(work, []))

    assert (await books.snapshot()).entries == {}
