"""The books of a packet are closed once: one refund, one best luck, whoever tries when."""

from typing import Any

import pytest

from app.settling.settling import BooksDiffer, Settled
from lua.ids import PacketId
from lua.replies import Outcome
from lua.scripts import Scripts
from tests.integration.money.lab import MoneyLab, users
from workers.settler import Settler


async def test_an_expired_packet_refunds_what_is_left_and_reveals_its_seed(lab: MoneyLab) -> None:
    packet_id = await lab.packet(5)
    wins = await lab.wins(packet_id, "ann", "bob")
    await lab.book()
    await lab.expire(packet_id)

    assert await lab.settle(packet_id) is Settled.NOW

    left_fen = 500 - sum(grab.amount_fen for grab in wins.values())
    assert await lab.refunds(packet_id) == [left_fen]
    assert await lab.balance("user:sender") == left_fen
    assert await lab.balance(f"packet:{packet_id}") == 0
    assert (await lab.row(packet_id)).state == "settled"
    assert await lab.rows("SELECT packet_id FROM unsettled") == []
    await lab.balanced()


async def test_a_sold_out_packet_is_due_at_once_and_refunds_nothing(lab: MoneyLab) -> None:
    packet_id = await lab.packet(3)
    wins = await lab.wins(packet_id, *users(3))
    await lab.book()
    settler = Settler(lab.services.database, lab.services.settling, "one")

    assert await settler.settle_due() == 1

    assert await lab.refunds(packet_id) == []
    [settlement] = await lab.rows("SELECT * FROM settlement")
    best = max(wins.items(), key=lambda win: (win[1].amount_fen, -win[1].seq))
    assert (settlement["refund_fen"], settlement["refund_shares"]) == (0, 0)
    assert (settlement["best_user_id"], settlement["best_seq"]) == (best[0], best[1].seq)
    await lab.balanced()


async def test_of_equal_shares_the_earliest_has_the_best_luck(lab: MoneyLab) -> None:
    packet_id = await lab.packet(4, total_fen=4)  # every share is 1 fen
    await lab.wins(packet_id, "first", "second")
    await lab.book()
    await lab.expire(packet_id)
    await lab.settle(packet_id)

    [settlement] = await lab.rows("SELECT * FROM settlement")
    assert (settlement["best_user_id"], settlement["best_seq"]) == ("first", 1)


async def test_a_packet_nobody_wanted_goes_back_whole(lab: MoneyLab) -> None:
    packet_id = await lab.packet(4)
    await lab.expire(packet_id)

    assert await lab.settle(packet_id) is Settled.NOW

    assert await lab.refunds(packet_id) == [400]
    [settlement] = await lab.rows("SELECT * FROM settlement")
    assert settlement["best_user_id"] is None
    await lab.balanced()


