"""Repairs of one packet's books: rows and postings complete each other, the rest follows from them.

Claim rows say who has a share; a posting without a row gives the row back. What is left of the
packet follows from the rows, and balances follow from the entries.
"""

from collections.abc import Sequence
from typing import Any

from app.ledger.conflicts import conflict_journal, conflict_journal_name
from app.ledger.posting import packet_account, post, user_account
from app.reconciling.books import Books, differing_balances
from app.settling.settling import refund_journal
from app.store.database import Database, Transaction
from app.store.times import read_ms, to_sql
from lua.ids import PacketId, UserId


async def repair_books(database: Database, books: Books) -> None:
    """Repair what `books` found, in one transaction under the packet's lock."""
    kinds = {finding.kind for finding in books.findings}
    packet_id = books.packet_id

    async def write(work: Transaction) -> None:
        lock = "FOR UPDATE" if work.dialect == "mysql" else ""
        await work.rows(f"SELECT id FROM packet WHERE id = %s {lock}", [packet_id])
        if "posting_without_row" in kinds:
            await _insert_rows(work, packet_id, books.unrowed)
        if "row_without_posting" in kinds:
            await _insert_postings(work, packet_id, books.unposted)
        if "journal_unbalanced" in kinds:
            await _insert_escrow_entries(work, packet_id, books.unbalanced)
        if "funding_missing" in kinds:
            await _complete_funding(work, books.packet)
        await _set_remaining(work, packet_id)
        await _set_balances(work, sorted(books.accounts))  # before anything is paid from them
        if "conflict_not_paid" in kinds:
            await _pay_conflicts(work, packet_id)
        if "not_due_listed" in kinds:
            await _list_as_due(work, packet_id)
        if kinds & {"settlement_incomplete", "settlement_differs"}:
            await _complete_settlement(work, packet_id)

    await database.transaction(write)


async def _insert_rows(
    work: Transaction, packet_id: PacketId, entries: Sequence[dict[str, Any]]
) -> None:
    await work.insert(
        "INSERT INTO claim (packet_id, seq, user_id, amount_fen, claimed_at)",
        [
            (
                packet_id,
                entry["seq"],
                entry["account_id"].removeprefix("user:"),
                entry["amount_fen"],
                to_sql(read_ms(entry["booked_at"])),
            )
            for entry in entries
        ],
    )


async def _insert_postings(
    work: Transaction, packet_id: PacketId, rows: Sequence[dict[str, Any]]
) -> None:
    """The entries of these claims, in the journals that lack them where there are such."""
    escrow = packet_account(packet_id)
    for row in rows:
        amount_fen, seq = row["amount_fen"], row["seq"]
        reference = f"claim:{packet_id}:{seq}"
        short = await work.rows(
            "SELECT journal FROM ledger_entry WHERE journal IN"
            " (SELECT journal FROM ledger_entry WHERE account_id = %s)"
            " GROUP BY journal HAVING SUM(amount_fen) <= %s ORDER BY journal LIMIT 1",
            [escrow, -amount_fen],
        )
        journal = short[0]["journal"] if short else f"repair:{packet_id}:{seq}"
        user = user_account(UserId(row["user_id"]))
        await _insert_entry(work, journal, reference, user, amount_fen, row["claimed_at"])
        if not short:
            await _insert_entry(work, journal, journal, escrow, -amount_fen, row["claimed_at"])


async def _insert_escrow_entries(
    work: Transaction, packet_id: PacketId, journals: Sequence[str]
) -> None:
    """Of journals that pay claims and do not say from where."""
    escrow = packet_account(packet_id)
    for journal in journals:
        entries = await work.rows(
            "SELECT account_id, amount_fen, booked_at FROM ledger_entry WHERE journal = %s",
            [journal],
        )
        surplus_fen = sum(entry["amount_fen"] for entry in entries)
        is_claims = journal.startswith((f"claims:{packet_id}:", f"repair:{packet_id}:"))
        has_escrow = any(entry["account_id"] == escrow for entry in entries)
        if is_claims and surplus_fen > 0 and not has_escrow:
            await _insert_entry(
                work, journal, journal, escrow, -surplus_fen, entries[0]["booked_at"]
            )


