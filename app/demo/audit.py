"""Compares what people were told with what the stores hold, to the fen."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from app.ledger.posting import packet_account
from app.packets.live import LivePackets
from app.store.database import Database, Transaction
from lua.ids import PacketId, UserId

DRAIN_DEADLINE_S: Final = 30.0
POLL_S: Final = 0.05


class Audit(NamedTuple):
    """`lost`: told, but not booked so. `doubled`: claims too many of a user, or of a share."""

    answered: int
    claims: int
    rows: int
    lost: int
    doubled: int
    money_gap_fen: int
    booked: Mapping[UserId, tuple[int, int]]  # user to (seq, amount_fen)

    @property
    def agrees(self) -> bool:
        return (
            self.answered == self.claims == self.rows
            and self.lost == self.doubled == self.money_gap_fen == 0
        )

    def line(self) -> str:
        return (
            f"answered={self.answered} claims={self.claims} rows={self.rows}"
            f" lost={self.lost} doubled={self.doubled} money_gap_fen={self.money_gap_fen}"
        )


async def audit(
    database: Database,
    live: LivePackets,
    packet_id: PacketId,
    told: Mapping[str, Sequence[Sequence[int]]],
) -> Audit:
    """Audit one packet. `told[user]` lists the (seq, amount_fen) of every answer with a claim."""
    counts = await live.counts(packet_id)
    claims = 0 if counts is None else counts.claimed
    rows = await _rows_once_booked(database, packet_id, claims)
    booked = {UserId(row["user_id"]): (row["seq"], row["amount_fen"]) for row in rows}
    answers = {user: {tuple(claim) for claim in of_user} for user, of_user in told.items()}
    answered = {user: of_user for user, of_user in answers.items() if of_user}
    lost = sum(
        claim != booked.get(UserId(user)) for user, of_user in answered.items() for claim in of_user
    )
    seqs_told = Counter(claim[0] for of_user in answered.values() for claim in of_user)
    doubled = (
        sum(len(of_user) - 1 for of_user in answered.values())
        + sum(count - 1 for count in seqs_told.values())
        + (len(rows) - len(booked))
    )
    gap_fen = await _money_gap(database, packet_id, sum(row["amount_fen"] for row in rows))
    return Audit(len(answered), claims, len(rows), lost, doubled, gap_fen, booked)


async def _rows_once_booked(
    database: Database, packet_id: PacketId, claims: int
) -> list[dict[str, Any]]:
    """The booked rows, after the claims still on their way have had time to arrive."""
    deadline_s = time.monotonic() + DRAIN_DEADLINE_S
    while True:
        rows = await database.transaction(
            lambda work: work.rows(
                "SELECT seq, user_id, amount_fen FROM claim WHERE packet_id = %s", [packet_id]
            )
        )
        if len(rows) >= claims or time.monotonic() > deadline_s:
            return rows
        await asyncio.sleep(POLL_S)


async def _money_gap(database: Database, packet_id: PacketId, paid_fen: int) -> int:
    """Fen that do not add up, over five equations that must all hold."""

    async def measure(work: Transaction) -> int:
        [packet] = await work.rows(
            "SELECT total_fen, remaining_fen FROM packet WHERE id = %s", [packet_id]
        )
        [escrow] = await work.rows(
            "SELECT balance_fen FROM account WHERE id = %s", [packet_account(packet_id)]
        )
        [credited] = await work.rows(
            "SELECT COALESCE(SUM(amount_fen), 0) AS fen FROM ledger_entry WHERE reference LIKE %s",
            [f"claim:{packet_id}:%"],
        )
        [ledger] = await work.rows("SELECT COALESCE(SUM(amount_fen), 0) AS fen FROM ledger_entry")
        [accounts] = await work.rows("SELECT COALESCE(SUM(balance_fen), 0) AS fen FROM account")
        return int(
            abs(packet["total_fen"] - packet["remaining_fen"] - paid_fen)
            + abs(escrow["balance_fen"] - packet["remaining_fen"])
            + abs(int(credited["fen"]) - paid_fen)
            + abs(int(ledger["fen"]))
            + abs(int(accounts["fen"]))
        )

    return await database.transaction(measure)
