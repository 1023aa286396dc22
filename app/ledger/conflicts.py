"""Claims that contradict what is booked, as after Redis lost data: the house pays, once.

MySQL's keys decide who has a share. Nobody is clawed back and nobody who was told an amount goes
without it: the house adds what the user was told and has not been paid for this packet.
"""

import asyncio
from functools import lru_cache
from hashlib import sha256
from typing import Final, NamedTuple

from app.control.alarm import raise_alarm
from app.ledger.claims import Claim, Rejected, claim_body
from app.ledger.posting import HOUSE, Entry, Journal, post, user_account
from app.packets.terms import terms_from_row
from app.store.database import Transaction
from app.store.times import to_sql
from lua.ids import PacketId, UserId
from splitter.split import split

MAX_REASON: Final = 200
_amounts: Final = lru_cache(maxsize=2)(split)  # conflicts of one packet come together


class Conflicting(NamedTuple):
    claim: Claim
    reason: str


async def settle_conflict(transaction: Transaction, conflicting: Conflicting) -> list[Rejected]:
    """Note the conflict and pay its user; a claim with an amount no split gave is rejected.

    The packet's row is locked by the caller. The same conflict again changes nothing.
    """
    claim = conflicting.claim
    if not await _is_of_the_split(transaction, claim):
        return [Rejected(claim_body(claim), f"not an amount of the split; {conflicting.reason}")]
    due_fen = max(0, claim.amount_fen - await _received(transaction, claim))
    noted = await transaction.run(
        _INSERT[transaction.dialect].format(now=transaction.now()),
        [
            *(claim.packet_id, claim.seq, claim.user_id, claim.amount_fen, due_fen),
            *(conflicting.reason[:MAX_REASON], to_sql(claim.claimed_at_ms)),
        ],
    )
    if noted == 0:
        return []
    if due_fen > 0:
        journal = conflict_journal(
            claim.packet_id, claim.seq, claim.user_id, due_fen, claim.claimed_at_ms
        )
        await post(transaction, [journal])
    raise_alarm(
        "conflict",
        f"packet {claim.packet_id} seq {claim.seq} user {claim.user_id} {claim.amount_fen} fen:"
        f" {conflicting.reason}; the house pays {due_fen} fen",
    )
    return []


async def _is_of_the_split(transaction: Transaction, claim: Claim) -> bool:
    """Whether the seed says so too: a forged or damaged message must not cost the house money."""
    [packet] = await transaction.rows(
        "SELECT kind, total_fen, shares, min_fen, cap_fen, split_version, seed"
        " FROM packet WHERE id = %s",
        [claim.packet_id],
    )
    amounts = await asyncio.to_thread(_amounts, terms_from_row(packet), bytes(packet["seed"]))
    return amounts[claim.seq - 1] == claim.amount_fen


async def _received(transaction: Transaction, claim: Claim) -> int:
    """What the user has been paid for this packet, by its escrow or by the house."""
    [row] = await transaction.rows(
        "SELECT (SELECT COALESCE(SUM(amount_fen), 0) FROM claim"
        " WHERE packet_id = %s AND user_id = %s) + (SELECT COALESCE(SUM(paid_fen), 0)"
        " FROM conflict WHERE packet_id = %s AND user_id = %s) AS received_fen",
        [claim.packet_id, claim.user_id] * 2,
    )
    return int(row["received_fen"])


def conflict_journal_name(packet_id: PacketId, seq: int, user_id: UserId) -> str:
    user = sha256(user_id.encode()).hexdigest()[:16]  # a reference has 96 characters
    return f"conflict:{packet_id}:{seq}:{user}"


def conflict_journal(
    packet_id: PacketId, seq: int, user_id: UserId, due_fen: int, at_ms: int
) -> Journal:
    """What the house pays."""
    name = conflict_journal_name(packet_id, seq, user_id)
    return Journal(
        name,
        [
            Entry(HOUSE, -due_fen, f"{name}:house"),
            Entry(user_account(user_id), due_fen, f"{name}:user"),
        ],
        at_ms,
    )


_INSERT: Final = {
    "mysql": "INSERT INTO conflict (packet_id, seq, user_id, amount_fen, paid_fen, reason,"
    " claimed_at, noted_at) VALUES (%s, %s, %s, %s, %s, %s, %s, {now})"
    " ON DUPLICATE KEY UPDATE seq = seq",
    "sqlite": "INSERT INTO conflict (packet_id, seq, user_id, amount_fen, paid_fen, reason,"
    " claimed_at, noted_at) VALUES (%s, %s, %s, %s, %s, %s, %s, {now}) ON CONFLICT DO NOTHING",
}
