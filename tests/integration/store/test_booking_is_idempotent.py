"""Whatever is sent again, in whatever order and batches, is booked once."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.ledger.claims import Claim
from lua.ids import PacketId
from tests.integration.store.books import AT_MS, Books, claim

_packet_numbers = itertools.count(1)


@st.composite
def packets(draw: st.DrawFn) -> list[list[Claim]]:
    """Claims of one to three packets; a user may win in several, but once in each."""
    users = [f"user{number}" for number in range(8)]
    of_packets = []
    for _ in range(draw(st.integers(1, 3))):
        winners = draw(st.permutations(users))[: draw(st.integers(1, 8))]
        amounts = draw(st.lists(st.integers(1, 999), min_size=8, max_size=8))
        of_packets.append(
            [
                claim(0, seq, user, amounts[seq - 1], AT_MS + draw(st.integers(0, 5000)))
                for seq, user in enumerate(winners, start=1)
            ]
        )
    return of_packets


@given(drawn=packets(), data=st.data())
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_any_redelivery_order_and_cut_into_batches_books_the_same(
    books: Books, drawn: list[list[Claim]], data: st.DataObject
) -> None:
    packet_ids = [next(_packet_numbers) for _ in drawn]
    claims = []
    for packet_id, of_packet in zip(packet_ids, drawn, strict=True):
        # The last shares stay unclaimed, so that some packets end with money left.
        spare = data.draw(st.integers(0, 2))
        total_fen = sum(each.amount_fen for each in of_packet) + spare * 7
        await books.fund(packet_id, total_fen, len(of_packet) + spare)
        claims += [each._replace(packet_id=PacketId(packet_id)) for each in of_packet]
    before = await books.snapshot()

    for batch in _batches(claims, data):
        assert await books.book(batch) == []

    after = await books.snapshot(packet_ids)
    assert after.claims == [(c.packet_id, c.seq, c.user_id, c.amount_fen) for c in sorted(claims)]
    paid = Counter[int]()
    owed = Counter[str]()
    for each in claims:
        paid[each.packet_id] += each.amount_fen
        owed[f"user:{each.user_id}"] += each.amount_fen
        owed[f"packet:{each.packet_id}"] -= each.amount_fen
        reference = f"claim:{each.packet_id}:{each.seq}"
        assert after.entries[reference] == (f"user:{each.user_id}", each.amount_fen)
    moved = {
        account: balance_fen - before.balances.get(account, 0)
        for account, balance_fen in after.balances.items()
    }
    assert {account: fen for account, fen in moved.items() if fen} == dict(owed)
    for packet_id, (remaining_fen, remaining_shares) in after.packets.items():
        assert remaining_fen == after.balances[f"packet:{packet_id}"]
        assert remaining_shares == before.packets[packet_id][1] - sum(
            each.packet_id == packet_id for each in claims
        )
    assert _escrow_sums(after.entries, packet_ids) == {
        packet_id: -paid[packet_id] for packet_id in packet_ids
    }


def _batches(claims: Sequence[Claim], data: st.DataObject) -> list[list[Claim]]:
    """All claims, some of them several times, in any order, cut anywhere."""
    sent = data.draw(st.lists(st.sampled_from(claims), max_size=20), label="repeats")
    sent = data.draw(st.permutations([*sent, *claims]), label="order")
    cuts = sorted(data.draw(st.sets(st.integers(1, len(sent)), max_size=6), label="cuts"))
    return [sent[start:end] for start, end in itertools.pairwise([0, *cuts, len(sent)])]


def _escrow_sums(
    entries: dict[str, tuple[str, int]], packet_ids: Sequence[int]
) -> defaultdict[int, int]:
    sums: defaultdict[int, int] = defaultdict(int)
    for reference, (account, amount_fen) in entries.items():
        kind, _, number = account.partition(":")
        if kind == "packet" and reference.startswith("claims:") and int(number) in packet_ids:
            sums[int(number)] += amount_fen
    return sums


async def test_an_empty_batch_books_nothing(books: Books) -> None:
    await books.fund(1, 100, 2)
    before = await books.snapshot()

    assert await books.book([]) == []

    assert await books.snapshot() == before


async def test_a_claim_that_comes_again_with_another_time_keeps_the_first(books: Books) -> None:
    await books.fund(1, 100, 2)
    await books.book([claim(1, 1, "ann", 60, AT_MS)])

    assert await books.book([claim(1, 1, "ann", 60, AT_MS + 9000)]) == []

    assert (await books.snapshot()).claims == [(1, 1, "ann", 60)]
