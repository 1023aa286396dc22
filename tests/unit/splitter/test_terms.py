import copy
import pickle
from dataclasses import FrozenInstanceError, asdict
from enum import IntEnum, StrEnum
from typing import Any

import pytest

from splitter.money import MAX_SHARES, MAX_TOTAL_FEN, Fen
from splitter.terms import ImpossibleTerms, Kind, Terms


class Number(IntEnum):
    ONE = 1


class Word(StrEnum):
    LUCKY = "lucky"


def refusal(**changes: object) -> ImpossibleTerms:
    fields: dict[str, Any] = {"kind": "lucky", "total_fen": 10_000, "shares": 10, **changes}
    with pytest.raises(ImpossibleTerms) as caught:
        Terms(**fields)
    return caught.value


@pytest.mark.parametrize("field", ["total_fen", "shares", "min_fen", "cap_fen"])
@pytest.mark.parametrize("number", [True, 1.0, "1", b"1", [], Number.ONE])
def test_only_plain_integers_are_numbers(field: str, number: object) -> None:
    assert refusal(**{field: number}).code == "not_an_integer"


@pytest.mark.parametrize("field", ["total_fen", "shares", "min_fen"])
def test_only_the_cap_may_be_absent(field: str) -> None:
    assert refusal(**{field: None}).code == "not_an_integer"


@pytest.mark.parametrize(
    ("field", "most", "code"),
    [
        ("total_fen", MAX_TOTAL_FEN, "total_out_of_range"),
        ("shares", MAX_SHARES, "shares_out_of_range"),
        ("min_fen", MAX_TOTAL_FEN, "min_out_of_range"),
        ("cap_fen", MAX_TOTAL_FEN, "cap_out_of_range"),
    ],
)
def test_numbers_outside_their_limits_are_refused(field: str, most: int, code: str) -> None:
    for number in (-1, 0, most + 1):
        assert refusal(**{field: number}).code == code
    name = field.removesuffix("_fen")
    assert str(refusal(**{field: 0})) == f"{name} 0 is not between 1 and {most}"


@pytest.mark.parametrize("kind", ["Lucky", "", "random", None, 1, b"lucky", ["lucky"], Word.LUCKY])
def test_unknown_kinds_are_refused(kind: object) -> None:
    assert refusal(kind=kind).code == "unknown_kind"


@pytest.mark.parametrize("version", [0, 2, -1, True, 1.0, "1", None])
def test_unknown_versions_are_refused(version: object) -> None:
    assert refusal(version=version).code == "unknown_version"


@pytest.mark.parametrize("kind", ["lucky", "equal"])
def test_a_total_too_small_for_the_minimum_is_refused(kind: str) -> None:
    assert refusal(kind=kind, total_fen=10, shares=15).code == "total_below_minimum"
    assert refusal(kind=kind, total_fen=299, shares=3, min_fen=100).code == "total_below_minimum"


@pytest.mark.parametrize("kind", ["lucky", "equal"])
def test_a_total_too_large_for_the_cap_is_refused(kind: str) -> None:
    assert refusal(kind=kind, total_fen=100, shares=18, cap_fen=5).code == "total_above_cap"
    assert refusal(kind=kind, total_fen=301, shares=3, cap_fen=100).code == "total_above_cap"


def test_a_cap_below_the_minimum_is_refused() -> None:
    assert refusal(min_fen=10, cap_fen=9).code == "cap_below_min"


def test_refusal_tells_people_which_numbers_do_not_fit() -> None:
    error = refusal(total_fen=10, shares=15)
    assert isinstance(error, ValueError)
    assert str(error) == "total 10 fen cannot give 15 shares 1 fen each"


def test_refusal_survives_copying_between_processes() -> None:
    error = refusal(total_fen=0)
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (twin.code, str(twin)) == (error.code, str(error))


def test_terms_are_accepted_at_every_limit() -> None:
    widest = Terms("lucky", MAX_TOTAL_FEN, MAX_SHARES, Fen(10**6), MAX_TOTAL_FEN)
    assert widest.total_fen == widest.min_fen * widest.shares
    highest = Terms("equal", MAX_TOTAL_FEN, 1, MAX_TOTAL_FEN, MAX_TOTAL_FEN)
    assert highest.min_fen == highest.cap_fen
    smallest = Terms("equal", Fen(1), 1)
    assert asdict(smallest) == {
        "kind": "equal",
        "total_fen": 1,
        "shares": 1,
        "min_fen": 1,
        "cap_fen": None,
        "version": 1,
    }


def test_terms_cannot_change_after_they_were_checked() -> None:
    terms = Terms("lucky", Fen(100), 10)
    with pytest.raises(FrozenInstanceError):
        terms.total_fen = Fen(1)  # type: ignore[misc]


def test_canonical_form_is_one_ascii_line_with_every_field() -> None:
    assert Terms("lucky", Fen(10_000), 10).canonical() == b"redpacket-terms 1 lucky 10000 10 1 -"
    capped = Terms("equal", Fen(1_000_000), 7, Fen(3), Fen(999_999))
    assert capped.canonical() == b"redpacket-terms 1 equal 1000000 7 3 999999"


def test_different_terms_have_different_canonical_forms() -> None:
    numbers = (1, 11, 111)
    kinds: tuple[Kind, Kind] = ("lucky", "equal")
    different = [
        Terms(kind, Fen(total), shares, Fen(min_fen), cap)
        for kind in kinds
        for total in (1221, 12210)
        for shares in numbers
        for min_fen in numbers
        for cap in (None, Fen(12210), Fen(122100))
        if total >= shares * min_fen
    ]
    assert len({terms.canonical() for terms in different}) == len(different) == 96
