"""The terms of a packet, as its row says them."""

from collections.abc import Mapping
from typing import Any, cast

from app.store.models import Packet
from splitter.money import Fen
from splitter.terms import Kind, Terms


def terms_of(packet: Packet) -> Terms:
    return terms_from_row(
        {
            "kind": packet.kind,
            "total_fen": packet.total_fen,
            "shares": packet.shares,
            "min_fen": packet.min_fen,
            "cap_fen": packet.cap_fen,
            "split_version": packet.split_version,
        }
    )


def terms_from_row(row: Mapping[str, Any]) -> Terms:
    """The same of a row that a raw statement returned."""
    return Terms(
        kind=cast(Kind, row["kind"]),  # Terms refuses any other
        total_fen=Fen(row["total_fen"]),
        shares=row["shares"],
        min_fen=Fen(row["min_fen"]),
        cap_fen=None if row["cap_fen"] is None else Fen(row["cap_fen"]),
        version=row["split_version"],
    )
