"""Turns the grabs that arrive together for one packet into one script call."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from lua.ids import PacketId, UserId
from lua.replies import Grab, GrabReply, GrabStatus
from lua.scripts import MAX_USERS_PER_GRAB


class Overloaded(Exception):
    """More grabs wait than this process can answer in time."""


class GrabUnavailable(Exception):
    """No answer now; asking again is safe and shows a claim that was made after all."""

    def __init__(self, status: GrabStatus | None) -> None:
        super().__init__("no reply in time" if status is None else status.name.lower())
        self.status = status


@dataclass(frozen=True, slots=True)
class CoalescerLimits:
    users_per_call: int = 256
    calls_in_flight: int = 2  # for one packet
    waiting: int = 20_000  # grabs of all packets that have not reached Redis
    reply_timeout_s: float = 2.0

    def __post_init__(self) -> None:
        if not 1 <= self.users_per_call <= MAX_USERS_PER_GRAB:
            raise ValueError(f"users_per_call must be 1 to {MAX_USERS_PER_GRAB}")


_Waiting = tuple[UserId, asyncio.Future[Grab]]


class _Lane:
    """The grabs of one packet that wait for a call, and how many calls are under way."""

    __slots__ = ("calls", "flush_is_due", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_Waiting] = deque()
        self.calls = 0
        self.flush_is_due = False


class Coalescer:
    """One script call a packet an event-loop pass, bounded in flight and in queue.

    Each caller awaits a future of its own, so one that goes away cancels nobody else; its user has
    been sent or will be, and asking again returns the claim.
    """

    def __init__(
        self,
        call: Callable[[PacketId, Sequence[UserId]], Awaitable[GrabReply]],
        limits: CoalescerLimits,
    ) -> None:
        self._call = call
        self._limits = limits
        self._lanes: dict[PacketId, _Lane] = {}
        self._calls: dict[asyncio.Task[None], list[_Waiting]] = {}
        self._waiting = 0
        self._loop = asyncio.get_running_loop()

    def submit(self, packet_id: PacketId, user_id: UserId) -> asyncio.Future[Grab]:
        """Queue one grab. Raises Overloaded; the future raises GrabUnavailable."""
        if self._waiting >= self._limits.waiting:
            raise Overloaded
        lane = self._lanes.get(packet_id)
        if lane is None:
            lane = self._lanes[packet_id] = _Lane()
        future: asyncio.Future[Grab] = self._loop.create_future()
        lane.waiting.append((user_id, future))
        self._waiting += 1
        if not lane.flush_is_due and lane.calls < self._limits.calls_in_flight:
            lane.flush_is_due = True
            self._loop.call_soon(self._flush, packet_id, lane)
        return future

    async def drain(self) -> None:
        """Wait until every grab that was taken in has its answer."""
        while self._calls or self._waiting:
            await asyncio.gather(*self._calls)
            await asyncio.sleep(0)

    def let_go(self) -> None:
        """Tell all who wait, for a call or its reply, to ask again: no reply is to be expected."""
        ask_again = GrabUnavailable(None)
        for batch in self._calls.values():
            self._refuse(batch, ask_again)
        for lane in self._lanes.values():
            self._waiting -= len(lane.waiting)
            self._refuse(lane.waiting, ask_again)
            lane.waiting.clear()

    def _flush(self, packet_id: PacketId, lane: _Lane) -> None:
        lane.flush_is_due = False
        waiting = lane.waiting
        while waiting and lane.calls < self._limits.calls_in_flight:
            size = min(len(waiting), self._limits.users_per_call)
            batch = [waiting.popleft() for _ in range(size)]
            self._waiting -= size
            lane.calls += 1
            task = self._loop.create_task(self._run(packet_id, lane, batch))
            self._calls[task] = batch
            task.add_done_callback(self._calls.pop)
        # A flush that was due when its lane went must not take the packet's next lane away.
        if not waiting and not lane.calls and self._lanes.get(packet_id) is lane:
            del self._lanes[packet_id]

    async def _run(
        self,
        packet_id: PacketId,
        lane: _Lane,
        batch: list[_Waiting],
    ) -> None:
        try:
            async with asyncio.timeout(self._limits.reply_timeout_s):
                reply = await self._call(packet_id, [user_id for user_id, _ in batch])
            if reply.status is not GrabStatus.OK:
                raise GrabUnavailable(reply.status)
            for (_, future), grab in zip(batch, reply.grabs, strict=True):
                if not future.done():
                    future.set_result(grab)
        except GrabUnavailable as unavailable:
            self._refuse(batch, unavailable)
        except Exception as error:
            # The server may have run the script: nobody is told "failed", everybody "ask again".
            ask_again = GrabUnavailable(None)
            ask_again.__cause__ = error
            self._refuse(batch, ask_again)
            # Who waits behind a call that failed would wait as long again, round after round.
            self._waiting -= len(lane.waiting)
            self._refuse(lane.waiting, ask_again)
            lane.waiting.clear()
        finally:
            lane.calls -= 1
            self._flush(packet_id, lane)

    def _refuse(self, batch: Iterable[_Waiting], reason: GrabUnavailable) -> None:
        for _, future in batch:
            if not future.done():
                future.set_exception(reason)
