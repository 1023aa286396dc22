"""The board of a packet by its booked claims, which may be behind what Redis has answered."""

from app.packets.reading import is_live
from app.store.models import Packet
from lua.ids import PacketId, UserId
from ranking.rank import Rank
from ranking.sql_packet_board import SqlPacketBoard


class BookedBoard:
    """Exact where every claim is booked; otherwise each rank says how far it may be off."""

    def __init__(self, board: SqlPacketBoard, packet: Packet) -> None:
        self._board = board
        # Claims that are not booked yet can only push a rank down.
        self._unbooked = packet.remaining_shares if is_live(packet) else 0

    async def top(self, packet_id: PacketId, shares: int, limit: int) -> list[Rank]:
        return [self._bounded(r) for r in await self._board.top(packet_id, shares, limit)]

    async def rank(self, packet_id: PacketId, shares: int, user_id: UserId) -> Rank | None:
        found = await self._board.rank(packet_id, shares, user_id)
        return None if found is None else self._bounded(found)

    async def around(
        self, packet_id: PacketId, shares: int, user_id: UserId, limit: int
    ) -> list[Rank] | None:
        found = await self._board.around(packet_id, shares, user_id, limit)
        return None if found is None else [self._bounded(rank) for rank in found]

    def _bounded(self, rank: Rank) -> Rank:
        if self._unbooked == 0:
            return rank
        return rank._replace(hi=rank.rank + self._unbooked, exact=False)
