"""One user's grab: from memory where memory knows, else with the next call for its packet."""

from app.grabbing.admission import Admission
from app.grabbing.coalescer import Coalescer, GrabUnavailable
from app.grabbing.sold_out import SoldOutMarks
from app.packets.reading import PacketReader
from lua.ids import PacketId, UserId, is_on_mysql
from lua.replies import Grab, GrabStatus, Outcome


class Grabbing:
    def __init__(
        self,
        admission: Admission,
        sold_out: SoldOutMarks,
        on_redis: Coalescer,
        on_mysql: Coalescer,
        reader: PacketReader,
    ) -> None:
        self._admission = admission
        self._sold_out = sold_out
        self._on_redis = on_redis
        self._on_mysql = on_mysql
        self._reader = reader

    async def grab(self, packet_id: PacketId, user_id: UserId) -> Grab:
        """Answer one grab; asking again is always safe.

        Raises SwitchedOff, Overloaded, GrabUnavailable, PacketUnknown.
        """
        self._admission.check_switches(packet_id)
        known = self._sold_out.answer(packet_id, user_id)
        if known is not None:
            return known
        self._admission.check_stores(packet_id)
        coalescer = self._on_mysql if is_on_mysql(packet_id) else self._on_redis
        try:
            grab = await coalescer.submit(packet_id, user_id)
        except GrabUnavailable as unavailable:
            if unavailable.status is not GrabStatus.UNKNOWN:
                raise
            closed = await self._reader.closed_answer(packet_id, user_id)
            if closed is None:
                raise
            return closed
        if grab.outcome == Outcome.SOLD_OUT:
            self._sold_out.note_sold_out(packet_id)
        return grab

    async def drain(self) -> None:
        """Wait until every grab that was taken in has its answer."""
        await self._on_redis.drain()
        await self._on_mysql.drain()
