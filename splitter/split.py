"""Terms and a seed in, the amount of every share out (docs/fairness.md, sections 5 to 7)."""

from array import array
from collections.abc import Iterator
from typing import assert_never, cast

from splitter.money import Fen
from splitter.stream import WORD_RANGE, below_after, words
from splitter.terms import Terms


def split(terms: Terms, seed: bytes) -> list[Fen]:
    """Amounts by seq (index 0 is seq 1): they sum to the total, each in [min_fen, cap_fen]."""
    stream = words(seed)
    match terms.kind:
        case "lucky":
            amounts = lucky_amounts(terms, stream)
        case "equal":
            amounts = equal_amounts(terms)
        case _:
            assert_never(terms.kind)
    shuffle(amounts, stream)
    shares = amounts.tolist()
    # The same facts as the terms promise, checked a second time from the other side.
    assert len(shares) == terms.shares
    assert sum(shares) == terms.total_fen
    return cast(list[Fen], shares)


def lucky_amounts(terms: Terms, stream: Iterator[int]) -> "array[int]":
    """Amounts in drawing order, by double mean; later draws vary more, hence the shuffle."""
    amounts = array("q")
    append = amounts.append
    word_range = WORD_RANGE
    min_fen, cap_fen = terms.min_fen, terms.cap_fen or terms.total_fen
    width = cap_fen - min_fen
    width_bound = width + 1
    spare = terms.total_fen - min_fen * terms.shares
    for left, word in zip(range(terms.shares, 1, -1), stream, strict=False):
        bound = (spare + spare) // left + 1
        # A word with word + bound <= 2**32 is accepted whatever its remainder is.
        if bound <= width_bound:
            fits = word + bound <= word_range
            extra = word % bound if fits else below_after(word, bound, stream)
        else:
            bound = 2 * (width * left - spare) // left + 1
            fits = word + bound <= word_range
            extra = width - (word % bound if fits else below_after(word, bound, stream))
        spare -= extra
        append(min_fen + extra)
    append(min_fen + spare)
    return amounts


def equal_amounts(terms: Terms) -> "array[int]":
    """Amounts that differ by at most one fen, the larger ones first."""
    base, odd = divmod(terms.total_fen, terms.shares)
    return array("q", [base + 1]) * odd + array("q", [base]) * (terms.shares - odd)


def shuffle(amounts: "array[int]", stream: Iterator[int]) -> None:
    """Fisher-Yates in place, from the last seq down; every order is equally likely."""
    surely_whole = WORD_RANGE - len(amounts)
    for last, word in zip(range(len(amounts) - 1, 0, -1), stream, strict=False):
        bound = last + 1
        other = word % bound if word <= surely_whole else below_after(word, bound, stream)
        amounts[last], amounts[other] = amounts[other], amounts[last]
