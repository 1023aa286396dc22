"""What a packet promises before it is split; terms that exist can be split."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from splitter.money import MAX_SHARES, MAX_TOTAL_FEN, Fen

Kind: TypeAlias = Literal["lucky", "equal"]
KINDS: Final[tuple[Kind, ...]] = ("lucky", "equal")
Code: TypeAlias = Literal[
    "unknown_version",
    "unknown_kind",
    "not_an_integer",
    "total_out_of_range",
    "shares_out_of_range",
    "min_out_of_range",
    "cap_out_of_range",
    "cap_below_min",
    "total_below_minimum",
    "total_above_cap",
]

VERSION: Final = 1
SMALLEST_SHARE: Final = Fen(1)


class ImpossibleTerms(ValueError):
    """No split can satisfy these terms; `code` is stable, the message is for people."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code: Final = code

    def __reduce__(self) -> tuple[type["ImpossibleTerms"], tuple[Code, str]]:
        return type(self), (self.code, str(self))


@dataclass(frozen=True, slots=True)
class Terms:
    """The rules of one packet; `cap_fen=None` means no cap. Raises ImpossibleTerms."""

    kind: Kind
    total_fen: Fen
    shares: int
    min_fen: Fen = SMALLEST_SHARE
    cap_fen: Fen | None = None
    version: int = VERSION

    def __post_init__(self) -> None:
        # The order of the checks is part of docs/fairness.md: the first failure names the code.
        _check_rules(self.kind, self.version)
        _check_range("total", "total_out_of_range", self.total_fen, MAX_TOTAL_FEN)
        _check_range("shares", "shares_out_of_range", self.shares, MAX_SHARES)
        _check_range("min", "min_out_of_range", self.min_fen, MAX_TOTAL_FEN)
        if self.cap_fen is not None:
            _check_range("cap", "cap_out_of_range", self.cap_fen, MAX_TOTAL_FEN)
        _check_room(self)

    def canonical(self) -> bytes:
        """The exact bytes the commitment covers: one line of ASCII, no line end."""
        cap = "-" if self.cap_fen is None else self.cap_fen
        return (
            f"redpacket-terms {self.version} {self.kind} "
            f"{self.total_fen} {self.shares} {self.min_fen} {cap}"
        ).encode("ascii")


def _check_rules(kind: object, version: object) -> None:
    # Exact types: a bool equals 1 and a str subclass may print as something else.
    if type(version) is not int or version != VERSION:
        raise ImpossibleTerms("unknown_version", f"version {version!r} is not {VERSION}")
    if type(kind) is not str or kind not in KINDS:
        raise ImpossibleTerms("unknown_kind", f"kind {kind!r} is neither 'lucky' nor 'equal'")


def _check_range(name: str, code: Code, number: object, most: int) -> None:
    if type(number) is not int:
        raise ImpossibleTerms("not_an_integer", f"{name} {number!r} is not a whole number")
    if not 1 <= number <= most:
        raise ImpossibleTerms(code, f"{name} {number} is not between 1 and {most}")


def _check_room(terms: Terms) -> None:
    total, shares, least, cap = terms.total_fen, terms.shares, terms.min_fen, terms.cap_fen
    if cap is not None and cap < least:
        raise ImpossibleTerms("cap_below_min", f"cap {cap} fen is below the minimum {least} fen")
    if total < least * shares:
        raise ImpossibleTerms(
            "total_below_minimum",
            f"total {total} fen cannot give {shares} shares {least} fen each",
        )
    if cap is not None and total > cap * shares:
        raise ImpossibleTerms(
            "total_above_cap",
            f"total {total} fen is more than {shares} shares of at most {cap} fen can hold",
        )
