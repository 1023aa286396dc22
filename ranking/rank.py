"""A rank says how good it is."""

from typing import Literal, NamedTuple

from lua.ids import UserId
from splitter.money import Fen

Tier = Literal["hot", "sql"]  # warm and cold tiers come with the archives


class Rank(NamedTuple):
    """First place is 1. The true rank is from `lo` to `hi`, and is `rank` where `exact`."""

    user_id: UserId
    rank: int
    amount_fen: Fen
    lo: int
    hi: int
    exact: bool
    tier: Tier
    as_of_ms: int


def exact_rank(
    user_id: UserId, rank: int, amount_fen: Fen, as_of_ms: int, tier: Tier = "hot"
) -> Rank:
    return Rank(
        user_id, rank, amount_fen, lo=rank, hi=rank, exact=True, tier=tier, as_of_ms=as_of_ms
    )
