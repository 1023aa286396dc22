"""What the coalescer promises holds also when calls fail, callers leave and queues are full."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from app.grabbing.coalescer import Coalescer, CoalescerLimits, GrabUnavailable, Overloaded
from lua.ids import PacketId, UserId
from lua.replies import Grab, GrabReply, GrabStatus, Outcome

PACKET, OTHER_PACKET = PacketId(1), PacketId(2)


def claim_of(packet_id: PacketId, user_id: str) -> Grab:
    return Grab(Outcome.GRABBED, seq=len(user_id), amount_fen=packet_id, at_ms=hash(user_id) % 1000)


def reply_to(packet_id: PacketId, user_ids: Sequence[UserId]) -> GrabReply:
    return GrabReply(GrabStatus.OK, 1, [claim_of(packet_id, user_id) for user_id in user_ids])


class HeldCalls:
    """Calls that are answered one by one, when the test says so."""

    def __init__(self) -> None:
        self.held: list[tuple[PacketId, list[UserId], asyncio.Future[GrabReply]]] = []
        self.under_way: Counter[PacketId] = Counter()
        self.most_under_way = 0

    async def __call__(self, packet_id: PacketId, user_ids: Sequence[UserId]) -> GrabReply:
        reply: asyncio.Future[GrabReply] = asyncio.get_running_loop().create_future()
        self.held.append((packet_id, list(user_ids), reply))
        self.under_way[packet_id] += 1
        self.most_under_way = max(self.most_under_way, self.under_way[packet_id])
        try:
            return await reply
        finally:
            self.under_way[packet_id] -= 1

    def answer(self, at: int) -> None:
        packet_id, user_ids, reply = self.held[at]
        reply.set_result(reply_to(packet_id, user_ids))

    def fail(self, at: int) -> None:
        self.held[at][2].set_exception(ConnectionError("gone"))


async def passes(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_calls_in_flight_stay_bounded_across_a_call_that_fails() -> None:
    calls = HeldCalls()
    coalescer = Coalescer(calls, CoalescerLimits(users_per_call=1, calls_in_flight=2))
    loop = asyncio.get_running_loop()
    first = coalescer.submit(PACKET, UserId("first"))
    await passes(3)

    later: list[asyncio.Future[Grab]] = []
    calls.fail(0)
    loop.call_soon(lambda: later.append(coalescer.submit(PACKET, UserId("after"))))
    behind = coalescer.submit(PACKET, UserId("behind"))
    for number in range(5):
        await passes(1)
        later.append(coalescer.submit(PACKET, UserId(f"later{number}")))
    await passes(3)

    assert calls.most_under_way <= 2
    for future in (first, behind):
        with pytest.raises(GrabUnavailable):
            await future
    for at in range(1, len(later) + 1):
        while len(calls.held) <= at:
            await passes(1)
        calls.answer(at)
    await asyncio.gather(*later)
    assert calls.most_under_way <= 2


async def test_trouble_with_one_packet_is_not_the_trouble_of_another() -> None:
    calls = HeldCalls()
    coalescer = Coalescer(calls, CoalescerLimits(calls_in_flight=1))
    troubled = coalescer.submit(PACKET, UserId("ann"))
    spared = coalescer.submit(OTHER_PACKET, UserId("ann"))
    await passes(3)
    behind = coalescer.submit(OTHER_PACKET, UserId("bob"))

    calls.fail(0)
    with pytest.raises(GrabUnavailable):
        await troubled
    calls.answer(1)
    assert await spared == claim_of(OTHER_PACKET, "ann")
    await passes(3)
    calls.answer(2)
    assert await behind == claim_of(OTHER_PACKET, "bob")


async def test_answers_that_come_back_in_another_order_reach_their_own_callers() -> None:
    calls = HeldCalls()
    coalescer = Coalescer(calls, CoalescerLimits(users_per_call=2, calls_in_flight=4))
    users = [UserId(f"user{'x' * number}") for number in range(8)]
    futures = [coalescer.submit(PACKET, user) for user in users]
    await passes(3)

    for at in (2, 0, 3, 1):
        calls.answer(at)

    assert await asyncio.gather(*futures) == [claim_of(PACKET, user) for user in users]


async def test_one_user_who_asks_twice_at_once_gets_both_answers() -> None:
    calls = HeldCalls()
    coalescer = Coalescer(calls, CoalescerLimits())
    futures = [coalescer.submit(PACKET, UserId("ann")) for _ in range(2)]
    await passes(3)
    calls.answer(0)

    assert await asyncio.gather(*futures) == [claim_of(PACKET, "ann")] * 2


async def test_callers_who_leave_the_queue_leave_room_once_they_were_sent() -> None:
    calls = HeldCalls()
    coalescer = Coalescer(calls, CoalescerLimits(calls_in_flight=1, waiting=3))
    coalescer.submit(PACKET, UserId("sent"))
    await passes(3)
    for name in ("a", "b", "c"):
        coalescer.submit(PACKET, UserId(name)).cancel()
    with pytest.raises(Overloaded):
        coalescer.submit(OTHER_PACKET, UserId("late"))

    calls.answer(0)
    await passes(3)
    late = coalescer.submit(OTHER_PACKET, UserId("late"))
    await passes(3)

    assert calls.held[1][1] == ["a", "b", "c"]
    calls.answer(1)
    calls.answer(2)
    assert await late == claim_of(OTHER_PACKET, "late")


async def test_a_call_that_raises_before_it_awaits_leaves_nobody_waiting() -> None:
    def broken(packet_id: PacketId, user_ids: Sequence[UserId]) -> asyncio.Future[GrabReply]:
        raise OSError("no connection")

    coalescer = Coalescer(broken, CoalescerLimits(users_per_call=1, calls_in_flight=1))
    futures = [coalescer.submit(PACKET, UserId(name)) for name in ("ann", "bob")]

    found = await asyncio.gather(*futures, return_exceptions=True)
    assert [type(error) for error in found] == [GrabUnavailable] * 2


@pytest.mark.parametrize("wrong_by", [-3, -1, 1])
async def test_a_reply_of_the_wrong_length_leaves_nobody_waiting(wrong_by: int) -> None:
    async def call(packet_id: PacketId, user_ids: Sequence[UserId]) -> GrabReply:
        reply = reply_to(packet_id, user_ids)
        grabs = [*reply.grabs, claim_of(packet_id, "nobody")][: len(user_ids) + wrong_by]
        return reply._replace(grabs=grabs)

    coalescer = Coalescer(call, CoalescerLimits(users_per_call=3, calls_in_flight=1))
    futures = [coalescer.submit(PACKET, UserId(name)) for name in ("ann", "bob", "cid", "dan")]

    async with asyncio.timeout(10):
        found = await asyncio.gather(*futures, return_exceptions=True)
        await coalescer.drain()
    for user, grab in zip(("ann", "bob", "cid", "dan"), found, strict=True):
        assert isinstance(grab, GrabUnavailable) or grab == claim_of(PACKET, user)


async def test_drain_waits_for_what_arrives_while_it_waits() -> None:
    calls = HeldCalls()
    coalescer = Coalescer(calls, CoalescerLimits(calls_in_flight=1))
    futures = [coalescer.submit(PACKET, UserId("ann"))]
    await passes(3)
    draining = asyncio.create_task(coalescer.drain())
    futures.append(coalescer.submit(PACKET, UserId("bob")))
    calls.answer(0)
    await passes(5)
    assert not draining.done()

    calls.answer(1)
    async with asyncio.timeout(10):
        await draining
    assert all(future.done() for future in futures)


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_happens_everybody_is_answered_and_the_books_are_empty(seed: int) -> None:
    dice = random.Random(seed)
    under_way: Counter[PacketId] = Counter()
    limits = CoalescerLimits(users_per_call=7, calls_in_flight=2, waiting=60)

    async def call(packet_id: PacketId, user_ids: Sequence[UserId]) -> GrabReply:
        assert 1 <= len(user_ids) <= 7
        under_way[packet_id] += 1
        try:
            assert under_way[packet_id] <= 2
            await passes(dice.randrange(5))
            if dice.random() < 0.1:
                raise ConnectionError("gone")
            reply = reply_to(packet_id, user_ids)
            return reply._replace(status=dice.choice([GrabStatus.OK] * 9 + [GrabStatus.LOADING]))
        finally:
            under_way[packet_id] -= 1

    coalescer = Coalescer(call, limits)
    taken: list[tuple[PacketId, UserId, asyncio.Future[Grab]]] = []
    for number in range(800):
        packet_id, user_id = PacketId(dice.randrange(3)), UserId("u" * (number % 50 + 1))
        try:
            taken.append((packet_id, user_id, coalescer.submit(packet_id, user_id)))
        except Overloaded:
            await passes(3)
        if dice.random() < 0.05 and taken:
            dice.choice(taken)[2].cancel()
        if dice.random() < 0.2:
            await passes(1)

    async with asyncio.timeout(10):
        await coalescer.drain()
    for packet_id, user_id, future in taken:
        assert future.done()
        if not future.cancelled() and future.exception() is None:
            assert future.result() == claim_of(packet_id, user_id)
        elif not future.cancelled():
            error = future.exception()
            assert isinstance(error, GrabUnavailable)
            assert not isinstance(error.__cause__, AssertionError)
    assert (coalescer._lanes, coalescer._waiting, coalescer._calls) == ({}, 0, {})
