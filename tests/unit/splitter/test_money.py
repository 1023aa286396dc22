import pytest

from splitter.money import MAX_SHARES, MAX_TOTAL_FEN, Fen, format_yuan


@pytest.mark.parametrize(
    ("fen", "text"),
    [
        (0, "0.00"),
        (1, "0.01"),
        (10, "0.10"),
        (99, "0.99"),
        (100, "1.00"),
        (321, "3.21"),
        (1005, "10.05"),
        (-5, "-0.05"),
        (-321, "-3.21"),
        # Above 2**53 a float would lose the last fen.
        (9_007_199_254_740_993, "90071992547409.93"),
    ],
)
def test_fen_are_shown_as_yuan_with_two_decimals(fen: int, text: str) -> None:
    assert format_yuan(Fen(fen)) == text


def test_limits_are_ten_billion_yuan_and_a_million_shares() -> None:
    assert format_yuan(MAX_TOTAL_FEN) == "10000000000.00"
    assert MAX_SHARES == 1_000_000
