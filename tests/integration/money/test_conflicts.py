"""Claims that contradict what is booked: the house pays what was told, once, and says so loudly."""

import pytest

from app.ledger.claims import Claim, claim_body
from app.ledger.dead_letters import DeadLetters, list_letters
from app.packets.terms import terms_of
from app.reconciling.reconciling import Scope
from lua.ids import PacketId, UserId
from splitter.money import Fen
from splitter.split import split
from tests.integration.money.lab import LONG_AGO_MS, MoneyLab
from workers.ledger import LedgerHandler


async def amounts_of(lab: MoneyLab, packet_id: PacketId) -> list[Fen]:
    packet = await lab.row(packet_id)
    return split(terms_of(packet), bytes(packet.seed))


async def deliver(lab: MoneyLab, packet_id: PacketId, *claims: tuple[int, str, int]) -> None:
    """As if Redis had given these (seq, user, amount)."""
    database = lab.services.database
    handler = LedgerHandler(database, DeadLetters(database, "redpacket.ledger"))
    for seq, user, amount_fen in claims:
        claim = Claim(packet_id, seq, UserId(user), Fen(amount_fen), LONG_AGO_MS)
        await handler.handle([claim_body(claim)])


async def dead_letters(lab: MoneyLab) -> list[str]:
    return [each.reason for each in await list_letters(lab.services.database, "waiting", 0, 100)]


async def test_the_second_user_of_a_share_is_paid_by_the_house_once(
    lab: MoneyLab, caplog: pytest.LogCaptureFixture
) -> None:
    packet_id = await lab.packet(5)
    amounts = await amounts_of(lab, packet_id)

    await deliver(lab, packet_id, (1, "ann", amounts[0]), (1, "bob", amounts[0]))
    await deliver(lab, packet_id, (1, "bob", amounts[0]), (1, "bob", amounts[0]))

    assert await lab.claims(packet_id) == {"ann": (1, amounts[0])}
    assert await lab.balance("user:bob") == amounts[0]
    assert await lab.balance("outside:house") == -amounts[0]
    assert await lab.balance(f"packet:{packet_id}") == 500 - amounts[0]
    assert [row["paid_fen"] for row in await lab.conflicts()] == [amounts[0]]
    assert caplog.text.count("ALARM conflict") == 1
    assert await dead_letters(lab) == []
    await lab.balanced()


async def test_a_user_who_was_told_two_shares_has_the_better_of_the_two(lab: MoneyLab) -> None:
    packet_id = await lab.packet(30)
    amounts = await amounts_of(lab, packet_id)
    low, high = amounts.index(min(amounts)) + 1, amounts.index(max(amounts)) + 1

    await deliver(lab, packet_id, (low, "ann", min(amounts)), (high, "ann", max(amounts)))
    await deliver(lab, packet_id, (high, "bob", max(amounts)), (low, "bob", min(amounts)))

    assert await lab.balance("user:ann") == max(amounts)
    assert await lab.balance("user:bob") == max(amounts)
    paid = {(row["user_id"], row["seq"]): row["paid_fen"] for row in await lab.conflicts()}
    assert paid == {("ann", high): max(amounts) - min(amounts), ("bob", low): 0}
    await lab.balanced()


async def test_a_claim_that_comes_after_the_refund_is_paid_by_the_house(lab: MoneyLab) -> None:
    packet_id = await lab.packet(5)
    amounts = await amounts_of(lab, packet_id)
    await lab.wins(packet_id, "ann")
    await lab.book()
    await lab.expire(packet_id)
    await lab.settle(packet_id)
    refunds = await lab.refunds(packet_id)

    await deliver(lab, packet_id, (2, "late", amounts[1]), (1, "ann", amounts[0]))

    assert await lab.refunds(packet_id) == refunds == [500 - amounts[0]]
    assert await lab.balance("user:late") == amounts[1]
    assert await lab.balance("user:ann") == amounts[0]
    assert await lab.balance("outside:house") == -amounts[1]
    assert len(await lab.conflicts()) == 1
    await lab.balanced()


async def test_reconciling_counts_conflicts_and_pays_one_whose_posting_is_missing(
    lab: MoneyLab,
) -> None:
    packet_id = await lab.packet(5)
    await lab.wins(packet_id, "ann")
    await lab.book()
    await lab.expire(packet_id)
    await lab.settle(packet_id)
    amounts = await amounts_of(lab, packet_id)
    await deliver(lab, packet_id, (2, "late", amounts[1]))
    await lab.run("DELETE FROM ledger_entry WHERE journal LIKE %s", f"conflict:{packet_id}:%")
    await lab.run("UPDATE account SET balance_fen = 0 WHERE id IN ('user:late', 'outside:house')")

    found = await lab.services.reconciling.run(Scope("all"), repair=True)
    again = await lab.services.reconciling.run(Scope("all"), repair=False)

    assert [finding.kind for finding in found.found] == ["conflict_not_paid"]
    assert (found.left, again.found, again.conflicts) == ([], [], 1)
    assert await lab.balance("user:late") == amounts[1]
    assert await lab.balance("outside:house") == -amounts[1]
    await lab.balanced()


async def test_an_amount_that_no_split_gave_costs_the_house_nothing(lab: MoneyLab) -> None:
    packet_id = await lab.packet(5)
    amounts = await amounts_of(lab, packet_id)

    await deliver(lab, packet_id, (1, "ann", amounts[0]), (1, "eve", amounts[0] + 1))
    await deliver(lab, packet_id, (6, "eve", amounts[0]))

    assert await lab.conflicts() == []
    assert await lab.balance("outside:house") == 0
    reasons = await dead_letters(lab)
    assert reasons[0].startswith("not an amount of the split")
    assert reasons[1] == "the packet has 5 shares"
    await lab.balanced()


async def test_a_promoted_replica_that_lost_answered_grabs_costs_the_house_and_nobody_else(
    lab: MoneyLab,
) -> None:
    """Ann's and Bob's claims are lost before they are booked, given again, and come back late."""
    packet_id = await lab.packet(4)
    lost = await lab.wins(packet_id, "ann", "bob")
    outbox = lab.services.keys.packet(packet_id).outbox
    entries = await lab.redis("XRANGE", outbox, "-", "+")
    kept = [fields[b"claims"] for _, fields in entries]
    await lab.redis("DEL", outbox)
    await lab.redis("DEL", lab.services.keys.packet(packet_id).claims)
    await lab.services.scripts.suspend(packet_id, "promoted")
    await lab.services.packet_recovery.rebuild(packet_id, all_have_arrived=True)
    again = await lab.wins(packet_id, "cy", "ann", "dan", "eve")
    await lab.book()

    database = lab.services.database
    handler = LedgerHandler(database, DeadLetters(database, "redpacket.ledger"))
    await handler.handle(kept)
    await handler.handle(kept)

    for user in ("ann", "bob", "cy", "dan", "eve"):
        told = [wins[user].amount_fen for wins in (lost, again) if user in wins]
        assert await lab.balance(f"user:{user}") == max(told)
    assert sum(grab.amount_fen for grab in again.values()) == 400
    assert await lab.balance(f"packet:{packet_id}") == 0
    assert len(await lab.conflicts()) == 2
    await lab.expire(packet_id)
    await lab.settle(packet_id)
    assert (await lab.row(packet_id)).state == "settled"
    await lab.balanced()