async def _complete_funding(work: Transaction, packet: dict[str, Any]) -> None:
    name, total_fen = f"fund:{packet['id']}", packet["total_fen"]
    sides = {
        f"{name}:sender": (user_account(UserId(packet["sender_id"])), -total_fen),
        f"{name}:packet": (packet_account(PacketId(packet["id"])), total_fen),
    }
    for reference, (account, amount_fen) in sides.items():
        found = await work.rows("SELECT id FROM ledger_entry WHERE reference = %s", [reference])
        if not found:
            await _insert_entry(work, name, reference, account, amount_fen, packet["created_at"])


async def _insert_entry(
    work: Transaction, journal: str, reference: str, account: str, amount_fen: int, at: Any
) -> None:
    await work.insert(
        "INSERT INTO ledger_entry (journal, reference, account_id, amount_fen, booked_at)",
        [(journal, reference, account, amount_fen, to_sql(read_ms(at)))],
    )


async def _set_balances(work: Transaction, accounts: Sequence[str]) -> None:
    """An account has what its entries add up to. One below 0 is refused by the table itself.

    By the difference, for others may pay the same account meanwhile and add to it.
    """
    for row in await differing_balances(work, accounts):
        missing_fen = row["entries_fen"] - row["balance_fen"]
        changed = await work.run(
            "UPDATE account SET balance_fen = balance_fen + %s WHERE id = %s",
            [missing_fen, row["account_id"]],
        )
        if changed == 0:
            await work.insert(
                "INSERT INTO account (id, balance_fen)", [(row["account_id"], missing_fen)]
            )


async def _set_remaining(work: Transaction, packet_id: PacketId) -> None:
    [claims] = await work.rows(
        "SELECT COUNT(*) AS claims, COALESCE(SUM(amount_fen), 0) AS fen FROM claim"
        " WHERE packet_id = %s",
        [packet_id],
    )
    await work.run(
        "UPDATE packet SET remaining_fen = total_fen - %s, remaining_shares = shares - %s"
        " WHERE id = %s",
        [claims["fen"], claims["claims"], packet_id],
    )


async def _pay_conflicts(work: Transaction, packet_id: PacketId) -> None:
    rows = await work.rows(
        "SELECT seq, user_id, paid_fen, claimed_at FROM conflict"
        " WHERE packet_id = %s AND paid_fen > 0",
        [packet_id],
    )
    for row in rows:
        user_id = UserId(row["user_id"])
        name = conflict_journal_name(packet_id, row["seq"], user_id)
        if await work.rows("SELECT id FROM ledger_entry WHERE reference = %s", [f"{name}:user"]):
            continue
        at_ms = read_ms(row["claimed_at"])
        await post(work, [conflict_journal(packet_id, row["seq"], user_id, row["paid_fen"], at_ms)])


async def _list_as_due(work: Transaction, packet_id: PacketId) -> None:
    await work.run(
        "INSERT INTO unsettled (packet_id, due_at) SELECT id,"
        f" CASE WHEN remaining_shares = 0 THEN {work.now()} ELSE expires_at END"
        " FROM packet WHERE id = %s",
        [packet_id],
    )


async def _complete_settlement(work: Transaction, packet_id: PacketId) -> None:
    """State, settlement and refund as closing the books leaves them."""
    [packet] = await work.rows(
        "SELECT sender_id, remaining_fen, remaining_shares FROM packet WHERE id = %s", [packet_id]
    )
    refund_fen = packet["remaining_fen"]
    posted = await work.rows(
        "SELECT id FROM ledger_entry WHERE reference = %s", [f"refund:{packet_id}:sender"]
    )
    await work.run("DELETE FROM settlement WHERE packet_id = %s", [packet_id])
    best = await work.rows(
        "SELECT seq, user_id, amount_fen FROM claim WHERE packet_id = %s"
        " ORDER BY amount_fen DESC, seq LIMIT 1",
        [packet_id],
    )
    crowned = (best[0]["seq"], best[0]["user_id"], best[0]["amount_fen"]) if best else (None,) * 3
    await work.run(
        "INSERT INTO settlement (packet_id, refund_fen, refund_shares, best_seq, best_user_id,"
        f" best_fen, settled_at) VALUES (%s, %s, %s, %s, %s, %s, {work.now()})",
        [packet_id, refund_fen, packet["remaining_shares"], *crowned],
    )
    if refund_fen > 0 and not posted:
        await post(work, [refund_journal(packet_id, UserId(packet["sender_id"]), refund_fen)])
    await work.run("UPDATE packet SET state = 'settled' WHERE id = %s", [packet_id])
