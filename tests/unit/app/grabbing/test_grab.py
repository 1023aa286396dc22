"""One grab: from memory where memory knows, else by the script, and memory learns from it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from app.grabbing.admission import Admission
from app.grabbing.coalescer import Coalescer, CoalescerLimits, GrabUnavailable, Overloaded
from app.grabbing.grab import Grabbing
from app.grabbing.sold_out import MARK_SECONDS, NOTHING_LEFT, SoldOutMarks
from app.packets.reading import PacketReader
from lua.ids import PacketId, UserId
from lua.replies import Grab, GrabReply, GrabStatus, Outcome

PACKET, OTHER_PACKET = PacketId(1), PacketId(2)
ANN, BOB, ZOE = UserId("ann"), UserId("bob"), UserId("zoe")


class FakeRedis:
    """A packet of one share, as script and as list of winners, with a count of the calls."""

    def __init__(self) -> None:
        self.claims: dict[UserId, Grab] = {}
        self.calls = 0
        self.loads = 0
        self.status = GrabStatus.OK
        self.refusal = Outcome.SOLD_OUT

    async def grab(self, _: PacketId, user_ids: Sequence[UserId]) -> GrabReply:
        self.calls += 1
        grabs = []
        for user_id in user_ids:
            if user_id in self.claims:
                grabs.append(self.claims[user_id])
            elif self.claims or self.refusal != Outcome.SOLD_OUT:
                grabs.append(Grab(self.refusal, 0, 0, 0))
            else:
                self.claims[user_id] = Grab(Outcome.REPEATED, 1, 100, 5)
                grabs.append(Grab(Outcome.GRABBED, 1, 100, 5))
        return GrabReply(self.status, 1, grabs)

    async def winners(self, _: PacketId, limit: int) -> Mapping[UserId, Grab] | None:
        self.loads += 1
        return dict(self.claims)


class OpenDoor:
    """Admits everybody, or nobody."""

    refusal: Exception | None = None

    def check_switches(self, _: PacketId) -> None:
        if self.refusal is not None:
            raise self.refusal

    def check_stores(self, _: PacketId) -> None:
        pass


class NoBooks:
    async def closed_answer(self, packet_id: PacketId, user_id: UserId) -> Grab | None:
        return None


class Rig:
    """Everything between the route and Redis, with a clock that the test moves."""

    def __init__(self, limits: CoalescerLimits | None = None) -> None:
        self.redis = FakeRedis()
        self.now_s = 0.0
        self.marks = SoldOutMarks(self.redis.winners, lambda: self.now_s)
        self.coalescer = Coalescer(self.redis.grab, limits or CoalescerLimits())
        self.on_mysql = Coalescer(self.redis.grab, CoalescerLimits())
        self.admission = OpenDoor()
        self.grabbing = Grabbing(
            cast(Admission, self.admission),
            self.marks,
            self.coalescer,
            self.on_mysql,
            cast(PacketReader, NoBooks()),
        )

    async def grab(self, user_id: UserId, packet_id: PacketId = PACKET) -> Grab:
        return await self.grabbing.grab(packet_id, user_id)

    async def learned(self) -> None:
        await asyncio.gather(*self.marks._loading.values())


@pytest.fixture
async def rig() -> Rig:
    return Rig()


async def test_sold_out_packet_is_asked_of_redis_once_and_then_of_memory(rig: Rig) -> None:
    assert (await rig.grab(ANN)).outcome == Outcome.GRABBED
    assert (await rig.grab(ZOE)).outcome == Outcome.SOLD_OUT
    await rig.learned()
    calls = rig.redis.calls

    assert await rig.grab(ANN) == Grab(Outcome.REPEATED, 1, 100, 5)
    assert await rig.grab(ZOE) == NOTHING_LEFT
    assert (rig.redis.calls, rig.redis.loads) == (calls, 1)


async def test_memory_of_one_packet_says_nothing_about_another(rig: Rig) -> None:
    await rig.grab(ANN)
    await rig.grab(ZOE)
    await rig.learned()
    rig.redis.claims.clear()

    assert (await rig.grab(ZOE, OTHER_PACKET)).outcome == Outcome.GRABBED


async def test_redis_is_asked_again_when_the_memory_is_old(rig: Rig) -> None:
    await rig.grab(ANN)
    await rig.grab(ZOE)
    await rig.learned()
    calls = rig.redis.calls

    rig.now_s = MARK_SECONDS
    assert (await rig.grab(ANN)).outcome == Outcome.REPEATED
    assert rig.redis.calls == calls + 1


@pytest.mark.parametrize("refusal", [Outcome.NOT_OPEN_YET, Outcome.EXPIRED, Outcome.CLOSED])
async def test_only_sold_out_is_remembered(rig: Rig, refusal: Outcome) -> None:
    rig.redis.refusal = refusal

    for _ in range(2):
        assert (await rig.grab(ZOE)).outcome == refusal
    assert (rig.redis.calls, rig.redis.loads) == (2, 0)


async def test_crowd_that_finds_nothing_left_at_once_loads_the_winners_once(rig: Rig) -> None:
    crowd = [UserId(f"user{number}") for number in range(500)]

    grabs = await asyncio.gather(*(rig.grab(user) for user in crowd))
    await rig.learned()

    assert sum(grab.outcome == Outcome.GRABBED for grab in grabs) == 1
    assert rig.redis.loads == 1


async def test_trouble_is_told_and_not_remembered(rig: Rig) -> None:
    rig.redis.status = GrabStatus.LOADING
    with pytest.raises(GrabUnavailable, match="loading"):
        await rig.grab(ANN)

    rig.redis.status = GrabStatus.OK
    assert (await rig.grab(ANN)).outcome in (Outcome.GRABBED, Outcome.REPEATED)


async def test_full_queue_refuses_newcomers_but_not_whom_memory_can_answer() -> None:
    rig = Rig(CoalescerLimits(waiting=1))
    await rig.grab(ANN)
    await rig.grab(ZOE)
    await rig.learned()
    waiting = rig.coalescer.submit(OTHER_PACKET, BOB)

    with pytest.raises(Overloaded):
        await rig.grab(ZOE, OTHER_PACKET)
    assert (await rig.grab(ANN)).outcome == Outcome.REPEATED
    assert (await waiting).outcome == Outcome.SOLD_OUT


async def test_a_caller_that_gives_up_has_grabbed_all_the_same(rig: Rig) -> None:
    asking = asyncio.create_task(rig.grab(ANN))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await rig.coalescer.drain()

    assert (await rig.grab(ANN)).outcome == Outcome.REPEATED
