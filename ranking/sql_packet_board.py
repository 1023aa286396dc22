"""The board of one packet from its booked claims: the order of packet_board.py, out of SQL."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from lua.ids import PacketId, UserId
from ranking.packet_board import checked_limit
from ranking.rank import Rank, exact_rank
from splitter.money import Fen

# Runs one read statement, written with %s placeholders.
Rows = Callable[[str, Sequence[Any]], Awaitable[list[dict[str, Any]]]]

# MySQL, to which this is no comment, may else take PRIMARY for its seq and read the whole packet.
_RANKED: Final = "FROM claim /*! FORCE INDEX (claim_rank) */ WHERE packet_id = %s"
# Without the user, whom claim_rank does not have: SQLite too would take PRIMARY to find it.
_PLACES: Final = f"SELECT amount_fen, seq {_RANKED}"
_PLACE_OF_USER: Final = "SELECT amount_fen, seq FROM claim WHERE packet_id = %s AND user_id = %s"
# Two counts, because SQLite answers an OR from the whole packet.
_COUNT_BETTER: Final = (
    f"SELECT (SELECT COUNT(*) {_RANKED} AND amount_fen > %s)"
    f" + (SELECT COUNT(*) {_RANKED} AND amount_fen = %s AND seq < %s) AS better"
)
_USERS: Final = "SELECT seq, user_id FROM claim WHERE packet_id = %s AND seq IN ({})"
_SORTED: Final = {">": "ASC", "<": "DESC"}


class _Place(NamedTuple):
    amount_fen: int
    seq: int


class _Direction:
    """From a place towards the worse or the better ones, nearest first.

    The index has amounts and seqs ascending both, the board has amounts descending: no scan of the
    index yields its order, and a plain ORDER BY would sort the whole packet. But the index does
    yield the amount of the n-th row away, the edge. Up to there lie equal amounts and those of the
    edge, of both the first n by seq, and fewer than n rows in between, sorted here.
    """

    def __init__(self, amounts: str, seqs: str, unbounded: int) -> None:
        self.unbounded: Final = unbounded
        self.edge: Final = (
            f"SELECT amount_fen {_RANKED} AND amount_fen {amounts} %s"
            f" ORDER BY amount_fen {_SORTED[amounts]} LIMIT 1 OFFSET %s"
        )
        by_seq = f"ORDER BY seq {_SORTED[seqs]} LIMIT %s"
        self.places: Final = (
            f"SELECT * FROM ({_PLACES} AND amount_fen = %s AND seq {seqs} %s {by_seq}) AS ties"
            f" UNION ALL {_PLACES} AND amount_fen {amounts} %s AND amount_fen {seqs} %s"
            f" UNION ALL SELECT * FROM ({_PLACES} AND amount_fen = %s {by_seq}) AS edge"
        )


# No claim is of either amount, so nothing is equal to them and everything lies between.
_NO_FEN: Final = 0
_ALL_FEN: Final = 2**63 - 1
_WORSE: Final = _Direction("<", ">", _NO_FEN)
_BETTER: Final = _Direction(">", "<", _ALL_FEN)
_ABOVE_ALL: Final = _Place(_ALL_FEN, 0)


class SqlPacketBoard:
    """Reads a packet's board from its claim rows: exact once all its claims are booked.

    Takes `shares` only to be called as PacketBoard is.
    """

    def __init__(self, rows: Rows, now_ms: Callable[[], int]) -> None:
        self._rows = rows
        self._now_ms = now_ms

    async def top(self, packet_id: PacketId, shares: int, limit: int) -> list[Rank]:
        places = await self._next(packet_id, _WORSE, _ABOVE_ALL, checked_limit(limit))
        return await self._ranks(packet_id, places, first=1)

    async def rank(self, packet_id: PacketId, shares: int, user_id: UserId) -> Rank | None:
        """The user's rank, or None for a user who has no claim."""
        own = await self._place_of(packet_id, user_id)
        if own is None:
            return None
        rank = await self._count_better(packet_id, own) + 1
        return exact_rank(user_id, rank, Fen(own.amount_fen), self._now_ms(), tier="sql")

    async def around(
        self, packet_id: PacketId, shares: int, user_id: UserId, limit: int
    ) -> list[Rank] | None:
        """`limit` ranks, the user in the middle where the ends allow; None without a claim."""
        limit = checked_limit(limit)
        own = await self._place_of(packet_id, user_id)
        if own is None:
            return None
        position = await self._count_better(packet_id, own)
        below = limit - 1 - min(position, limit // 2)
        worse = await self._next(packet_id, _WORSE, own, below)
        above = min(position, limit - 1 - len(worse))
        better = await self._next(packet_id, _BETTER, own, above)
        places = [*reversed(better), own, *worse]
        return await self._ranks(packet_id, places, first=position - len(better) + 1)

    async def _place_of(self, packet_id: PacketId, user_id: UserId) -> _Place | None:
        rows = await self._rows(_PLACE_OF_USER, [packet_id, user_id])
        return _Place(**rows[0]) if rows else None

    async def _count_better(self, packet_id: PacketId, own: _Place) -> int:
        values = [packet_id, own.amount_fen, packet_id, own.amount_fen, own.seq]
        [row] = await self._rows(_COUNT_BETTER, values)
        return int(row["better"])

    async def _next(
        self, packet_id: PacketId, direction: _Direction, start: _Place, limit: int
    ) -> list[_Place]:
        if limit == 0:
            return []
        amount_fen = start.amount_fen
        found = await self._rows(direction.edge, [packet_id, amount_fen, limit - 1])
        edge = found[0]["amount_fen"] if found else direction.unbounded
        ties = [packet_id, amount_fen, start.seq, limit]
        values = [*ties, packet_id, amount_fen, edge, packet_id, edge, limit]
        places = [_Place(**row) for row in await self._rows(direction.places, values)]
        places.sort(key=_board_order, reverse=direction is _BETTER)
        return places[:limit]

    async def _ranks(self, packet_id: PacketId, places: Sequence[_Place], first: int) -> list[Rank]:
        if not places:
            return []
        seqs = [place.seq for place in places]
        rows = await self._rows(_USERS.format(", ".join(["%s"] * len(seqs))), [packet_id, *seqs])
        users = {row["seq"]: UserId(row["user_id"]) for row in rows}
        as_of_ms = self._now_ms()
        return [
            exact_rank(users[place.seq], rank, Fen(place.amount_fen), as_of_ms, tier="sql")
            for rank, place in enumerate(places, start=first)
        ]


def _board_order(place: _Place) -> tuple[int, int]:
    return -place.amount_fen, place.seq
