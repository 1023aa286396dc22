"""What can never be booked, kept in MySQL with the reason until somebody decides about it."""

import logging
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple

from app.ledger.claims import Rejected
from app.store.database import Database, Transaction
from app.store.times import read_ms

log = logging.getLogger(__name__)

MAX_REASON: Final = 1000
MAX_BODY: Final = 1024 * 1024  # a message of ours has 64 KiB
LETTERS_PER_TRANSACTION: Final = 500

LetterState = Literal["waiting", "replayed", "discarded"]


class LetterUnknown(Exception):
    """There is no dead letter of this number."""


class DeadLetter(NamedTuple):
    """`times`: how often it was set aside, which is more than once where it was sent again."""

    id: int
    queue: str
    body: bytes
    reason: str
    state: LetterState
    times: int
    noted_at_ms: int


class DeadLetters:
    """The dead letters of one queue; the same letter set aside again is the same letter."""

    def __init__(self, database: Database, queue: str) -> None:
        self._database = database
        self._queue = queue

    async def put(self, rejected: Sequence[Rejected]) -> None:
        """Return when all of them are kept."""
        for first in range(0, len(rejected), LETTERS_PER_TRANSACTION):
            await self._insert(rejected[first : first + LETTERS_PER_TRANSACTION])

    async def _insert(self, rejected: Sequence[Rejected]) -> None:
        async def write(transaction: Transaction) -> None:
            sql = _UPSERT[transaction.dialect].format(now=transaction.now())
            for letter in rejected:
                digest = sha256(letter.body).digest()
                values = [self._queue, letter.body[:MAX_BODY], digest, letter.reason[:MAX_REASON]]
                await transaction.run(sql, values)

        for letter in rejected:
            log.error("dead letter: %.300s: %.300r", letter.reason, letter.body)
        await self._database.transaction(write)


async def list_letters(
    database: Database, state: LetterState, after_id: int, limit: int
) -> list[DeadLetter]:
    rows = await database.rows(
        f"SELECT {_COLUMNS} FROM dead_letter WHERE state = %s AND id > %s"
        f" ORDER BY id LIMIT {limit}",
        [state, after_id],
    )
    return [_letter(row) for row in rows]


async def find_letter(database: Database, letter_id: int) -> DeadLetter:
    """Raises LetterUnknown."""
    rows = await database.rows(f"SELECT {_COLUMNS} FROM dead_letter WHERE id = %s", [letter_id])
    if not rows:
        raise LetterUnknown(f"there is no dead letter {letter_id}")
    return _letter(rows[0])


async def mark_letter(transaction: Transaction, letter_id: int, state: LetterState) -> None:
    await transaction.run("UPDATE dead_letter SET state = %s WHERE id = %s", [state, letter_id])


def _letter(row: dict[str, Any]) -> DeadLetter:
    return DeadLetter(
        row["id"],
        row["queue"],
        bytes(row["body"]),
        row["reason"],
        row["state"],
        row["times"],
        read_ms(row["noted_at"]),
    )


_COLUMNS: Final = "id, queue, body, reason, state, times, noted_at"
_UPSERT: Final = {
    "mysql": "INSERT INTO dead_letter (queue, body, body_hash, reason, state, times, noted_at)"
    " VALUES (%s, %s, %s, %s, 'waiting', 1, {now}) ON DUPLICATE KEY UPDATE times = times + 1,"
    " reason = VALUES(reason), state = 'waiting', noted_at = VALUES(noted_at)",
    "sqlite": "INSERT INTO dead_letter (queue, body, body_hash, reason, state, times, noted_at)"
    " VALUES (%s, %s, %s, %s, 'waiting', 1, {now}) ON CONFLICT (queue, body_hash) DO UPDATE"
    " SET times = times + 1, reason = excluded.reason, state = 'waiting',"
    " noted_at = excluded.noted_at",
}
