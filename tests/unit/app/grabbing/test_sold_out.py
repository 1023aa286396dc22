"""Memory answers for sold-out packets: winners with their claim, everybody else with "sold out"."""

import asyncio
from collections.abc import Mapping

import pytest
from redis.exceptions import BusyLoadingError

from app.grabbing import sold_out
from app.grabbing.sold_out import MARK_SECONDS, NOTHING_LEFT, SoldOutMarks
from lua.ids import PacketId, UserId
from lua.replies import Grab, Outcome
from tests.eventually import eventually

PACKET = PacketId(1)
ANN, ZOE = UserId("ann"), UserId("zoe")
CLAIM = Grab(Outcome.REPEATED, 3, 321, 1000)


class Winners:
    """Stands for Redis: what it holds, how often it was asked, and whether it answers."""

    def __init__(self) -> None:
        self.claims: Mapping[UserId, Grab] = {ANN: CLAIM}
        self.asked = 0
        self.fails = False

    async def load(self, _: PacketId, limit: int) -> Mapping[UserId, Grab] | None:
        self.asked += 1
        await asyncio.sleep(0)
        if self.fails:
            raise ConnectionError("gone")
        return self.claims if len(self.claims) <= limit else None


async def known(marks: SoldOutMarks, packet_id: PacketId = PACKET) -> None:
    async def probe() -> bool:
        return marks.answer(packet_id, ZOE) is not None

    await eventually(probe, what="a sold-out mark")


async def test_winner_sees_the_claim_and_others_that_nothing_is_left() -> None:
    marks = SoldOutMarks(Winners().load, lambda: 0.0)
    assert marks.answer(PACKET, ANN) is None

    marks.note_sold_out(PACKET)
    assert marks.answer(PACKET, ANN) is None  # until the winners are known, Redis answers
    await known(marks)

    assert marks.answer(PACKET, ANN) == CLAIM
    assert marks.answer(PACKET, ZOE) == NOTHING_LEFT


async def test_a_mark_expires_and_can_be_forgotten() -> None:
    clock = [0.0]
    marks = SoldOutMarks(Winners().load, lambda: clock[0])
    marks.note_sold_out(PACKET)
    await known(marks)

    clock[0] = MARK_SECONDS
    assert marks.answer(PACKET, ANN) is None
    marks.note_sold_out(PACKET)
    await known(marks)
    marks.forget_all()

    assert marks.answer(PACKET, ANN) is None


async def test_winners_are_loaded_once_however_many_ask() -> None:
    winners = Winners()
    marks = SoldOutMarks(winners.load, lambda: 0.0)

    for _ in range(100):
        marks.note_sold_out(PACKET)
    await known(marks)
    marks.note_sold_out(PACKET)

    assert winners.asked == 1


async def test_a_load_that_fails_leaves_the_answer_to_redis_and_is_tried_again() -> None:
    winners = Winners()
    winners.fails = True
    marks = SoldOutMarks(winners.load, lambda: 0.0)

    marks.note_sold_out(PACKET)
    await asyncio.gather(*marks._loading.values())
    assert marks.answer(PACKET, ANN) is None
    winners.fails = False
    marks.note_sold_out(PACKET)

    await known(marks)


@pytest.mark.parametrize(
    ("trouble", "is_traced"), [(BusyLoadingError("loading"), False), (KeyError("seq"), True)]
)
async def test_only_what_nobody_foresaw_is_logged_with_a_traceback(
    caplog: pytest.LogCaptureFixture, trouble: Exception, is_traced: bool
) -> None:
    async def fail(_: PacketId, limit: int) -> None:
        raise trouble

    marks = SoldOutMarks(fail, lambda: 0.0)
    marks.note_sold_out(PACKET)
    await asyncio.gather(*marks._loading.values())

    [record] = caplog.records
    assert (record.exc_info is not None) is is_traced


async def test_a_packet_with_too_many_winners_is_never_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sold_out, "MAX_WINNERS", 0)
    marks = SoldOutMarks(Winners().load, lambda: 0.0)

    marks.note_sold_out(PACKET)
    await asyncio.gather(*marks._loading.values())

    assert marks.answer(PACKET, ANN) is None


async def test_memory_stays_bounded_over_many_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sold_out, "MAX_REMEMBERED", 3)
    marks = SoldOutMarks(Winners().load, lambda: 0.0)

    for number in range(10):
        marks.note_sold_out(PacketId(number))
        await known(marks, PacketId(number))

    assert sum(len(mark.winners) for mark in marks._marks.values()) <= 3