@pytest.mark.parametrize("by", ["settler", "recovery"])
async def test_a_settler_that_dies_with_the_books_closed_leaves_redis_to_the_next(
    lab: MoneyLab, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    packet_id = await lab.packet(4)
    await lab.expire(packet_id)

    async def die(scripts: Scripts, of: PacketId, keep_ms: int) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(Scripts, "retire", die)
    with pytest.raises(ConnectionResetError):
        await lab.settle(packet_id)
    monkeypatch.undo()
    assert await lab.redis("PTTL", lab.services.keys.packet(packet_id).meta) == -1

    if by == "recovery":
        await lab.services.recovery.recover()
    else:
        await Settler(lab.services.database, lab.services.settling, "next").settle_due()
        assert await lab.rows("SELECT packet_id FROM unsettled") == []

    assert await lab.redis("PTTL", lab.services.keys.packet(packet_id).meta) > 0
    assert await lab.refunds(packet_id) == [400]
    await lab.balanced()


async def test_a_packet_that_can_still_be_grabbed_is_left_alone(lab: MoneyLab) -> None:
    packet_id = await lab.packet(4)
    await lab.wins(packet_id, "ann")
    await lab.book()

    assert await lab.settle(packet_id) is Settled.NOT_DUE
    assert (await lab.row(packet_id)).state == "open"
    await lab.wins(packet_id, "bob")


async def test_a_settler_whose_database_is_ahead_waits_for_the_clock_of_redis(
    lab: MoneyLab,
) -> None:
    packet_id = await lab.packet(4)
    await lab.run("UPDATE unsettled SET due_at = '2001-01-01' WHERE packet_id = %s", packet_id)

    assert await lab.settle(packet_id) is Settled.NOT_DUE

    await lab.wins(packet_id, "ann")  # Redis says it can be grabbed, and has the word
    await lab.book()
    await lab.expire(packet_id)
    assert await lab.settle(packet_id) is Settled.NOW
    await lab.balanced()


async def test_claims_on_their_way_are_waited_for(lab: MoneyLab) -> None:
    packet_id = await lab.packet(5)
    wins = await lab.wins(packet_id, "ann", "bob")
    await lab.expire(packet_id)

    assert await lab.settle(packet_id) is Settled.UNDER_WAY
    assert await lab.refunds(packet_id) == []
    await lab.book()
    assert await lab.settle(packet_id) is Settled.NOW

    assert await lab.refunds(packet_id) == [500 - sum(g.amount_fen for g in wins.values())]
    await lab.balanced()


async def test_a_grab_in_the_gap_before_redis_closes_counts(
    lab: MoneyLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    packet_id = await lab.packet(2)
    await lab.wins(packet_id, "ann")
    await lab.book()
    await lab.run("UPDATE unsettled SET due_at = '2001-01-01' WHERE packet_id = %s", packet_id)
    close = Scripts.close

    async def close_late(scripts: Scripts, of: PacketId) -> Any:
        await lab.wins(packet_id, "late")
        return await close(scripts, of)

    monkeypatch.setattr(Scripts, "close", close_late)
    assert await lab.settle(packet_id) is Settled.UNDER_WAY
    monkeypatch.undo()
    await lab.book()

    assert await lab.settle(packet_id) is Settled.NOW
    assert set(await lab.claims(packet_id)) == {"ann", "late"}
    assert await lab.refunds(packet_id) == []
    await lab.balanced()


async def test_settling_again_and_again_changes_nothing(lab: MoneyLab) -> None:
    packet_id = await lab.packet(5)
    await lab.wins(packet_id, "ann")
    await lab.book()
    await lab.expire(packet_id)
    assert await lab.settle(packet_id) is Settled.NOW

    assert {await lab.settle(packet_id) for _ in range(5)} == {Settled.BEFORE}
    [late] = await lab.grab(packet_id, "late")
    [ann] = await lab.grab(packet_id, "ann")

    assert (late.outcome, ann.outcome) == (Outcome.CLOSED, Outcome.REPEATED)
    assert len(await lab.refunds(packet_id)) == 1
    await lab.balanced()


async def test_books_that_do_not_add_up_are_not_closed(lab: MoneyLab) -> None:
    packet_id = await lab.packet(5)
    await lab.wins(packet_id, "ann")
    await lab.book()
    await lab.expire(packet_id)
    await lab.run("UPDATE claim SET amount_fen = amount_fen + 1")

    with pytest.raises(BooksDiffer):
        await lab.settle(packet_id)

    assert await lab.refunds(packet_id) == []
    assert (await lab.row(packet_id)).state == "closing"


async def test_one_packet_that_cannot_be_settled_holds_up_no_other(
    lab: MoneyLab, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = await lab.packet(2), await lab.packet(2)
    for packet_id in (bad, good):
        await lab.wins(packet_id, "ann")
    await lab.book()
    for packet_id in (bad, good):
        await lab.expire(packet_id)
    await lab.run("UPDATE claim SET amount_fen = amount_fen + 1 WHERE packet_id = %s", bad)
    settler = Settler(lab.services.database, lab.services.settling, "one")

    assert await settler.settle_due() == 1

    assert (await lab.row(good)).state == "settled"
    assert "ALARM books differ" in caplog.text


async def test_a_packet_on_mysql_alone_is_settled_without_redis(lab: MoneyLab) -> None:
    packet_id = await lab.packet(5, on_mysql=True)
    wins = await lab.wins(packet_id, "ann")
    await lab.expire(packet_id)

    assert await lab.settle(packet_id) is Settled.NOW

    assert await lab.refunds(packet_id) == [500 - wins["ann"].amount_fen]
    [late] = await lab.grab(packet_id, "late")
    assert late.outcome == Outcome.CLOSED
    await lab.balanced()
