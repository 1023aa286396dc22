"""Requests with an Idempotency-Key: the same request again leads to the same subject, once."""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple, NewType

from app.store.database import Transaction
from app.store.times import to_sql
from lua.ids import UserId

RequestHash = NewType("RequestHash", bytes)


class IdempotencyKeyReused(Exception):
    """The key was used before, for another request."""


class Remembered(NamedTuple):
    subject: str
    is_new: bool


def request_hash(parts: Sequence[object]) -> RequestHash:
    """What tells two requests apart."""
    return RequestHash(sha256(repr(tuple(parts)).encode()).digest())


async def remember_request(
    transaction: Transaction,
    user_id: UserId,
    key: str,
    request: RequestHash,
    subject: str,
    at_ms: int,
) -> Remembered:
    """Tie `key` to `subject`, or tell which subject it was tied to. Raises IdempotencyKeyReused.

    Of two requests at once the later waits here for the earlier one's COMMIT.
    """
    inserted = await transaction.run(
        _INSERT[transaction.dialect], [user_id, key, request, subject, to_sql(at_ms)]
    )
    if inserted == 1:
        return Remembered(subject, is_new=True)
    subject_before = await recall_request(transaction, user_id, key, request)
    if subject_before is None:
        raise AssertionError(f"idempotency key {key!r} is taken, and is not there")
    return Remembered(subject_before, is_new=False)


async def recall_request(
    transaction: Transaction, user_id: UserId, key: str, request: RequestHash
) -> str | None:
    """The subject that `key` is tied to; None for a new key. Raises IdempotencyKeyReused."""
    rows = await transaction.rows(
        "SELECT request_hash, subject FROM idempotency WHERE user_id = %s AND `key` = %s",
        [user_id, key],
    )
    if not rows:
        return None
    if bytes(rows[0]["request_hash"]) != request:
        raise IdempotencyKeyReused(key)
    return str(rows[0]["subject"])


_INSERT = {
    "mysql": "INSERT INTO idempotency (user_id, `key`, request_hash, subject, created_at)"
    " VALUES (%s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE subject = subject",
    "sqlite": "INSERT INTO idempotency (user_id, key, request_hash, subject, created_at)"
    " VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
}
