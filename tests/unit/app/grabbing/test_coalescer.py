"""Grabs that arrive together share a call; nobody hangs, and nobody gets another's answer."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from app.grabbing.coalescer import Coalescer, CoalescerLimits, GrabUnavailable, Overloaded
from lua.ids import PacketId, UserId
from lua.replies import Grab, GrabReply, GrabStatus, Outcome

PACKET, OTHER_PACKET = PacketId(1), PacketId(2)


def claim_of(user_id: str) -> Grab:
    return Grab(Outcome.GRABBED, seq=len(user_id), amount_fen=hash(user_id) % 1000, at_ms=1)


@dataclass
class FakeScript:
    """Answers calls once `gate` is open, and notes who was in each."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    calls: list[tuple[PacketId, list[str]]] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0
    trouble: Exception | None = None
    status: GrabStatus = GrabStatus.OK
    forgotten: int = 0

    async def __call__(self, packet_id: PacketId, user_ids: Sequence[UserId]) -> GrabReply:
        self.calls.append((packet_id, list(user_ids)))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await self.gate.wait()
        finally:
            self.under_way -= 1
        if self.trouble is not None:
            raise self.trouble
        grabs = [claim_of(user_id) for user_id in user_ids]
        return GrabReply(self.status, 1, grabs[: len(grabs) - self.forgotten])


@pytest.fixture
async def script() -> FakeScript:
    opened = FakeScript()
    opened.gate.set()
    return opened


def users(count: int) -> list[UserId]:
    return [UserId(f"user{number}") for number in range(count)]


async def test_grabs_of_one_pass_become_one_call_a_packet(script: FakeScript) -> None:
    coalescer = Coalescer(script, CoalescerLimits())

    futures = [coalescer.submit(PACKET, user) for user in users(10)]
    other = coalescer.submit(OTHER_PACKET, UserId("zoe"))

    assert await asyncio.gather(*futures) == [claim_of(user) for user in users(10)]
    assert await other == claim_of("zoe")
    assert script.calls == [(PACKET, users(10)), (OTHER_PACKET, ["zoe"])]


async def test_calls_in_flight_and_users_a_call_are_bounded(script: FakeScript) -> None:
    script.gate.clear()
    coalescer = Coalescer(script, CoalescerLimits(users_per_call=3, calls_in_flight=2))

    futures = [coalescer.submit(PACKET, user) for user in users(20)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert script.under_way == 2
    script.gate.set()

    assert await asyncio.gather(*futures) == [claim_of(user) for user in users(20)]
    assert script.most_under_way == 2
    assert max(len(batch) for _, batch in script.calls) == 3
    assert [user for _, batch in script.calls for user in batch] == users(20)


async def test_full_queue_refuses_and_takes_again_once_it_has_room(script: FakeScript) -> None:
    coalescer = Coalescer(script, CoalescerLimits(waiting=5))
    futures = [coalescer.submit(PACKET, user) for user in users(5)]

    with pytest.raises(Overloaded):
        coalescer.submit(OTHER_PACKET, UserId("late"))
    await asyncio.gather(*futures)

    assert await coalescer.submit(OTHER_PACKET, UserId("late")) == claim_of("late")


async def test_a_cancelled_caller_cancels_nobody_and_is_still_sent(script: FakeScript) -> None:
    script.gate.clear()
    coalescer = Coalescer(script, CoalescerLimits())
    before, after = (coalescer.submit(PACKET, UserId(name)) for name in ("ann", "bob"))

    before.cancel()
    during = coalescer.submit(PACKET, UserId("cid"))
    await asyncio.sleep(0)
    during.cancel()
    script.gate.set()

    assert await after == claim_of("bob")
    await coalescer.drain()
    assert script.calls == [(PACKET, ["ann", "bob", "cid"])]


async def test_no_reply_in_time_is_ask_again_for_all_and_the_next_call_works(
    script: FakeScript,
) -> None:
    script.gate.clear()
    limits = CoalescerLimits(calls_in_flight=1, reply_timeout_s=0.01)
    coalescer = Coalescer(script, limits)

    futures = [coalescer.submit(PACKET, user) for user in users(3)]
    found = await asyncio.gather(*futures, return_exceptions=True)
    script.gate.set()

    assert [type(error) for error in found] == [GrabUnavailable] * 3
    assert await coalescer.submit(PACKET, UserId("ann")) == claim_of("ann")


async def test_those_behind_a_call_that_failed_do_not_wait_round_after_round(
    script: FakeScript,
) -> None:
    script.gate.clear()
    limits = CoalescerLimits(users_per_call=2, calls_in_flight=1, reply_timeout_s=0.01)
    coalescer = Coalescer(script, limits)

    futures = [coalescer.submit(PACKET, user) for user in users(100)]
    found = await asyncio.gather(*futures, return_exceptions=True)

    assert {type(error) for error in found} == {GrabUnavailable}
    assert len(script.calls) == 1
    assert coalescer._waiting == 0


@pytest.mark.parametrize("trouble", [ConnectionError("gone"), RuntimeError("odd")])
async def test_trouble_in_a_call_is_ask_again(script: FakeScript, trouble: Exception) -> None:
    script.trouble = trouble
    coalescer = Coalescer(script, CoalescerLimits())

    with pytest.raises(GrabUnavailable) as refused:
        await coalescer.submit(PACKET, UserId("ann"))

    assert refused.value.status is None
    assert refused.value.__cause__ is trouble


async def test_a_packet_that_cannot_answer_says_why(script: FakeScript) -> None:
    script.status = GrabStatus.UNKNOWN
    coalescer = Coalescer(script, CoalescerLimits())

    with pytest.raises(GrabUnavailable) as refused:
        await coalescer.submit(PACKET, UserId("ann"))

    assert refused.value.status is GrabStatus.UNKNOWN


async def test_a_reply_that_forgets_somebody_leaves_nobody_waiting(script: FakeScript) -> None:
    script.forgotten = 1
    coalescer = Coalescer(script, CoalescerLimits())

    first, second = (coalescer.submit(PACKET, user) for user in users(2))

    assert await first == claim_of("user0")
    with pytest.raises(GrabUnavailable):
        await second


async def test_nothing_is_left_behind_when_all_is_answered(script: FakeScript) -> None:
    coalescer = Coalescer(script, CoalescerLimits(users_per_call=2))

    await asyncio.gather(*(coalescer.submit(PACKET, user) for user in users(7)))
    await coalescer.drain()

    assert (coalescer._lanes, coalescer._waiting, coalescer._calls) == ({}, 0, {})


def test_a_call_larger_than_the_script_takes_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="users_per_call"):
        CoalescerLimits(users_per_call=1001)
