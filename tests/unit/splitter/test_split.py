from array import array
from collections.abc import Iterator
from hashlib import sha256
from itertools import product
from typing import Literal, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splitter.money import MAX_SHARES, MAX_TOTAL_FEN, Fen
from splitter.split import equal_amounts, lucky_amounts, split
from splitter.stream import BadSeed, below, words
from splitter.terms import ImpossibleTerms, Kind, Terms

KINDS: tuple[Kind, Kind] = ("lucky", "equal")
SEED = bytes(range(32))
repeatable = settings(derandomize=True, database=None, deadline=None, max_examples=200)
seeds = st.binary(min_size=32, max_size=32)


def seed_number(number: int) -> bytes:
    return sha256(b"split test %d" % number).digest()


def assert_kept(terms: Terms, amounts: list[Fen]) -> None:
    assert len(amounts) == terms.shares
    assert sum(amounts) == terms.total_fen
    assert min(amounts) >= terms.min_fen
    assert max(amounts) <= (terms.cap_fen or terms.total_fen)
    if terms.kind == "equal":
        assert max(amounts) - min(amounts) <= 1


@st.composite
def possible_terms(draw: st.DrawFn, kind: Kind | None = None) -> Terms:
    shares = draw(st.integers(1, 5) | st.integers(1, 600))
    most = MAX_TOTAL_FEN // shares
    min_fen = draw(st.integers(1, 100) | st.integers(1, most))
    cap_fen = draw(st.none() | st.integers(min_fen, min_fen + 100) | st.integers(min_fen, 10**12))
    room = min(MAX_TOTAL_FEN, (cap_fen or MAX_TOTAL_FEN) * shares)
    least = min_fen * shares
    total = draw(st.integers(least, min(room, least + 1000)) | st.integers(least, room))
    cap = None if cap_fen is None else Fen(min(cap_fen, MAX_TOTAL_FEN))
    chosen = draw(st.sampled_from(KINDS)) if kind is None else kind
    return Terms(chosen, Fen(total), shares, Fen(min_fen), cap)


