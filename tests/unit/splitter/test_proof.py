from hashlib import sha256

import pytest

from splitter.money import Fen
from splitter.proof import Verification, commitment, new_seed, verify
from splitter.split import split
from splitter.stream import BadSeed
from splitter.terms import Terms

TERMS = Terms("lucky", Fen(10_000), 10)
SEED = bytes(range(32))
PUBLISHED = commitment(SEED, TERMS)
AMOUNTS = split(TERMS, SEED)


def test_commitment_is_the_hash_of_seed_and_canonical_terms() -> None:
    assert sha256(SEED + b"redpacket-terms 1 lucky 10000 10 1 -").digest() == PUBLISHED


def test_commitment_changes_with_every_term_and_with_the_seed() -> None:
    others = [
        commitment(bytes(32), TERMS),
        commitment(SEED, Terms("equal", Fen(10_000), 10)),
        commitment(SEED, Terms("lucky", Fen(10_001), 10)),
        commitment(SEED, Terms("lucky", Fen(10_000), 11)),
        commitment(SEED, Terms("lucky", Fen(10_000), 10, Fen(2))),
        commitment(SEED, Terms("lucky", Fen(10_000), 10, Fen(1), Fen(10_000))),
    ]
    assert len({PUBLISHED, *others}) == 7


def test_an_honest_packet_is_verified() -> None:
    found = verify(SEED, TERMS, PUBLISHED, AMOUNTS)
    assert found == Verification(commitment_matches=True)
    assert found.ok
    assert found.amounts_match


@pytest.mark.parametrize("published", [b"", bytes(32), PUBLISHED[:-1], PUBLISHED + b"\0"])
def test_a_wrong_commitment_is_told_apart_from_wrong_amounts(published: bytes) -> None:
    found = verify(SEED, TERMS, published, AMOUNTS)
    assert not found.ok
    assert not found.commitment_matches
    assert found.amounts_match


@pytest.mark.parametrize("seq", range(1, 11))
def test_the_first_differing_seq_is_named(seq: int) -> None:
    wrong = [amount + (at >= seq) for at, amount in enumerate(AMOUNTS, start=1)]
    found = verify(SEED, TERMS, PUBLISHED, wrong)
    right = AMOUNTS[seq - 1]
    assert found == Verification(True, seq, right, Fen(right + 1))
    assert not found.ok
    assert not found.amounts_match


def test_two_amounts_that_changed_places_differ() -> None:
    swapped = [AMOUNTS[1], AMOUNTS[0], *AMOUNTS[2:]]
    found = verify(SEED, TERMS, PUBLISHED, swapped)
    assert (found.first_differing_seq, found.given_fen) == (1, AMOUNTS[1])


def test_a_missing_amount_differs_with_nothing_given() -> None:
    found = verify(SEED, TERMS, PUBLISHED, AMOUNTS[:7])
    assert found == Verification(True, 8, AMOUNTS[7], None)
    assert verify(SEED, TERMS, PUBLISHED, []).first_differing_seq == 1


def test_an_amount_too_many_differs_with_nothing_expected() -> None:
    found = verify(SEED, TERMS, PUBLISHED, [*AMOUNTS, 0])
    assert found == Verification(True, 11, None, Fen(0))


def test_an_amount_that_only_equals_an_integer_differs() -> None:
    floats: list[int] = [float(amount) for amount in AMOUNTS]  # type: ignore[misc]
    assert verify(SEED, TERMS, PUBLISHED, floats).first_differing_seq == 1


def test_another_seed_verifies_neither_commitment_nor_amounts() -> None:
    found = verify(bytes(32), TERMS, PUBLISHED, AMOUNTS)
    assert not found.commitment_matches
    assert not found.amounts_match


def test_a_seed_of_another_length_has_no_commitment() -> None:
    with pytest.raises(BadSeed):
        commitment(SEED[:-1], TERMS)


def test_new_seeds_are_32_bytes_and_never_repeat() -> None:
    seeds = {new_seed() for _ in range(1000)}
    assert len(seeds) == 1000
    assert {len(seed) for seed in seeds} == {32}
