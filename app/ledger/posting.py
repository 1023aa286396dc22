"""Journals: entries that sum to 0, written together with the balances they change."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple, NewType

from app.store.database import Transaction
from app.store.times import to_sql
from lua.ids import PacketId, UserId
from splitter.money import Fen

AccountId = NewType("AccountId", str)

HOUSE: Final = AccountId("outside:house")  # pays conflicts; what it paid is its negative balance
TOP_UPS: Final = AccountId("outside:top-up")  # where top-ups come from; its balance is negative


def user_account(user_id: UserId) -> AccountId:
    return AccountId(f"user:{user_id}")


def packet_account(packet_id: PacketId) -> AccountId:
    """The escrow that holds what a packet has not paid out."""
    return AccountId(f"packet:{packet_id}")


class InsufficientFunds(Exception):
    """The account holds less than is to be taken from it."""


class Entry(NamedTuple):
    account_id: AccountId
    amount_fen: int  # negative where the account pays
    reference: str  # unique in the whole ledger: booking it twice is an error


class Journal(NamedTuple):
    """A set of entries that belong together and sum to 0."""

    name: str
    entries: Sequence[Entry]
    booked_at_ms: int


# MySQL reads the parts after `!80019`, where VALUES() costs a warning and another round trip to
# fetch it; MariaDB, which has no `AS new`, reads the part after `M!`.
_UPSERT: Final = {
    "mysql": "/*!80019 AS new */ ON DUPLICATE KEY UPDATE balance_fen ="
    " account.balance_fen + /*!80019 new.balance_fen */ /*M! VALUES(balance_fen) */",
    "sqlite": "ON CONFLICT (id) DO UPDATE SET balance_fen = balance_fen + excluded.balance_fen",
}


async def post(transaction: Transaction, journals: Sequence[Journal]) -> None:
    """Write journals and move the balances, in account order so that two callers cannot deadlock.

    Raises InsufficientFunds when a paying account other than `outside:` would go below 0.
    """
    payments: defaultdict[AccountId, int] = defaultdict(int)
    receipts: defaultdict[AccountId, int] = defaultdict(int)
    rows = []
    for name, entries, booked_at_ms in journals:
        balance_fen = 0
        booked_at = to_sql(booked_at_ms)
        for account_id, amount_fen, reference in entries:
            balance_fen += amount_fen
            (payments if amount_fen < 0 else receipts)[account_id] += amount_fen
            rows.append((name, reference, account_id, amount_fen, booked_at))
        if balance_fen != 0:
            raise ValueError(f"journal {name} does not sum to 0")
    if not rows:
        return
    for account_id in sorted(payments):
        await _take(transaction, account_id, Fen(-payments[account_id]))
    await transaction.insert(
        "INSERT INTO account (id, balance_fen)",
        sorted(receipts.items()),
        _UPSERT[transaction.dialect],
    )
    await transaction.insert(
        "INSERT INTO ledger_entry (journal, reference, account_id, amount_fen, booked_at)", rows
    )


async def _take(transaction: Transaction, account_id: AccountId, amount_fen: Fen) -> None:
    if account_id.startswith("outside:"):
        await transaction.insert(
            "INSERT INTO account (id, balance_fen)",
            [(account_id, -amount_fen)],
            _UPSERT[transaction.dialect],
        )
        return
    changed = await transaction.run(
        "UPDATE account SET balance_fen = balance_fen - %s WHERE id = %s AND balance_fen >= %s",
        [amount_fen, account_id, amount_fen],
    )
    if changed == 0:
        raise InsufficientFunds(account_id)
