"""What can never be booked is rejected with its reason, alone; its neighbours are booked."""

import pytest

from app.ledger.claims import Claim, parse_claims
from tests.integration.store.books import Books, claim

GOOD = [claim(1, 2, "bob", 20), claim(1, 4, "dan", 30)]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (claim(1, 1, "eve", 10), "not an amount of the split; booked is (1, 'ann', 10)"),
        (claim(1, 3, "ann", 10), "not an amount of the split; booked is (1, 'ann', 10)"),
        (claim(1, 1, "ann", 11), "not an amount of the split; booked is (1, 'ann', 10)"),
        (claim(1, 2, "eve", 20), "not an amount of the split; booked is (2, 'bob', 20)"),
        (claim(9, 1, "eve", 10), "unknown packet"),
        (claim(1, 3, "eve", 900), "not an amount of the split; 70 fen in 3 shares are left"),
        (claim(1, 6, "eve", 1), "the packet has 5 shares"),
    ],
    ids=["seq", "user", "amount", "batch", "packet", "overdrawn", "beyond"],
)
async def test_only_the_claim_at_fault_is_rejected(books: Books, bad: Claim, reason: str) -> None:
    await books.fund(1, 100, 5)
    await books.fund(2, 100, 1)
    assert await books.book([claim(1, 1, "ann", 10)]) == []
    neighbours = [*GOOD, claim(2, 1, "eve", 100)]
    sent = sorted([*neighbours, bad], key=lambda each: each.user_id)

    [rejected] = await books.book(sent)

    assert rejected.reason == reason
    assert parse_claims(rejected.body) == ([bad], [])
    booked = (await books.snapshot()).claims
    assert booked == [
        (1, 1, "ann", 10),
        (1, 2, "bob", 20),
        (1, 4, "dan", 30),
        (2, 1, "eve", 100),
    ]


async def test_a_rejected_claim_is_rejected_again_and_changes_nothing(books: Books) -> None:
    await books.fund(1, 100, 5)
    await books.book([claim(1, 1, "ann", 10)])
    before = await books.snapshot()

    for _ in range(2):
        [rejected] = await books.book([claim(1, 1, "ann", 10), claim(1, 1, "eve", 10)])
        assert rejected.reason == "not an amount of the split; booked is (1, 'ann', 10)"

    assert await books.snapshot() == before


async def test_a_packet_pays_out_its_last_fen_and_not_one_more(books: Books) -> None:
    await books.fund(1, 100, 3)
    await books.book([claim(1, 1, "ann", 60), claim(1, 2, "bob", 40)])

    [rejected] = await books.book([claim(1, 3, "eve", 1)])

    assert rejected.reason == "not an amount of the split; 0 fen in 1 shares are left"
    assert (await books.snapshot()).packets == {1: (0, 1)}


async def test_user_ids_that_differ_in_case_only_are_two_users(books: Books) -> None:
    await books.fund(1, 100, 3)

    assert await books.book([claim(1, 1, "Ann", 60), claim(1, 2, "ann", 40)]) == []

    assert (await books.snapshot()).balances["user:Ann"] == 60
