"""One user's grab: from memory where memory knows, else with the next script call."""

from app.grabbing.coalescer import Coalescer
from app.grabbing.sold_out import SoldOutMarks
from lua.ids import PacketId, UserId
from lua.scripts import Grab, Outcome


class Grabbing:
    def __init__(self, coalescer: Coalescer, sold_out: SoldOutMarks) -> None:
        self._coalescer = coalescer
        self._sold_out = sold_out

    async def grab(self, packet_id: PacketId, user_id: UserId) -> Grab:
        """Answer one grab. Raises Overloaded or GrabUnavailable; asking again is always safe."""
        known = self._sold_out.answer(packet_id, user_id)
        if known is not None:
            return known
        grab = await self._coalescer.submit(packet_id, user_id)
        if grab.outcome == Outcome.SOLD_OUT:
            self._sold_out.note_sold_out(packet_id)
        return grab
