"""Poison: what can never be booked is set aside alone, and holds up nothing behind it."""

import json

import pytest

from tests.eventually import eventually
from tests.integration.workers.broker import DEAD_QUEUE
from tests.integration.workers.lab import Lab, entry, message_of, running
from workers.topology import DELIVERY_LIMIT


@pytest.mark.parametrize(
    ("poison", "reason"),
    [
        (b"not json", "unreadable entry"),
        (b"", "unreadable entry"),
        (b"\xff\xfe", "unreadable entry"),
        (b"[" * 5000, "unreadable entry"),
        (b'{"packet_id": Infinity, "claimed_at_ms": 1, "claims": []}', "unreadable entry"),
        (entry(7, [1, 1, "ann"]), "unreadable entry"),
        (entry("7", [1, 1.5, "ann"]), "unreadable claim"),
        (entry("7", [1, 1, "an n"]), "unreadable claim"),
        (entry("7", ["1", 1, "ann"]), "unreadable claim"),
        (entry("7", [1, 10**30, "ann"]), "unreadable claim"),
        (entry("7", {"seq": 1}), "unreadable claim"),
        (entry("7", [1, 1, "ann"]), "unknown packet"),
        (entry("7", [1, 1, "a" * 50_000]), "unreadable claim"),
    ],
)
async def test_a_poison_line_is_set_aside_alone_with_its_reason(
    lab: Lab, poison: bytes, reason: str
) -> None:
    await lab.broker.declare()
    packet = await lab.packet(shares=3)
    [ann] = await lab.grab(packet, "ann")
    [bob] = await lab.grab(packet, "bob")
    good = [message_of(packet, "ann", ann), message_of(packet, "bob", bob)]

    async with running(lab.consumer()):
        await lab.broker.publish(b"\n".join([good[0], poison, good[1]]))
        await lab.booked(packet, 2)
        letters = await lab.dead_letters(1)

    assert [letter.reason.startswith(reason) for letter in letters] == [True], letters
    assert await lab.broker.left_behind() == 0
    assert await lab.money_gap() == 0


async def test_bad_rows_among_good_ones_are_set_aside_one_by_one(lab: Lab) -> None:
    await lab.broker.declare()
    packet = await lab.packet(shares=5)
    number = str(packet.id)
    rows = [
        [1, 10, "ann"],
        [1, 10, "eve"],  # a share that Ann has
        [2, 20, "ann"],  # Ann has one
        [3, 10**6, "dan"],  # more than there is
        [6, 1, "fay"],  # the packet has five
        [4, 30, "gus"],
        ["x", 1, "hal"],
    ]

    async with running(lab.consumer()):
        await lab.broker.publish(entry(number, *rows))
        letters = await lab.dead_letters(5)

    assert await lab.rows(packet) == [(1, "ann", 10), (4, "gus", 30)]
    users = {json.loads(letter.body)["claims"][0][2]: letter.reason for letter in letters}
    assert users["eve"].startswith("conflict")
    assert users["ann"].startswith("conflict")
    assert users["dan"].startswith("overdrawn")
    assert users["fay"] == "the packet has 5 shares"
    assert users["hal"].startswith("unreadable claim")
    assert await lab.broker.left_behind() == 0


async def test_a_packet_whose_escrow_is_short_holds_up_no_other(lab: Lab) -> None:
    short, sound = await lab.packet(shares=3), await lab.packet(shares=3)
    await lab.services.database.transaction(
        lambda work: work.run(
            "UPDATE account SET balance_fen = 5 WHERE id = %s", [f"packet:{short.id}"]
        )
    )
    await lab.broker.declare()
    claims = [entry(str(short.id), [1, 50, "ann"]), entry(str(sound.id), [1, 50, "bob"])]

    async with running(lab.consumer()):
        await lab.broker.publish(b"\n".join(claims))
        await lab.booked(sound, 1)
        [letter] = await lab.dead_letters(1)

    assert letter.reason == f"cannot be booked: InsufficientFunds('packet:{short.id}')"
    assert await lab.rows(short) == []


async def test_thousands_of_poison_rows_are_all_set_aside(lab: Lab) -> None:
    await lab.broker.declare()
    rows = [[number, 1, f"user{number}"] for number in range(1, 3001)]

    async with running(lab.consumer()):
        await lab.broker.publish(entry("7", *rows))
        letters = await lab.dead_letters(3000)

    assert len({letter.body for letter in letters}) == 3000


async def test_a_dead_letter_stays_however_often_somebody_looks_at_it(lab: Lab) -> None:
    await lab.broker.declare()
    looks = 0
    async with running(lab.consumer()):
        await lab.broker.publish(b"not json")

        async def looked_at_often() -> bool:
            nonlocal looks
            looks += await lab.broker.deliver_and_die(DEAD_QUEUE)
            return looks > 2 * DELIVERY_LIMIT

        await eventually(looked_at_often, what="the dead letter, again and again")

    assert len(await lab.dead_letters(1)) == 1


async def test_a_dead_letter_queue_that_was_deleted_is_made_again(lab: Lab) -> None:
    async with running(lab.consumer()):
        await lab.until_consumed()
        await lab.broker.delete(DEAD_QUEUE)
        await lab.broker.publish(b"not json")

        async def probe() -> bool:
            return await lab.broker.state(DEAD_QUEUE) == (1, 0)

        await eventually(probe, what="a dead letter in a new queue")
