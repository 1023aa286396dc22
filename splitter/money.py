"""Money is a whole number of fen; yuan exist only as text at the edge."""

from typing import Final, NewType

Fen = NewType("Fen", int)

FEN_PER_YUAN: Final = 100
MAX_TOTAL_FEN: Final = Fen(10**12)
MAX_SHARES: Final = 1_000_000


def format_yuan(fen: Fen) -> str:
    """Yuan with two decimals: 321 -> "3.21", -5 -> "-0.05"."""
    yuan, odd_fen = divmod(abs(fen), FEN_PER_YUAN)
    sign = "-" if fen < 0 else ""
    return f"{sign}{yuan}.{odd_fen:02d}"
