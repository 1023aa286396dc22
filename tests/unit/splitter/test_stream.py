from collections import Counter
from hashlib import sha256
from itertools import islice
from typing import Any

import pytest

from splitter.stream import BadSeed, below, below_after, words

SEED = bytes(range(32))


def test_words_are_the_hashes_of_domain_seed_and_counter() -> None:
    blocks = [
        sha256(b"redpacket-rng-1" + SEED + bytes(4) + counter.to_bytes(4, "big")).digest()
        for counter in range(2000)
    ]
    expected = [
        int.from_bytes(block[at : at + 4], "big") for block in blocks for at in range(0, 32, 4)
    ]
    assert list(islice(words(SEED), len(expected))) == expected


@pytest.mark.parametrize("seed", [b"", bytes(31), bytes(33), bytearray(32), "0" * 32, None])
def test_a_seed_is_exactly_32_bytes(seed: Any) -> None:
    with pytest.raises(BadSeed, match="exactly 32 bytes"):
        words(seed)


@pytest.mark.parametrize(
    ("bound", "drawn", "result", "left"),
    [
        (1, [7, 5], 0, [5]),
        (10, [4294967289, 5], 9, [5]),
        # 2**32 mod 10 is 6: the last six words would favour the digits 0 to 5.
        (10, [4294967290, 4294967295, 3], 3, []),
        (2**31 + 1, [2**31 + 1, 2**32 - 1, 2**31], 2**31, []),
        (2**32, [2**32 - 1], 2**32 - 1, []),
        # Above one word: 21 bits of the first, all of the second.
        (2**32 + 1, [2**32 - 2**21 + 1, 5], 4, []),
        (10**12, [0, 5, 6], 5, [6]),
        (2**52 + 1, [2**20, 1, 2**21 - 1, 2**32 - 1, 2**20, 0], 2**52, []),
        (2**53, [2**32 - 1, 2**32 - 1], 2**53 - 1, []),
    ],
)
def test_draws_that_would_favour_small_results_are_drawn_again(
    bound: int, drawn: list[int], result: int, left: list[int]
) -> None:
    stream = iter(drawn)
    assert below(bound, stream) == result
    assert list(stream) == left


@pytest.mark.parametrize("bound", [3, 2**31 + 1, 2**32 + 1])
def test_a_word_already_taken_is_used_first(bound: int) -> None:
    whole, taken = words(SEED), words(SEED)
    expected = below(bound, whole)
    assert below_after(next(taken), bound, taken) == expected
    assert next(whole) == next(taken)


@pytest.mark.parametrize("bound", [-1, 0, 2**53 + 1])
def test_bounds_that_no_draw_can_serve_are_refused(bound: int) -> None:
    with pytest.raises(ValueError, match="is not between"):
        below(bound, words(SEED))


@pytest.mark.parametrize("unit", [1, 3 * 2**28, 2**40])
def test_every_result_is_equally_likely(unit: int) -> None:
    """Chi-square of five equal classes against uniform: 4 degrees, 18.47 is p = 0.001."""
    stream, draws, classes = words(SEED), 10_000, 5
    seen = Counter(below(classes * unit, stream) // unit for _ in range(draws))
    expected = draws // classes
    assert sum((seen[n] - expected) ** 2 for n in range(classes)) < 18.47 * expected
