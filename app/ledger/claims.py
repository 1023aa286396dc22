"""Books claims: rows, payments and what is left of each packet, once whatever is sent again."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from tortoise.exceptions import IntegrityError

from app.ledger.posting import Entry, Journal, packet_account, post, user_account
from app.store.database import Transaction
from app.store.times import LATEST_MS, to_sql
from lua.ids import MAX_PACKET_ID, PacketId, UserId, parse_user_id
from splitter.money import MAX_SHARES, MAX_TOTAL_FEN, Fen

_DECIMAL: Final = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
# JSON that is nested deeper than Python recurses is unreadable too, and no reason to stop.
_UNREADABLE: Final = (ValueError, TypeError, KeyError, RecursionError)


class Claim(NamedTuple):
    packet_id: PacketId
    seq: int
    user_id: UserId
    amount_fen: Fen
    claimed_at_ms: int


class Rejected(NamedTuple):
    """A claim, or what should have been one, that can never be booked, and why."""

    body: str
    reason: str


def claim_body(claim: Claim) -> str:
    """The outbox form of a single claim."""
    return json.dumps(
        {
            "packet_id": str(claim.packet_id),
            "claimed_at_ms": claim.claimed_at_ms,
            "claims": [[claim.seq, claim.amount_fen, claim.user_id]],
        }
    )


def parse_claims(body: bytes) -> tuple[list[Claim], list[Rejected]]:
    """Read one outbox entry, as grab.lua writes it. What is not a claim is rejected by itself."""
    try:
        entry = json.loads(body)
        packet_id = _packet_id(entry["packet_id"])
        claimed_at_ms = _integer(entry["claimed_at_ms"], LATEST_MS)
        rows: list[Any] = entry["claims"]
        if not isinstance(rows, list):
            raise TypeError("claims is not a list")
    except _UNREADABLE as error:
        return [], [Rejected(body.decode(errors="replace"), f"unreadable entry: {error!r}")]
    claims = []
    rejected = []
    for row in rows:
        try:
            seq, amount_fen, user_id = row
            claims.append(
                Claim(
                    packet_id,
                    _integer(seq, MAX_SHARES),
                    parse_user_id(user_id),
                    Fen(_integer(amount_fen, MAX_TOTAL_FEN)),
                    claimed_at_ms,
                )
            )
        except _UNREADABLE as error:
            alone = {"packet_id": str(packet_id), "claimed_at_ms": claimed_at_ms, "claims": [row]}
            rejected.append(Rejected(json.dumps(alone), f"unreadable claim: {error!r}"))
    return claims, rejected


def _packet_id(value: Any) -> PacketId:
    if not isinstance(value, str) or not _DECIMAL.fullmatch(value):
        raise ValueError(f"{value!r} is not the decimal text of a packet id")
    return PacketId(_integer(int(value), MAX_PACKET_ID))


def _integer(value: Any, largest: int) -> int:
    if type(value) is not int or not 1 <= value <= largest:
        raise ValueError(f"{value!r} is not an integer from 1 to {largest}")
    return value


async def book_claims(transaction: Transaction, claims: Iterable[Claim]) -> list[Rejected]:
    """Book a batch in one transaction. Claims that were booked before change nothing.

    Locks in the same order everywhere: packets by id, then accounts by id.
    """
    claims_of = _by_packet(sorted(set(claims)))
    packets = await _lock_packets(transaction, list(claims_of))
    rejected: list[Rejected] = []
    fresh: list[Claim] = []
    for packet_id, of_packet in claims_of.items():
        packet = packets.get(packet_id)
        if packet is None:
            rejected += [Rejected(claim_body(claim), "unknown packet") for claim in of_packet]
        elif _is_covered(packet, of_packet):
            fresh += of_packet
        else:
            fresh += await _bookable(transaction, packet, of_packet, rejected)
    if not fresh:
        return rejected
    try:
        await _insert_claims(transaction, fresh)
    except IntegrityError:
        # Something was booked before. The statement changed nothing; look closer, packet by packet.
        looked_at: list[Claim] = []
        for packet_id, of_packet in _by_packet(fresh).items():
            looked_at += await _bookable(transaction, packets[packet_id], of_packet, rejected)
        fresh = looked_at
        if not fresh:
            return rejected
        await _insert_claims(transaction, fresh)
    await _pay(transaction, fresh)
    return rejected


def _by_packet(claims: Iterable[Claim]) -> dict[PacketId, list[Claim]]:
    """Claims by packet; sorted claims stay sorted, packets and claims alike."""
    claims_of: defaultdict[PacketId, list[Claim]] = defaultdict(list)
    for claim in claims:
        claims_of[claim.packet_id].append(claim)
    return claims_of


class _Packet(NamedTuple):
    shares: int
    remaining_fen: int
    remaining_shares: int


async def _lock_packets(
    transaction: Transaction, packet_ids: Sequence[PacketId]
) -> dict[PacketId, _Packet]:
    if not packet_ids:
        return {}
    marks = ", ".join(["%s"] * len(packet_ids))
    lock = "FOR UPDATE" if transaction.dialect == "mysql" else ""
    rows = await transaction.rows(
        f"SELECT id, shares, remaining_fen, remaining_shares FROM packet"
        f" WHERE id IN ({marks}) ORDER BY id {lock}",
        packet_ids,
    )
    return {
        row["id"]: _Packet(row["shares"], row["remaining_fen"], row["remaining_shares"])
        for row in rows
    }


def _is_covered(packet: _Packet, claims: Sequence[Claim]) -> bool:
    """Whether all of `claims` fit into what the packet has left, be each of them new."""
    return (
        len(claims) <= packet.remaining_shares
        and sum(claim.amount_fen for claim in claims) <= packet.remaining_fen
        and max(claim.seq for claim in claims) <= packet.shares
    )


async def _bookable(
    transaction: Transaction, packet: _Packet, claims: Sequence[Claim], rejected: list[Rejected]
) -> list[Claim]:
    """The claims that are new and covered; what contradicts a booked claim goes to `rejected`."""
    packet_id = claims[0].packet_id
    by_seq, by_user = await _booked(transaction, packet_id, claims)
    bookable = []
    left_fen, left_shares = packet.remaining_fen, packet.remaining_shares
    for claim in claims:
        wanted = (claim.seq, claim.user_id, claim.amount_fen)
        of_seq, of_user = by_seq.get(claim.seq), by_user.get(claim.user_id)
        if of_seq == wanted:
            continue
        if of_seq is not None or of_user is not None:
            reason = f"conflict: booked is {of_seq or of_user}"
        elif claim.seq > packet.shares:
            reason = f"the packet has {packet.shares} shares"
        elif claim.amount_fen > left_fen or left_shares == 0:
            reason = f"overdrawn: {left_fen} fen in {left_shares} shares are left"
        else:
            left_fen -= claim.amount_fen
            left_shares -= 1
            by_seq[claim.seq] = by_user[claim.user_id] = wanted
            bookable.append(claim)
            continue
        rejected.append(Rejected(claim_body(claim), reason))
    return bookable


_Booked = tuple[int, UserId, int]


async def _booked(
    transaction: Transaction, packet_id: PacketId, claims: Sequence[Claim]
) -> tuple[dict[int, _Booked], dict[UserId, _Booked]]:
    """What is booked of the seqs and for the users of `claims`."""
    marks = ", ".join(["%s"] * len(claims))
    select = "SELECT seq, user_id, amount_fen FROM claim WHERE packet_id = %s AND"
    rows = await transaction.rows(
        f"{select} seq IN ({marks})", [packet_id, *(claim.seq for claim in claims)]
    )
    rows += await transaction.rows(
        f"{select} user_id IN ({marks})", [packet_id, *(claim.user_id for claim in claims)]
    )
    booked = [(row["seq"], UserId(row["user_id"]), row["amount_fen"]) for row in rows]
    return {row[0]: row for row in booked}, {row[1]: row for row in booked}


async def _insert_claims(transaction: Transaction, claims: Sequence[Claim]) -> None:
    await transaction.insert(
        "INSERT INTO claim (packet_id, seq, user_id, amount_fen, claimed_at)",
        [(c.packet_id, c.seq, c.user_id, c.amount_fen, to_sql(c.claimed_at_ms)) for c in claims],
    )


async def _pay(transaction: Transaction, claims: Sequence[Claim]) -> None:
    """Take sorted claims out of their packets and pay the users."""
    journals = []
    for packet_id, of_packet in _by_packet(claims).items():
        paid_fen = sum(claim.amount_fen for claim in of_packet)
        await _take_from_packet(transaction, packet_id, paid_fen, len(of_packet))
        # Unique, for a seq is booked in one transaction only, however batches are cut.
        name = f"claims:{packet_id}:{of_packet[0].seq}"
        entries = [Entry(packet_account(packet_id), -paid_fen, name)]
        entries += [
            Entry(user_account(claim.user_id), claim.amount_fen, f"claim:{packet_id}:{claim.seq}")
            for claim in of_packet
        ]
        journals.append(Journal(name, entries, max(claim.claimed_at_ms for claim in of_packet)))
    await post(transaction, journals)


async def _take_from_packet(
    transaction: Transaction, packet_id: PacketId, paid_fen: int, shares: int
) -> None:
    changed = await transaction.run(
        "UPDATE packet SET remaining_fen = remaining_fen - %s,"
        " remaining_shares = remaining_shares - %s"
        " WHERE id = %s AND remaining_fen >= %s AND remaining_shares >= %s",
        [paid_fen, shares, packet_id, paid_fen, shares],
    )
    if changed != 1:
        # The row is locked and was just found to cover this: only a bug can lead here.
        raise AssertionError(f"packet {packet_id} does not cover {paid_fen} fen")
