"""`redpacket dead-letters`: look at what could not be booked, send it again, or give it up."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from app.ledger.claims import Rejected
from app.ledger.dead_letters import (
    DeadLetter,
    LetterState,
    find_letter,
    list_letters,
    mark_letter,
)
from app.store.database import Database

LETTERS_SHOWN: Final = 100
SHOWN_BYTES: Final = 200

# Handles the body of a letter as its queue's consumer would; returns what is refused again.
Replay = Callable[[bytes], Awaitable[Sequence[Rejected]]]


async def listed(database: Database, state: LetterState, after_id: int) -> list[dict[str, Any]]:
    letters = await list_letters(database, state, after_id, LETTERS_SHOWN)
    return [_as_json(letter, SHOWN_BYTES) for letter in letters]


async def shown(database: Database, letter_id: int) -> dict[str, Any]:
    """Raises LetterUnknown."""
    letter = await find_letter(database, letter_id)
    return _as_json(letter, len(letter.body))


async def replayed(
    database: Database, letter_id: int, replay: Replay
) -> tuple[dict[str, Any], bool]:
    """Handle a letter once more; True when nothing of it is refused. Again changes nothing."""
    letter = await find_letter(database, letter_id)
    rejected = await replay(letter.body)
    if not rejected:
        await database.transaction(lambda work: mark_letter(work, letter_id, "replayed"))
    reasons = sorted({refused.reason for refused in rejected})
    return {"id": letter_id, "booked": not rejected, "refused": reasons}, not rejected


async def discarded(database: Database, letter_id: int) -> dict[str, Any]:
    """Give a letter up. Its body is kept, and it can still be replayed."""
    await find_letter(database, letter_id)
    await database.transaction(lambda work: mark_letter(work, letter_id, "discarded"))
    return {"id": letter_id, "state": "discarded"}


def _as_json(letter: DeadLetter, body_bytes: int) -> dict[str, Any]:
    return letter._asdict() | {"body": letter.body[:body_bytes].decode(errors="backslashreplace")}
