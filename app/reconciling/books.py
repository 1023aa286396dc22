"""One packet's rows against its ledger, read in one transaction: a moment, whatever goes on."""

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from app.ledger.conflicts import conflict_journal_name
from app.ledger.posting import packet_account, user_account
from app.packets.reading import PAGE_OF_CLAIMS
from app.packets.terms import terms_from_row
from app.reconciling.findings import Finding, Kind
from app.store.database import Database, Transaction
from lua.ids import PacketId, UserId
from splitter.money import Fen
from splitter.proof import commitment

ROWS_PER_READ: Final = 1000


class Books:
    """Everything MySQL holds of a packet, and what is wrong with it."""

    def __init__(self, packet_id: PacketId, amounts: Sequence[Fen]) -> None:
        """`amounts` are those of the split, by seq from 1."""
        self.packet_id = packet_id
        self._amounts = amounts
        self.packet: dict[str, Any] = {}
        self.findings: list[Finding] = []
        self.unposted: list[dict[str, Any]] = []  # claim rows
        self.unrowed: list[dict[str, Any]] = []  # ledger entries
        self.journals: set[str] = set()
        self.unbalanced: list[str] = []
        self.accounts: set[str] = {packet_account(packet_id)}
        self.booked_fen = 0
        self.booked_shares = 0
        self._best: tuple[int, str, int] | None = None  # seq, user, fen

    async def read(self, database: Database) -> list[Finding]:
        await database.transaction(self._read)
        return self.findings

    async def _read(self, work: Transaction) -> None:
        [self.packet] = await work.rows("SELECT * FROM packet WHERE id = %s", [self.packet_id])
        await self._read_claims(work)
        await self._read_postings(work)
        await self._check_journals(work)
        self._check_packet()
        await self._check_funding(work)
        await self._check_conflicts(work)
        await self._check_end(work)
        await self._check_balances(work)

    def _found(self, kind: Kind, detail: str) -> None:
        self.findings.append(Finding(self.packet_id, kind, detail))

    async def _read_claims(self, work: Transaction) -> None:
        """Claim rows, each with its posting."""
        after_seq = 0
        while True:
            rows = await work.rows(PAGE_OF_CLAIMS, [self.packet_id, after_seq, ROWS_PER_READ])
            if not rows:
                return
            after_seq = rows[-1]["seq"]
            references = [f"claim:{self.packet_id}:{row['seq']}" for row in rows]
            posted = await _entries(work, references)
            for row, reference in zip(rows, references, strict=True):
                self._check_claim(row, posted.get(reference))

    def _check_claim(self, row: dict[str, Any], entry: dict[str, Any] | None) -> None:
        seq, amount_fen = row["seq"], row["amount_fen"]
        account = user_account(UserId(row["user_id"]))
        self.booked_fen += amount_fen
        self.booked_shares += 1
        if self._best is None or amount_fen > self._best[2]:  # rows come by seq
            self._best = (seq, row["user_id"], amount_fen)
        self.accounts.add(account)
        if not 1 <= seq <= len(self._amounts) or self._amounts[seq - 1] != amount_fen:
            self._found("amount_not_of_the_split", f"seq {seq} of {row['user_id']}")
        if entry is None:
            self.unposted.append(row)
            self._found("row_without_posting", f"seq {seq} of {row['user_id']}")
        elif (entry["account_id"], entry["amount_fen"]) != (account, amount_fen):
            self._found("posting_differs", f"seq {seq} is posted to another account or amount")
        if entry is not None:
            self.journals.add(entry["journal"])

    async def _read_postings(self, work: Transaction) -> None:
        """Postings of claims that have no row."""
        last = len(self._amounts)
        for first in range(1, last + 1, ROWS_PER_READ):
            seqs = range(first, min(first + ROWS_PER_READ, last + 1))
            posted = await _entries(work, [f"claim:{self.packet_id}:{seq}" for seq in seqs])
            if not posted:
                continue
            rows = await work.rows(
                "SELECT seq FROM claim WHERE packet_id = %s AND seq BETWEEN %s AND %s",
                [self.packet_id, seqs[0], seqs[-1]],
            )
            booked = {row["seq"] for row in rows}
            for reference, entry in posted.items():
                entry["seq"] = int(reference.rsplit(":", 1)[1])
                if entry["seq"] not in booked:
                    self.unrowed.append(entry)
                    self._found("posting_without_row", f"seq {entry['seq']}")

    async def _check_journals(self, work: Transaction) -> None:
        rows = await work.rows(
            "SELECT DISTINCT journal FROM ledger_entry WHERE account_id = %s",
            [packet_account(self.packet_id)],
        )
        self.journals |= {row["journal"] for row in rows}
        for part in _parts(sorted(self.journals), ROWS_PER_READ):
            marks = ", ".join(["%s"] * len(part))
            unbalanced = await work.rows(
                "SELECT journal, SUM(amount_fen) AS fen FROM ledger_entry"
                f" WHERE journal IN ({marks}) GROUP BY journal HAVING SUM(amount_fen) <> 0",
                part,
            )
            for row in unbalanced:
                self.unbalanced.append(row["journal"])
                self._found("journal_unbalanced", f"{row['journal']} sums to {row['fen']}")

    def _check_packet(self) -> None:
        packet = self.packet
        if commitment(bytes(packet["seed"]), terms_from_row(packet)) != bytes(packet["commitment"]):
            self._found("commitment_differs", "the published hash is not that of seed and terms")
        left_fen = packet["total_fen"] - self.booked_fen
        left_shares = packet["shares"] - self.booked_shares
        if (packet["remaining_fen"], packet["remaining_shares"]) != (left_fen, left_shares):
            self._found(
                "remaining_differs",
                f"{packet['remaining_shares']} shares of {packet['remaining_fen']} fen are said to"
                f" be left, by the rows {left_shares} of {left_fen}",
            )

    async def _check_funding(self, work: Transaction) -> None:
        references = [f"fund:{self.packet_id}:sender", f"fund:{self.packet_id}:packet"]
        if len(await _entries(work, references)) != len(references):
            self._found("funding_missing", f"of {self.packet['total_fen']} fen")

    async def _check_conflicts(self, work: Transaction) -> None:
        rows = await work.rows(
            "SELECT seq, user_id, paid_fen FROM conflict WHERE packet_id = %s", [self.packet_id]
        )
        for row in rows:
            self.accounts.add(user_account(UserId(row["user_id"])))
            name = conflict_journal_name(self.packet_id, row["seq"], UserId(row["user_id"]))
            if row["paid_fen"] > 0 and not await _entries(work, [f"{name}:user"]):
                self._found("conflict_not_paid", f"seq {row['seq']} of {row['user_id']}")

    async def _check_end(self, work: Transaction) -> None:
        settlements = await work.rows(
            "SELECT refund_fen, refund_shares, best_seq, best_user_id, best_fen FROM settlement"
            " WHERE packet_id = %s",
            [self.packet_id],
        )
        listed = await work.rows(
            "SELECT due_at FROM unsettled WHERE packet_id = %s", [self.packet_id]
        )
        refunds = await _entries(work, [f"refund:{self.packet_id}:sender"])
        posted_fen = sum(entry["amount_fen"] for entry in refunds.values())
        is_settled = self.packet["state"] == "settled"
        self.accounts.add(user_account(UserId(self.packet["sender_id"])))
        if is_settled or settlements or refunds:
            owed_fen = self.packet["total_fen"] - self.booked_fen
            if not (is_settled and settlements) or (owed_fen > 0 and not refunds):
                self._found("settlement_incomplete", f"refund of {owed_fen} fen")
            if settlements:
                self._check_settlement(settlements[0])
            said_fen = settlements[0]["refund_fen"] if settlements else owed_fen
            if said_fen != owed_fen or (refunds and posted_fen != owed_fen):
                self._found("refund_differs", f"{posted_fen} fen paid, {owed_fen} fen are left")
        elif not listed:
            self._found("not_due_listed", "no settler would ever find it")

    def _check_settlement(self, said: dict[str, Any]) -> None:
        left_shares = self.packet["shares"] - self.booked_shares
        if said["refund_shares"] != left_shares:
            self._found("settlement_differs", f"{left_shares} shares were left")
        if (said["best_seq"], said["best_user_id"], said["best_fen"]) != (
            self._best or (None,) * 3
        ):
            self._found("settlement_differs", f"the best luck is {self._best}")

    async def _check_balances(self, work: Transaction) -> None:
        for part in _parts(sorted(self.accounts), ROWS_PER_READ):
            for row in await differing_balances(work, part):
                self._found(
                    "balance_differs",
                    f"{row['account_id']} has {row['balance_fen']} fen,"
                    f" its entries add up to {row['entries_fen']}",
                )


