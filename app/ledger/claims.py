"""Claims as the outbox carries them: what a claim is, and how one is read and written."""

import json
import re
from typing import Any, Final, NamedTuple

from app.store.times import LATEST_MS
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

    body: bytes
    reason: str


def claim_body(claim: Claim) -> bytes:
    """The outbox form of a single claim."""
    return json.dumps(
        {
            "packet_id": str(claim.packet_id),
            "claimed_at_ms": claim.claimed_at_ms,
            "claims": [[claim.seq, claim.amount_fen, claim.user_id]],
        }
    ).encode()


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
        return [], [Rejected(body, f"unreadable entry: {error!r}")]
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
            rejected.append(Rejected(json.dumps(alone).encode(), f"unreadable claim: {error!r}"))
    return claims, rejected


def _packet_id(value: Any) -> PacketId:
    if not isinstance(value, str) or not _DECIMAL.fullmatch(value):
        raise ValueError(f"{value!r} is not the decimal text of a packet id")
    return PacketId(_integer(int(value), MAX_PACKET_ID))


def _integer(value: Any, largest: int) -> int:
    if type(value) is not int or not 1 <= value <= largest:
        raise ValueError(f"{value!r} is not an integer from 1 to {largest}")
    return value
