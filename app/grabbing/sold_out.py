"""Remembers packets that are sold out, with who won, so that latecomers cost no call to Redis."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from redis.exceptions import RedisError

from lua.ids import PacketId, UserId
from lua.replies import Grab, Outcome

log = logging.getLogger(__name__)

MARK_SECONDS: Final = 10.0
MAX_WINNERS: Final = 100_000  # of one packet; a larger packet goes on asking Redis
MAX_REMEMBERED: Final = 400_000  # winners of all packets together
NOTHING_LEFT: Final = Grab(Outcome.SOLD_OUT, 0, 0, 0)


class _Mark(NamedTuple):
    winners: Mapping[UserId, Grab]
    until_s: float


class SoldOutMarks:
    """Answers for packets that are sold out: their winners are final, so memory can tell a winner
    the claim and everybody else "sold out". After MARK_SECONDS Redis is asked again.
    """

    def __init__(
        self,
        load_winners: Callable[[PacketId, int], Awaitable[Mapping[UserId, Grab] | None]],
        now_s: Callable[[], float],
    ) -> None:
        """`load_winners(packet_id, limit)` answers None unless it found all, up to `limit`."""
        self._load_winners = load_winners
        self._now_s = now_s
        self._marks: dict[PacketId, _Mark] = {}
        self._loading: dict[PacketId, asyncio.Task[None]] = {}

    def answer(self, packet_id: PacketId, user_id: UserId) -> Grab | None:
        """What memory knows of this grab; None where Redis has to be asked."""
        mark = self._marks.get(packet_id)
        if mark is None:
            return None
        if mark.until_s <= self._now_s():
            del self._marks[packet_id]
            return None
        return mark.winners.get(user_id, NOTHING_LEFT)

    def note_sold_out(self, packet_id: PacketId) -> None:
        """Learn the winners in the background; until they are known Redis keeps answering."""
        if packet_id in self._marks or packet_id in self._loading:
            return
        task = asyncio.create_task(self._learn(packet_id))
        self._loading[packet_id] = task
        task.add_done_callback(lambda _: self._loading.pop(packet_id, None))

    def forget_all(self) -> None:
        """Redis may have lost claims, and shares be there again."""
        self._marks.clear()

    async def _learn(self, packet_id: PacketId) -> None:
        try:
            winners = await self._load_winners(packet_id, MAX_WINNERS)
        except (RedisError, OSError) as error:
            log.warning("could not load the winners of packet %d: %r", packet_id, error)
            return
        except Exception:
            log.exception("unforeseen: the winners of packet %d", packet_id)
            return
        if winners is None:
            return
        remembered = sum(len(mark.winners) for mark in self._marks.values())
        if remembered + len(winners) > MAX_REMEMBERED:
            self._marks.clear()
        self._marks[packet_id] = _Mark(winners, self._now_s() + MARK_SECONDS)
