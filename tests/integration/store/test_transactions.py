"""All or nothing: crashes between statements, concurrent bookers, deadlocks, cancelled callers."""

import asyncio
import gc
from collections.abc import Sequence
from typing import Any

import pytest
from asyncmy.errors import InterfaceError
from tortoise.exceptions import IntegrityError, OperationalError

from app.ledger.booking import book_claims
from app.ledger.claims import Claim
from app.store.database import Database, Transaction, is_data_error
from tests.integration.store.books import Books, claim


class Crash(Exception):
    """The process would have died here."""


class CrashingTransaction:
    """Passes statements on until `statements` of them have run, then crashes."""

    def __init__(self, inner: Transaction, statements: int) -> None:
        self._inner = inner
        self.dialect = inner.dialect
        self.left = statements

    async def run(self, sql: str, values: Sequence[Any] = ()) -> int:
        self._count()
        return await self._inner.run(sql, values)

    async def rows(self, sql: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        self._count()
        return await self._inner.rows(sql, values)

    async def insert(self, prefix: str, rows: Sequence[Sequence[Any]], suffix: str = "") -> int:
        self._count()
        return await self._inner.insert(prefix, rows, suffix)

    def _count(self) -> None:
        if self.left == 0:
            raise Crash
        self.left -= 1


async def test_a_crash_before_any_statement_or_the_commit_books_nothing(books: Books) -> None:
    await books.fund(1, 100, 4)
    await books.fund(2, 50, 2)
    batch = [claim(1, 1, "ann", 10), claim(1, 2, "bob", 20), claim(2, 1, "ann", 25)]
    before = await books.snapshot()
    crashes = 0
    ran_through = False

    async def book_and_crash(work: Transaction) -> None:
        nonlocal ran_through
        crashing: Any = CrashingTransaction(work, crashes)
        await book_claims(crashing, batch)
        ran_through = crashing.left == 0
        raise Crash

    while not ran_through:
        with pytest.raises(Crash):
            await books.database.transaction(book_and_crash)
        assert await books.snapshot() == before
        crashes += 1

    assert crashes > 7
    assert await books.book(batch) == []
    assert len((await books.snapshot()).claims) == 3


async def test_two_bookers_of_overlapping_batches_book_each_claim_once(mysql: Database) -> None:
    books = Books(mysql)
    shares = 60
    for packet_id in (1, 2, 3):
        await books.fund(packet_id, shares, shares)
    claims = [
        claim(packet_id, seq, f"user{seq * packet_id % 67}", 1)
        for packet_id in (1, 2, 3)
        for seq in range(1, shares + 1)
    ]

    async def book_all(order: Sequence[Claim], size: int) -> None:
        for start in range(0, len(order), size):
            assert await books.book(order[start : start + size]) == []

    await asyncio.gather(
        book_all(claims, 7),
        book_all(claims[::-1], 11),
        book_all([*claims[90:], *claims[:90]], 13),
        book_all(claims[::2] + claims[1::2], 90),
    )

    after = await books.snapshot()
    assert len(after.claims) == len(claims)
    assert set(after.packets.values()) == {(0, 0)}
    assert sum(fen for account, fen in after.balances.items() if account[:5] == "user:") == 180


async def test_a_deadlock_is_tried_again_and_the_work_is_done_once(mysql: Database) -> None:
    books = Books(mysql)
    await books.fund(1, 100, 2)
    await books.fund(2, 100, 2)
    both_hold_one = asyncio.Barrier(2)
    attempts = {1: 0, 2: 0}

    async def take_crosswise(work: Transaction, first: int, second: int) -> None:
        attempts[first] += 1
        subtract = "UPDATE packet SET remaining_fen = remaining_fen - 1 WHERE id = %s"
        await work.run(subtract, [first])
        if attempts[first] == 1:
            await both_hold_one.wait()
        await work.run(subtract, [second])

    await asyncio.gather(
        mysql.transaction(lambda work: take_crosswise(work, 1, 2)),
        mysql.transaction(lambda work: take_crosswise(work, 2, 1)),
    )

    assert sum(attempts.values()) == 3
    rows = await books.rows("SELECT remaining_fen FROM packet")
    assert [row["remaining_fen"] for row in rows] == [98, 98]


async def test_a_cancelled_caller_neither_breaks_nor_leaks_its_transaction(
    mysql: Database,
) -> None:
    books = Books(mysql)
    await books.fund(1, 100, 50)

    for seq in range(1, 31):
        begun = asyncio.Event()

        async def book(work: Transaction, seq: int = seq, begun: asyncio.Event = begun) -> None:
            begun.set()
            await book_claims(work, [claim(1, seq, f"user{seq}", 1)])

        caller = asyncio.create_task(mysql.transaction(book))
        await begun.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller

    # With a leaked connection a time the pool of six would have run dry.
    assert await books.book([claim(1, 31, "user31", 1)]) == []
    assert len((await books.snapshot()).claims) == 31


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE packet SET remaining_fen = -1 WHERE id = 1",
        "UPDATE packet SET remaining_shares = -1 WHERE id = 1",
        "UPDATE account SET balance_fen = -1 WHERE id = 'packet:1'",
    ],
)
async def test_nothing_goes_below_zero_whatever_the_code_says(books: Books, statement: str) -> None:
    await books.fund(1, 100, 2)

    with pytest.raises((IntegrityError, OperationalError)) as refused:
        await books.run(statement)

    assert is_data_error(refused.value)
    assert (await books.snapshot()).packets == {1: (100, 2)}


class BrokenPool:
    """Connections that are reset between their being made and their being used."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def acquire(self) -> None:
        raise self._error


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Transport does not expose socket instance"),
        RuntimeError("unable to perform operation on <TCPTransport closed=True>"),
        InterfaceError(0, "Not connected"),
    ],
)
async def test_a_connection_that_breaks_while_it_is_made_is_trouble_of_the_database(
    mysql: Database, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(mysql._client, "_pool", BrokenPool(error))

    with pytest.raises(OperationalError):
        await mysql.ping()
    with pytest.raises(OperationalError):
        await mysql.transaction(lambda work: work.rows("SELECT 1"))


async def test_an_error_of_the_work_itself_stays_what_it_is(mysql: Database) -> None:
    async def fail(_: Transaction) -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        await mysql.transaction(fail)


async def test_trouble_after_its_caller_is_gone_is_no_unheard_exception(mysql: Database) -> None:
    unheard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def fail_later(_: Transaction) -> None:
        begun.set()
        await go_on.wait()
        raise OperationalError("lost")

    caller = asyncio.create_task(mysql.transaction(fail_later))
    await begun.wait()
    [work] = mysql._running
    caller.cancel()
    await asyncio.wait([caller])
    go_on.set()
    await asyncio.wait([work])
    del work, caller
    gc.collect()

    assert unheard == []
