"""Commit to a split before the first grab, and check it afterwards (docs/fairness.md)."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import zip_longest

from splitter.money import Fen
from splitter.split import split
from splitter.stream import SEED_BYTES, check_seed
from splitter.terms import Terms


@dataclass(frozen=True, slots=True)
class Verification:
    """What a check found; the last three fields describe the first differing share, if any."""

    commitment_matches: bool
    first_differing_seq: int | None = None
    expected_fen: Fen | None = None
    given_fen: Fen | None = None

    @property
    def amounts_match(self) -> bool:
        return self.first_differing_seq is None

    @property
    def ok(self) -> bool:
        return self.commitment_matches and self.amounts_match


def new_seed() -> bytes:
    """32 bytes from the operating system: the only input of a split that cannot be repeated."""
    return secrets.token_bytes(SEED_BYTES)


def commitment(seed: bytes, terms: Terms) -> bytes:
    """32 bytes to publish before the first grab: SHA-256(seed || canonical terms)."""
    return sha256(check_seed(seed) + terms.canonical()).digest()


def verify(
    seed: bytes, terms: Terms, published_commitment: bytes, amounts: Sequence[int]
) -> Verification:
    """Compare what was published with what seed and terms give; amounts in seq order from 1.

    `expected_fen` is None where an amount too many was given, `given_fen` where one is missing.
    """
    commitment_matches = commitment(seed, terms) == published_commitment
    pairs = zip_longest(split(terms, seed), amounts)
    for seq, (expected_fen, given) in enumerate(pairs, start=1):
        if type(given) is not int or given != expected_fen:
            given_fen = None if given is None else Fen(given)
            return Verification(commitment_matches, seq, expected_fen, given_fen)
    return Verification(commitment_matches)