async def differing_balances(work: Transaction, accounts: Sequence[str]) -> list[dict[str, Any]]:
    """The accounts whose balance is not the sum of their entries."""
    marks = ", ".join(["%s"] * len(accounts))
    rows = await work.rows(
        "SELECT account_id, SUM(amount_fen) AS entries_fen FROM ledger_entry"
        f" WHERE account_id IN ({marks}) GROUP BY account_id",
        list(accounts),
    )
    sums = {row["account_id"]: int(row["entries_fen"]) for row in rows}
    rows = await work.rows(
        f"SELECT id, balance_fen FROM account WHERE id IN ({marks})", list(accounts)
    )
    balances = {row["id"]: row["balance_fen"] for row in rows}
    return [
        {
            "account_id": account,
            "balance_fen": balances.get(account, 0),
            "entries_fen": sums.get(account, 0),
        }
        for account in accounts
        if balances.get(account, 0) != sums.get(account, 0)
    ]


async def _entries(work: Transaction, references: Sequence[str]) -> dict[str, dict[str, Any]]:
    marks = ", ".join(["%s"] * len(references))
    rows = await work.rows(
        "SELECT reference, journal, account_id, amount_fen, booked_at FROM ledger_entry"
        f" WHERE reference IN ({marks})",
        list(references),
    )
    return {row["reference"]: row for row in rows}


def _parts(items: Sequence[str], size: int) -> list[list[str]]:
    iterator = iter(items)
    return list(iter(lambda: list(islice(iterator, size)), []))
