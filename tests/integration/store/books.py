"""Packets funded straight in the database, and everything the books say about them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.ledger.booking import book_claims
from app.ledger.claims import Claim, Rejected
from app.ledger.posting import TOP_UPS, Entry, Journal, packet_account, post, user_account
from app.store.database import Database, Transaction
from app.store.times import to_sql
from lua.ids import PacketId, UserId
from splitter.money import Fen

AT_MS = 1_790_000_000_123
SENDER = UserId("sender")


def claim(
    packet_id: int, seq: int, user: str, amount_fen: int, claimed_at_ms: int = AT_MS
) -> Claim:
    return Claim(PacketId(packet_id), seq, UserId(user), Fen(amount_fen), claimed_at_ms)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`entries` maps a reference to (account, amount); journals cut differently are one to it."""

    claims: list[tuple[Any, ...]]
    packets: dict[int, tuple[int, int]]
    balances: dict[str, int]
    entries: dict[str, tuple[str, int]] = field(repr=False)


@dataclass(slots=True)
class Books:
    database: Database

    async def fund(self, packet_id: int, total_fen: int, shares: int, state: str = "open") -> None:
        """A packet of `shares` shares, its money taken from a sender who was topped up for it."""
        name = f"fund:{packet_id}"
        escrow, sender = packet_account(PacketId(packet_id)), user_account(SENDER)
        journals = [
            Journal(
                f"top-up:{packet_id}",
                [
                    Entry(TOP_UPS, -total_fen, f"top-up:{packet_id}:from"),
                    Entry(sender, total_fen, f"top-up:{packet_id}:to"),
                ],
                AT_MS,
            ),
        ]
        funding = Journal(
            name,
            [Entry(sender, -total_fen, f"{name}:a"), Entry(escrow, total_fen, f"{name}:b")],
            AT_MS,
        )
        await self.database.transaction(lambda work: post(work, journals))
        await self.database.transaction(lambda work: post(work, [funding]))
        row = {
            "id": packet_id,
            "sender_id": SENDER,
            "greeting": "恭喜发财 🧧",
            "kind": "lucky",
            "total_fen": total_fen,
            "shares": shares,
            "min_fen": 1,
            "split_version": 1,
            "seed": bytes(32),
            "commitment": bytes(32),
            "state": state,
            "remaining_fen": total_fen,
            "remaining_shares": shares,
            "created_at": to_sql(AT_MS),
            "opens_at": to_sql(AT_MS),
            "expires_at": to_sql(AT_MS + 86_400_000),
        }
        await self.insert("packet", row)

    async def insert(self, table: str, *rows: dict[str, Any]) -> None:
        # Not by Model.create: Tortoise keeps its statement for the dialect it met first.
        names = ", ".join(f"`{name}`" for name in rows[0])
        values = [list(row.values()) for row in rows]
        await self.database.transaction(
            lambda work: work.insert(f"INSERT INTO {table} ({names})", values)
        )

    async def insert_claims(self, packet_id: int, claims: Iterable[tuple[int, str, int]]) -> None:
        """Claim rows of (seq, user, amount) alone, without a packet or its money."""
        columns = ("packet_id", "seq", "user_id", "amount_fen", "claimed_at")
        at = to_sql(AT_MS)
        rows = [dict(zip(columns, (packet_id, *each, at), strict=True)) for each in claims]
        await self.insert("claim", *rows)

    async def book(self, claims: Iterable[Claim]) -> list[Rejected]:
        claims = list(claims)
        return await self.database.transaction(lambda work: book_claims(work, claims))

    async def rows(self, sql: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        return await self.database.transaction(lambda work: work.rows(sql, values))

    async def run(self, sql: str, values: Sequence[Any] = ()) -> int:
        return await self.database.transaction(lambda work: work.run(sql, values))

    async def snapshot(self, packet_ids: Sequence[int] = ()) -> Snapshot:
        """Everything, or only what concerns `packet_ids`; checks that the books balance."""

        async def read(work: Transaction) -> Snapshot:
            journals = await work.rows(
                "SELECT journal FROM ledger_entry GROUP BY journal HAVING SUM(amount_fen) <> 0"
            )
            assert journals == []
            [total] = await work.rows("SELECT SUM(balance_fen) AS fen FROM account")
            assert int(total["fen"] or 0) == 0
            gaps = await work.rows(
                "SELECT a.id FROM account a JOIN ledger_entry e ON e.account_id = a.id"
                " GROUP BY a.id, a.balance_fen HAVING SUM(e.amount_fen) <> a.balance_fen"
            )
            assert gaps == []
            claims = await work.rows(
                "SELECT packet_id, seq, user_id, amount_fen FROM claim ORDER BY packet_id, seq"
            )
            packets = await work.rows("SELECT id, remaining_fen, remaining_shares FROM packet")
            accounts = await work.rows("SELECT id, balance_fen FROM account")
            entries = await work.rows("SELECT reference, account_id, amount_fen FROM ledger_entry")
            return Snapshot(
                [tuple(row.values()) for row in claims if _of(row["packet_id"], packet_ids)],
                {
                    row["id"]: (row["remaining_fen"], row["remaining_shares"])
                    for row in packets
                    if _of(row["id"], packet_ids)
                },
                {row["id"]: row["balance_fen"] for row in accounts},
                {row["reference"]: (row["account_id"], row["amount_fen"]) for row in entries},
            )

        return await self.database.transaction(read)


def _of(packet_id: int, packet_ids: Sequence[int]) -> bool:
    return not packet_ids or packet_id in packet_ids
