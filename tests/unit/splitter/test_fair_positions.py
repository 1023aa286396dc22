"""Is every seq as good as any other? Fixed seeds: the numbers below are the same in every run."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from itertools import permutations
from math import sqrt
from statistics import fmean, pvariance

import pytest

from splitter.money import Fen
from splitter.split import lucky_amounts, split
from splitter.stream import words
from splitter.terms import Terms

SHARES = 10
PACKETS = 6000
# Upper 0.1 % points of chi-square by degrees of freedom.
CHI_SQUARE_LIMIT = {4: 18.47, 5: 20.52, 9: 27.88}

UNCAPPED = Terms("lucky", Fen(10_000_000), SHARES)
CAP_ABOVE_MEAN = Terms("lucky", Fen(10_000_000), SHARES, Fen(1), Fen(2_300_000))
MEAN_NEAR_CAP = Terms("lucky", Fen(10_000_000), SHARES, Fen(1000), Fen(1_250_000))
LUCKY = [UNCAPPED, CAP_ABOVE_MEAN, MEAN_NEAR_CAP]


def seed_number(number: int) -> bytes:
    return sha256(b"position test %d" % number).digest()


@cache
def packets(terms: Terms, count: int = PACKETS) -> list[Sequence[int]]:
    return [split(terms, seed_number(number)) for number in range(count)]


@cache
def unshuffled(terms: Terms) -> list[Sequence[int]]:
    return [lucky_amounts(terms, words(seed_number(number))) for number in range(PACKETS)]


def chi_square(seen: Counter[int], classes: int) -> float:
    expected = seen.total() / classes
    return sum((seen[place] - expected) ** 2 for place in range(classes)) / expected


def best_places(split_packets: list[Sequence[int]]) -> Counter[int]:
    best = Counter(amounts.index(max(amounts)) for amounts in split_packets)
    assert all(sorted(amounts)[-1] > sorted(amounts)[-2] for amounts in split_packets)
    return best


@pytest.mark.parametrize("terms", [UNCAPPED, CAP_ABOVE_MEAN])
def test_the_largest_share_is_equally_likely_at_every_seq(terms: Terms) -> None:
    assert chi_square(best_places(packets(terms)), SHARES) < CHI_SQUARE_LIMIT[SHARES - 1]


def test_the_smallest_share_is_equally_likely_at_every_seq() -> None:
    least = Counter(amounts.index(min(amounts)) for amounts in packets(MEAN_NEAR_CAP))
    assert chi_square(least, SHARES) < CHI_SQUARE_LIMIT[SHARES - 1]


def test_without_the_shuffle_the_last_draws_would_be_favoured() -> None:
    best = best_places(unshuffled(UNCAPPED))
    assert chi_square(best, SHARES) > 3 * CHI_SQUARE_LIMIT[SHARES - 1]
    assert best[SHARES - 1] > 1.25 * best[0]


@pytest.mark.parametrize("terms", LUCKY)
def test_every_seq_has_the_same_mean(terms: Terms) -> None:
    mean = terms.total_fen / SHARES
    for at_seq in zip(*packets(terms), strict=True):
        standard_error = sqrt(pvariance(at_seq) / PACKETS)
        assert abs(fmean(at_seq) - mean) < 4 * standard_error


@pytest.mark.parametrize("terms", LUCKY)
def test_every_seq_has_the_same_variance(terms: Terms) -> None:
    by_seq = [pvariance(at_seq) for at_seq in zip(*packets(terms), strict=True)]
    for variance in by_seq:
        assert abs(variance / fmean(by_seq) - 1) < 0.06


@pytest.mark.parametrize("terms", LUCKY)
def test_every_draw_expects_the_mean_even_before_the_shuffle(terms: Terms) -> None:
    mean = terms.total_fen / SHARES
    for at_draw in zip(*unshuffled(terms), strict=True):
        standard_error = sqrt(pvariance(at_draw) / PACKETS)
        assert abs(fmean(at_draw) - mean) < 4 * standard_error


@pytest.mark.parametrize("terms", LUCKY)
def test_the_first_draw_is_uniform_around_the_mean(terms: Terms) -> None:
    mean = terms.total_fen / SHARES
    reach = min(mean - terms.min_fen, (terms.cap_fen or terms.total_fen) - mean)
    first = [amounts[0] for amounts in unshuffled(terms)]
    assert mean - reach - 1 <= min(first) < mean - 0.99 * reach
    assert mean + 0.99 * reach < max(first) <= mean + reach + 1
    fifths = Counter(int((amount - mean + reach) * 4.9999 / (2 * reach)) for amount in first)
    assert chi_square(fifths, 5) < CHI_SQUARE_LIMIT[4]


def test_shares_do_not_pile_up_at_the_cap() -> None:
    at_cap = sum(amounts.count(1_250_000) for amounts in packets(MEAN_NEAR_CAP))
    assert at_cap < PACKETS * SHARES // 1000


def test_two_shares_of_six_fen_split_every_way_equally_often() -> None:
    firsts = Counter(amounts[0] - 1 for amounts in packets(Terms("lucky", Fen(6), 2)))
    assert firsts.keys() == set(range(5))
    assert chi_square(firsts, 5) < CHI_SQUARE_LIMIT[4]


def test_two_capped_shares_split_every_allowed_way_equally_often() -> None:
    terms = Terms("lucky", Fen(16), 2, Fen(2), Fen(10))
    firsts = Counter(amounts[0] - 6 for amounts in packets(terms))
    assert firsts.keys() == set(range(5))
    assert chi_square(firsts, 5) < CHI_SQUARE_LIMIT[4]


def test_every_order_is_equally_likely() -> None:
    """0, 1 and 2 fen above the minimum come in six orders, each one sixth of such packets."""
    orders = {order: at for at, order in enumerate(permutations((1, 2, 3)))}
    drawn = [tuple(amounts) for amounts in packets(Terms("lucky", Fen(6), 3), 12_000)]
    seen = Counter(orders[order] for order in drawn if order in orders)
    assert seen.total() > PACKETS
    assert chi_square(seen, 6) < CHI_SQUARE_LIMIT[5]


def test_the_odd_fen_of_an_equal_packet_go_to_every_seq_alike() -> None:
    """100 fen for 18: ten shares of six, so each seq has one with probability 10/18."""
    chance = 10 / 18
    four_deviations = 4 * sqrt(PACKETS * chance * (1 - chance))
    for at_seq in zip(*packets(Terms("equal", Fen(100), 18)), strict=True):
        assert abs(at_seq.count(6) - PACKETS * chance) < four_deviations
