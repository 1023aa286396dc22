"""A user's account: its balance, its entries, and top-ups by an admin."""

import secrets

from app.ledger.idempotency import remember_request, request_hash
from app.ledger.posting import TOP_UPS, Entry, Journal, post, user_account
from app.store.database import Database, Transaction
from app.store.models import Account, LedgerEntry
from app.store.times import now_ms
from lua.ids import UserId
from splitter.money import Fen


class Accounts:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def balance(self, user_id: UserId) -> Fen:
        """What the user has; 0 for one who never had anything."""
        account = await self._database.read(lambda: Account.get_or_none(id=user_account(user_id)))
        return Fen(0 if account is None else account.balance_fen)

    async def entries(
        self, user_id: UserId, before_id: int | None, limit: int
    ) -> list[LedgerEntry]:
        """The newest `limit` entries older than the entry `before_id`."""
        query = LedgerEntry.filter(account_id=user_account(user_id))
        if before_id is not None:
            query = query.filter(id__lt=before_id)
        return await self._database.read(lambda: query.order_by("-id").limit(limit))

    async def top_up(
        self, admin_id: UserId, user_id: UserId, amount_fen: Fen, idempotency_key: str
    ) -> str:
        """Credit a user, once a key; returns the journal's name. Raises IdempotencyKeyReused."""
        journal = f"top-up:{secrets.token_hex(12)}"
        request = request_hash(["top-up", user_id, amount_fen])
        at_ms = now_ms()

        async def write(transaction: Transaction) -> str:
            remembered = await remember_request(
                transaction, admin_id, idempotency_key, request, journal, at_ms
            )
            if remembered.is_new:
                entries = [
                    Entry(TOP_UPS, -amount_fen, f"{journal}:from"),
                    Entry(user_account(user_id), amount_fen, f"{journal}:to"),
                ]
                await post(transaction, [Journal(journal, entries, at_ms)])
            return remembered.subject

        return await self._database.transaction(write)
