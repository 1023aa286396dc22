"""Dead letters as rows: kept once however often they are set aside, listed page by page."""

import pytest

from app.ledger.claims import Rejected
from app.ledger.dead_letters import DeadLetters, LetterUnknown, find_letter, list_letters
from app.store.database import Database

BODY = b"\x00\xff'\"%s\\"


async def test_the_same_letter_set_aside_again_is_the_same_letter(database: Database) -> None:
    letters = DeadLetters(database, "a")
    for reason in ("first", "第二"):
        await letters.put([Rejected(BODY, reason)])
    await DeadLetters(database, "b").put([Rejected(BODY, "other")])

    first, other = await list_letters(database, "waiting", 0, 10)

    assert (first.queue, first.body, first.reason, first.times) == ("a", BODY, "第二", 2)
    assert (other.queue, other.times) == ("b", 1)
    assert await find_letter(database, first.id) == first


async def test_they_are_listed_page_by_page(database: Database) -> None:
    bodies = [b"%d" % number for number in range(250)]
    await DeadLetters(database, "a").put([Rejected(body, "") for body in bodies])

    listed, after_id = [], 0
    while page := await list_letters(database, "waiting", after_id, 100):
        assert len(page) <= 100
        listed += [letter.body for letter in page]
        after_id = page[-1].id

    assert listed == bodies


async def test_one_that_is_not_there_is_unknown(database: Database) -> None:
    with pytest.raises(LetterUnknown):
        await find_letter(database, 7)
