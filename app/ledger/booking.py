"""Books claims: rows, payments and what is left of each packet, once whatever is sent again."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tortoise.exceptions import IntegrityError

from app.ledger.claims import Claim, Rejected, claim_body
from app.ledger.conflicts import Conflicting, settle_conflict
from app.ledger.posting import Entry, Journal, packet_account, post, user_account
from app.store.database import Transaction
from app.store.times import to_sql
from lua.ids import PacketId, UserId


class _Packet(NamedTuple):
    shares: int
    remaining_fen: int
    remaining_shares: int


async def book_claims(transaction: Transaction, claims: Iterable[Claim]) -> list[Rejected]:
    """Book a batch in one transaction. Claims that were booked before change nothing.

    A claim that contradicts what is booked is set aside as a conflict, and its user paid by the
    house. Locks in the same order everywhere: packets by id, then accounts by id.
    """
    claims_of = _by_packet(sorted(set(claims)))
    packets = await _lock_packets(transaction, list(claims_of))
    rejected: list[Rejected] = []
    conflicting: list[Conflicting] = []
    fresh = await _insert_fresh(transaction, packets, claims_of, rejected, conflicting)
    if fresh:
        await _pay(transaction, packets, fresh)
    for conflict in conflicting:
        rejected += await settle_conflict(transaction, conflict)
    return rejected


async def _insert_fresh(
    transaction: Transaction,
    packets: Mapping[PacketId, _Packet],
    claims_of: Mapping[PacketId, list[Claim]],
    rejected: list[Rejected],
    conflicting: list[Conflicting],
) -> list[Claim]:
    """Insert the rows of the claims that are new and covered, and return these claims."""
    fresh: list[Claim] = []
    for packet_id, of_packet in claims_of.items():
        packet = packets.get(packet_id)
        if packet is None:
            rejected += [Rejected(claim_body(claim), "unknown packet") for claim in of_packet]
        elif _is_covered(packet, of_packet):
            fresh += of_packet
        else:
            fresh += await _bookable(transaction, packet, of_packet, rejected, conflicting)
    if not fresh:
        return []
    try:
        await _insert_claims(transaction, fresh)
    except IntegrityError:
        # Something was booked before. The statement changed nothing; look closer, packet by packet.
        looked_at: list[Claim] = []
        for packet_id, of_packet in _by_packet(fresh).items():
            looked_at += await _bookable(
                transaction, packets[packet_id], of_packet, rejected, conflicting
            )
        fresh = looked_at
        if fresh:
            await _insert_claims(transaction, fresh)
    return fresh


def _by_packet(claims: Iterable[Claim]) -> dict[PacketId, list[Claim]]:
    """Claims by packet; sorted claims stay sorted, packets and claims alike."""
    claims_of: defaultdict[PacketId, list[Claim]] = defaultdict(list)
    for claim in claims:
        claims_of[claim.packet_id].append(claim)
    return claims_of


async def _lock_packets(
    transaction: Transaction, packet_ids: Sequence[PacketId]
) -> dict[PacketId, _Packet]:
    if not packet_ids:
        return {}
    marks = ", ".join(["%s"] * len(packet_ids))
    lock = "FOR UPDATE" if transaction.dialect == "mysql" else ""
    rows = await transaction.rows(
        f"SELECT id, shares, state, remaining_fen, remaining_shares FROM packet"
        f" WHERE id IN ({marks}) ORDER BY id {lock}",
        packet_ids,
    )
    return {
        # What is left of a settled packet has been refunded.
        row["id"]: _Packet(row["shares"], 0, 0)
        if row["state"] == "settled"
        else _Packet(row["shares"], row["remaining_fen"], row["remaining_shares"])
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
    transaction: Transaction,
    packet: _Packet,
    claims: Sequence[Claim],
    rejected: list[Rejected],
    conflicting: list[Conflicting],
) -> list[Claim]:
    """The claims that are new and covered; what contradicts a booked one goes to `conflicting`."""
    packet_id = claims[0].packet_id
    by_seq, by_user = await _booked(transaction, packet_id, claims)
    bookable = []
    left_fen, left_shares = packet.remaining_fen, packet.remaining_shares
    for claim in claims:
        wanted = (claim.seq, claim.user_id, claim.amount_fen)
        of_seq, of_user = by_seq.get(claim.seq), by_user.get(claim.user_id)
        if of_seq == wanted:
            continue
        if claim.seq > packet.shares:
            reason = f"the packet has {packet.shares} shares"
            rejected.append(Rejected(claim_body(claim), reason))
        elif of_seq is not None or of_user is not None:
            booked = of_seq or of_user
            conflicting.append(Conflicting(claim, f"booked is {booked}"))
        elif claim.amount_fen > left_fen or left_shares == 0:
            left = f"{left_fen} fen in {left_shares} shares are left"
            conflicting.append(Conflicting(claim, left))
        else:
            left_fen -= claim.amount_fen
            left_shares -= 1
            by_seq[claim.seq] = by_user[claim.user_id] = wanted
            bookable.append(claim)
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


async def _pay(
    transaction: Transaction, packets: Mapping[PacketId, _Packet], claims: Sequence[Claim]
) -> None:
    """Take sorted claims out of their packets and pay the users."""
    journals = []
    for packet_id, of_packet in _by_packet(claims).items():
        paid_fen = sum(claim.amount_fen for claim in of_packet)
        last_ms = max(claim.claimed_at_ms for claim in of_packet)
        await _take_from_packet(transaction, packet_id, paid_fen, len(of_packet))
        if packets[packet_id].remaining_shares == len(of_packet):
            await _make_due(transaction, packet_id, last_ms)
        # Unique, for a seq is booked in one transaction only, however batches are cut.
        name = f"claims:{packet_id}:{of_packet[0].seq}"
        entries = [Entry(packet_account(packet_id), -paid_fen, name)]
        entries += [
            Entry(user_account(claim.user_id), claim.amount_fen, f"claim:{packet_id}:{claim.seq}")
            for claim in of_packet
        ]
        journals.append(Journal(name, entries, last_ms))
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


async def _make_due(transaction: Transaction, packet_id: PacketId, at_ms: int) -> None:
    """A packet that is sold out need not wait until it expires to be settled."""
    await transaction.run(
        "UPDATE unsettled SET due_at = %s WHERE packet_id = %s AND due_at > %s",
        [to_sql(at_ms), packet_id, to_sql(at_ms)],
    )
