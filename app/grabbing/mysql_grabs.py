"""Grabs of packets that live in MySQL alone, as those made while Redis was down."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from app.ledger.booking import book_claims
from app.ledger.claims import Claim
from app.packets.terms import terms_from_row
from app.store.database import Database, Transaction
from app.store.times import read_ms
from lua.ids import PacketId, UserId
from lua.replies import Grab, GrabReply, GrabStatus, Outcome
from splitter.money import Fen
from splitter.split import split

MAX_SHARES: Final = 1000  # of such a packet: its row is locked for each batch of grabs

_amounts: Final = lru_cache(maxsize=1000)(split)


class MysqlGrabs:
    """What grab.lua does, as one transaction a batch under the lock of the packet's row."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def grab(self, packet_id: PacketId, user_ids: Sequence[UserId]) -> GrabReply:
        """Grab for many users at once; `grabs` is in the order of `user_ids`, empty unless OK."""
        return await self._database.transaction(lambda work: _grab(work, packet_id, user_ids))


async def _grab(
    transaction: Transaction, packet_id: PacketId, user_ids: Sequence[UserId]
) -> GrabReply:
    packet = await _locked_packet(transaction, packet_id)
    if packet is None:
        return GrabReply(GrabStatus.UNKNOWN, 0, [])
    now_ms = read_ms(packet["now_at"])
    held = await _held(transaction, packet_id, user_ids)
    refusal = _refusal(packet, now_ms)
    first_seq = packet["shares"] - packet["remaining_shares"] + 1
    wanting = [user_id for user_id in dict.fromkeys(user_ids) if user_id not in held]
    winners = wanting[: packet["remaining_shares"]] if refusal is None else []
    if winners:
        amounts = _amounts(terms_from_row(packet), bytes(packet["seed"]))
        fresh = [
            Claim(packet_id, seq, user_id, Fen(amounts[seq - 1]), now_ms)
            for seq, user_id in enumerate(winners, start=first_seq)
        ]
        if await book_claims(transaction, fresh):
            raise AssertionError(f"packet {packet_id} refuses a claim under its own lock")
        held |= {c.user_id: Grab(Outcome.GRABBED, c.seq, c.amount_fen, now_ms) for c in fresh}
    nothing = refusal or Grab(Outcome.SOLD_OUT, 0, 0, 0)
    grabs = []
    for user_id in user_ids:
        grab = held.get(user_id, nothing)
        grabs.append(grab)
        if grab.outcome == Outcome.GRABBED:
            held[user_id] = grab._replace(outcome=Outcome.REPEATED)
    return GrabReply(GrabStatus.OK, now_ms, grabs)


async def _locked_packet(transaction: Transaction, packet_id: PacketId) -> dict[str, Any] | None:
    lock = "FOR UPDATE" if transaction.dialect == "mysql" else ""
    rows = await transaction.rows(
        "SELECT kind, total_fen, shares, min_fen, cap_fen, split_version, seed, state,"
        f" remaining_shares, opens_at, expires_at, {transaction.now()} AS now_at"
        f" FROM packet WHERE id = %s {lock}",
        [packet_id],
    )
    return rows[0] if rows else None


async def _held(
    transaction: Transaction, packet_id: PacketId, user_ids: Sequence[UserId]
) -> dict[UserId, Grab]:
    marks = ", ".join(["%s"] * len(user_ids))
    rows = await transaction.rows(
        "SELECT user_id, seq, amount_fen, claimed_at FROM claim"
        f" WHERE packet_id = %s AND user_id IN ({marks})",
        [packet_id, *user_ids],
    )
    return {
        UserId(row["user_id"]): Grab(
            Outcome.REPEATED, row["seq"], row["amount_fen"], read_ms(row["claimed_at"])
        )
        for row in rows
    }


def _refusal(packet: dict[str, Any], now_ms: int) -> Grab | None:
    opens_at_ms = read_ms(packet["opens_at"])
    if packet["state"] != "open":
        return Grab(Outcome.CLOSED, 0, 0, 0)
    if now_ms >= read_ms(packet["expires_at"]):
        return Grab(Outcome.EXPIRED, 0, 0, 0)
    if now_ms < opens_at_ms:
        return Grab(Outcome.NOT_OPEN_YET, 0, 0, opens_at_ms)
    return None
