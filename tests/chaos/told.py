"""Everything clients were told, on disk: a long run must not be limited by memory."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

_TABLE = """
CREATE TABLE told (
    packet_id INTEGER, user_id TEXT, seq INTEGER, amount_fen INTEGER, claimed_at_ms INTEGER,
    PRIMARY KEY (packet_id, user_id, seq, amount_fen, claimed_at_ms)
) WITHOUT ROWID
"""
_REFUSED_SEQ = 0


class ToldClaim(NamedTuple):
    user_id: str
    seq: int
    amount_fen: int
    claimed_at_ms: int

    @property
    def is_refusal(self) -> bool:
        return self.seq == _REFUSED_SEQ


class Told:
    """Each different thing that a user was told of a packet; the same thing again adds nothing."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute(_TABLE)

    def close(self) -> None:
        self._database.close()

    def claim(
        self, packet_id: int, user_id: str, seq: int, amount_fen: int, claimed_at_ms: int
    ) -> None:
        self._database.execute(
            "INSERT OR IGNORE INTO told VALUES (?, ?, ?, ?, ?)",
            (packet_id, user_id, seq, amount_fen, claimed_at_ms),
        )

    def refusal(self, packet_id: int, user_id: str) -> None:
        """The user was told that there is no share for them, and there never will be one."""
        self.claim(packet_id, user_id, _REFUSED_SEQ, 0, 0)

    def of_packet(self, packet_id: int) -> Iterator[ToldClaim]:
        found = self._database.execute(
            "SELECT user_id, seq, amount_fen, claimed_at_ms FROM told WHERE packet_id = ?",
            (packet_id,),
        )
        with closing(found):
            yield from (ToldClaim._make(row) for row in found)