def from_the_rules(terms: Terms, seed: bytes) -> list[int]:
    """docs/fairness.md word for word, without any of the package's short cuts."""
    stream, amounts = words(seed), list[int]()
    if terms.kind == "lucky":
        width = (terms.cap_fen or terms.total_fen) - terms.min_fen
        spare = terms.total_fen - terms.min_fen * terms.shares
        for left in range(terms.shares, 1, -1):
            if 2 * spare // left <= width:
                extra = below(2 * spare // left + 1, stream)
            else:
                extra = width - below(2 * (width * left - spare) // left + 1, stream)
            spare -= extra
            amounts.append(terms.min_fen + extra)
        amounts.append(terms.min_fen + spare)
    else:
        base, odd = divmod(terms.total_fen, terms.shares)
        amounts = [base + (at < odd) for at in range(terms.shares)]
    for last in range(terms.shares - 1, 0, -1):
        other = below(last + 1, stream)
        amounts[last], amounts[other] = amounts[other], amounts[last]
    return amounts


def sums_of(shares: int, min_fen: int, cap_fen: int) -> set[int]:
    sums = {0}
    for _ in range(shares):
        sums = {so_far + amount for so_far in sums for amount in range(min_fen, cap_fen + 1)}
    return sums


@pytest.mark.parametrize("kind", KINDS)
def test_every_small_packet_is_split_within_its_terms_or_refused(kind: Kind) -> None:
    split_count = refused_count = 0
    caps = (None, *range(1, 16))
    for shares, min_fen, cap_fen in product(range(1, 9), range(1, 16), caps):
        possible = sums_of(shares, min_fen, min(cap_fen or 15, 15))
        for total in range(1, 15):
            cap = None if cap_fen is None else Fen(cap_fen)
            try:
                terms = Terms(kind, Fen(total), shares, Fen(min_fen), cap)
            except ImpossibleTerms:
                refused_count += 1
                assert total not in possible
            else:
                split_count += 1
                assert total in possible
                assert_kept(terms, split(terms, SEED))
    assert (split_count, refused_count) == (2683, 24197)


@repeatable
@given(terms=possible_terms(), seed=seeds)
def test_any_packet_is_split_within_its_terms(terms: Terms, seed: bytes) -> None:
    assert_kept(terms, split(terms, seed))


@repeatable
@given(terms=possible_terms(), seed=seeds)
def test_short_cuts_change_no_amount(terms: Terms, seed: bytes) -> None:
    assert split(terms, seed) == from_the_rules(terms, seed)


@repeatable
@given(terms=possible_terms(kind="lucky"), seed=seeds)
def test_every_draw_leaves_room_for_the_shares_to_come(terms: Terms, seed: bytes) -> None:
    remaining, cap_fen = int(terms.total_fen), terms.cap_fen or terms.total_fen
    drawn = lucky_amounts(terms, words(seed))
    for left, amount in zip(range(terms.shares, 0, -1), drawn, strict=True):
        lowest = max(terms.min_fen, remaining - cap_fen * (left - 1))
        highest = min(cap_fen, remaining - terms.min_fen * (left - 1))
        assert lowest <= amount <= highest
        remaining -= amount
    assert remaining == 0


@repeatable
@given(terms=possible_terms(), seed=seeds)
def test_same_terms_and_seed_give_the_same_amounts(terms: Terms, seed: bytes) -> None:
    assert split(terms, seed) == split(terms, seed)


@repeatable
@given(terms=possible_terms(kind="lucky"), seed=seeds)
def test_a_cap_no_share_can_reach_changes_nothing(terms: Terms, seed: bytes) -> None:
    uncapped = Terms("lucky", terms.total_fen, terms.shares, terms.min_fen)
    best_possible = Fen(terms.total_fen - terms.min_fen * (terms.shares - 1))
    loose = Terms("lucky", terms.total_fen, terms.shares, terms.min_fen, best_possible)
    assert split(loose, seed) == split(uncapped, seed)


@pytest.mark.parametrize("seed", [b"", SEED[:-1], SEED + b"\0", SEED.hex()])
def test_split_refuses_a_seed_of_another_length(seed: object) -> None:
    for kind in KINDS:
        with pytest.raises(BadSeed):
            split(Terms(kind, Fen(100), 10), cast(bytes, seed))


def test_equal_packet_spreads_the_odd_fen() -> None:
    amounts = split(Terms("equal", Fen(100), 18), SEED)
    assert sorted(amounts) == [5] * 8 + [6] * 10


def test_equal_packet_of_one_fen_a_share_is_all_ones() -> None:
    assert split(Terms("equal", Fen(100), 100), SEED) == [1] * 100


def test_equal_amounts_start_with_the_larger_ones_before_the_shuffle() -> None:
    assert equal_amounts(Terms("equal", Fen(11), 4)) == array("q", [3, 3, 3, 2])


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_fen_than_shares_are_refused(kind: Kind) -> None:
    with pytest.raises(ImpossibleTerms):
        Terms(kind, Fen(10), 15)


def test_one_yuan_for_ten_holds_for_ten_thousand_seeds() -> None:
    terms = Terms("lucky", Fen(100), 10)
    packets = [split(terms, seed_number(number)) for number in range(10_000)]
    for amounts in packets:
        assert len(amounts) == 10
        assert sum(amounts) == 100
        assert min(amounts) >= 1
    assert len(set(map(tuple, packets))) == 10_000
    assert max(map(max, packets)) <= 91


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shares", [1, 2, 7, 1000])
def test_a_total_of_cap_times_shares_gives_everybody_the_cap(kind: Kind, shares: int) -> None:
    terms = Terms(kind, Fen(88 * shares), shares, Fen(1), Fen(88))
    assert split(terms, SEED) == [88] * shares


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("total", [1, 2, 321, 10**12])
def test_a_single_share_is_the_whole_total(kind: Kind, total: int) -> None:
    assert split(Terms(kind, Fen(total), 1), SEED) == [total]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shares", [1, 2, 3, 10, 1000])
def test_one_fen_more_than_shares_gives_one_share_of_two(kind: Kind, shares: int) -> None:
    amounts = split(Terms(kind, Fen(shares + 1), shares), SEED)
    assert sorted(amounts) == [1] * (shares - 1) + [2]


@pytest.mark.parametrize("kind", KINDS)
def test_two_fen_for_two_is_one_each(kind: Kind) -> None:
    assert split(Terms(kind, Fen(2), 2), SEED) == [1, 1]


def test_twelve_fen_for_ten_reaches_every_possible_outcome() -> None:
    terms = Terms("lucky", Fen(12), 10)
    outcomes = {tuple(split(terms, seed_number(number))) for number in range(2000)}
    # One share of three, or two shares of two, at any seq.
    assert len(outcomes) == 10 + 45
    assert {tuple(sorted(o)) for o in outcomes} == {(1,) * 9 + (3,), (1,) * 8 + (2, 2)}


@pytest.mark.parametrize(
    ("kind", "total", "cap"),
    [
        ("lucky", 10**12, None),
        ("lucky", 15 * 10**6, 20),
        ("equal", 10**6 + 1, None),
    ],
)
def test_a_million_shares_keep_their_terms(
    kind: Literal["lucky", "equal"], total: int, cap: int | None
) -> None:
    terms = Terms(kind, Fen(total), MAX_SHARES, Fen(1), None if cap is None else Fen(cap))
    assert_kept(terms, split(terms, SEED))


@pytest.mark.parametrize("shares", [1, 2, 3, 117, 233, 466, 5000])
def test_the_largest_total_is_split_to_the_fen(shares: int) -> None:
    for kind in KINDS:
        terms = Terms(kind, MAX_TOTAL_FEN, shares)
        amounts = split(terms, SEED)
        assert_kept(terms, amounts)
        assert amounts == from_the_rules(terms, SEED)


def test_shuffle_goes_on_where_the_draws_stopped() -> None:
    terms, stream = Terms("lucky", Fen(10_000), 50), words(SEED)
    drawn = lucky_amounts(terms, stream)
    rest: Iterator[int] = stream
    for last in range(49, 0, -1):
        other = below(last + 1, rest)
        drawn[last], drawn[other] = drawn[other], drawn[last]
    assert split(terms, SEED) == drawn.tolist()
