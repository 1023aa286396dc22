"""Random numbers that anyone holding the seed can recompute (docs/fairness.md, section 4)."""

import struct
from collections.abc import Iterator
from hashlib import sha256
from itertools import chain
from typing import Final

SEED_BYTES: Final = 32
# 15 + 32 + 8 bytes are the longest message that SHA-256 digests in a single compression.
STREAM_DOMAIN: Final = b"redpacket-rng-1"
WORD_RANGE: Final = 1 << 32
# Two words give 53 bits, not 64, so that a JavaScript Number holds every value exactly.
WIDE_RANGE: Final = 1 << 53

_WORDS_PER_BLOCK: Final = 8
_WIDE_HIGH_MASK: Final = (1 << 21) - 1
_FIRST_BATCH_BLOCKS: Final = 4
_LARGEST_BATCH_BLOCKS: Final = 512


class BadSeed(ValueError):
    """A seed is exactly 32 bytes."""


def check_seed(seed: bytes) -> bytes:
    if type(seed) is not bytes or len(seed) != SEED_BYTES:
        raise BadSeed(BadSeed.__doc__)
    return seed


def words(seed: bytes) -> Iterator[int]:
    """The endless stream of 32-bit words of a seed."""
    return chain.from_iterable(_batches(STREAM_DOMAIN + check_seed(seed)))


def below(bound: int, stream: Iterator[int]) -> int:
    """A uniform integer in [0, bound): one word a try up to 2**32, two words above."""
    if not 1 <= bound <= WIDE_RANGE:
        raise ValueError(f"bound {bound} is not between 1 and 2**53")
    wide = bound > WORD_RANGE
    last_whole = (WIDE_RANGE if wide else WORD_RANGE) - bound
    while True:
        drawn = next(stream)
        if wide:
            drawn = (drawn & _WIDE_HIGH_MASK) << 32 | next(stream)
        value = drawn % bound
        if drawn - value <= last_whole:
            return value


def below_after(word: int, bound: int, stream: Iterator[int]) -> int:
    """`below`, for a caller that has already taken the first word off the stream."""
    return below(bound, chain((word,), stream))


def _batches(prefix: bytes) -> Iterator[tuple[int, ...]]:
    # Batches grow: a packet of one share hashes little, a packet of a million unpacks in bulk.
    start, blocks = 0, _FIRST_BATCH_BLOCKS
    while True:
        counters = range(start, start + blocks)
        hashed = b"".join([sha256(prefix + n.to_bytes(8, "big")).digest() for n in counters])
        yield struct.unpack(f">{blocks * _WORDS_PER_BLOCK}I", hashed)
        start += blocks
        blocks = min(blocks * 2, _LARGEST_BATCH_BLOCKS)
