"""The ledger's handler without a database: halving down to culprits, bounded transactions."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest
from tortoise.exceptions import IntegrityError, OperationalError

from app.ledger.claims import Claim, claim_body
from app.store.database import Database
from lua.ids import PacketId, UserId
from splitter.money import Fen
from tests.deployment import MemoryDeadLetters
from workers import ledger
from workers.ledger import CLAIMS_PER_TRANSACTION, LedgerHandler


class Refusing:
    """A database that refuses every batch with one of `culprits` in it."""

    def __init__(self, error: Exception, culprits: Sequence[int] = ()) -> None:
        self._error = error
        self._culprits = set(culprits)
        self.booked: list[Claim] = []
        self.sizes: list[int] = []

    async def transaction(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        return await work(self)

    async def book(self, _: Any, claims: Sequence[Claim]) -> list[Any]:
        self.sizes.append(len(claims))
        if self._culprits & {claim.seq for claim in claims}:
            raise self._error
        self.booked += claims
        return []


def message(claims: int) -> bytes:
    return b"\n".join(
        claim_body(Claim(PacketId(1), seq, UserId(f"u{seq}"), Fen(1), 1))
        for seq in range(1, claims + 1)
    )


def handler(
    monkeypatch: pytest.MonkeyPatch, database: Refusing
) -> tuple[LedgerHandler, MemoryDeadLetters]:
    monkeypatch.setattr(ledger, "book_claims", database.book)
    letters = MemoryDeadLetters()
    return LedgerHandler(cast(Database, database), letters), letters


async def test_only_the_culprits_of_a_refused_batch_are_set_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = Refusing(IntegrityError("no"), culprits=[3, 64])
    handling, letters = handler(monkeypatch, database)

    await handling.handle([message(100)])

    assert len(database.booked) == 98
    assert [letter.reason[:16] for letter in letters.rejected] == ["cannot be booked"] * 2


async def test_trouble_of_the_server_sets_nothing_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Refusing(OperationalError(ConnectionError("gone")), culprits=[3])
    handling, letters = handler(monkeypatch, database)

    with pytest.raises(OperationalError):
        await handling.handle([message(10)])

    assert letters.rejected == []
    assert database.sizes == [10]


async def test_a_transaction_is_bounded_however_large_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = Refusing(IntegrityError("no"))
    handling, _ = handler(monkeypatch, database)
    claims = 2 * CLAIMS_PER_TRANSACTION + 1

    await handling.handle([message(claims)])

    assert database.sizes == [CLAIMS_PER_TRANSACTION, CLAIMS_PER_TRANSACTION, 1]
    assert len(database.booked) == claims


async def test_rejected_claims_are_kept_before_the_batch_counts_as_handled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Full(MemoryDeadLetters):
        async def put(self, rejected: Sequence[Any]) -> None:
            raise ConnectionError("not kept")

    handling, _ = handler(monkeypatch, Refusing(IntegrityError("no")))
    handling._dead_letters = Full()

    with pytest.raises(ConnectionError):
        await handling.handle([b"not json"])
