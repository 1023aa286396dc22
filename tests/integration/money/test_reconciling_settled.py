"""The end of a packet's life is found whole or completed; what contradicts itself is left alone."""

from collections.abc import AsyncIterator

import pytest

from app.reconciling.findings import UNREPAIRABLE, Kind
from app.services import Services
from lua.ids import PacketId
from lua.replies import Outcome
from tests.deployment import running_workers
from tests.integration.money.lab import MoneyLab
from tests.integration.money.reconciled import Break, kinds, reconcile, settled_packet, sql


@pytest.fixture
async def lab(services: Services) -> AsyncIterator[MoneyLab]:
    """With relay and ledger at work: what reconciling waits for."""
    async with running_workers(services):
        yield MoneyLab(services)


async def no_settlement(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(lab, "DELETE FROM settlement WHERE packet_id = %s", packet_id)


async def not_marked_settled(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(lab, "UPDATE packet SET state = 'closing' WHERE id = %s", packet_id)


async def refund_not_posted(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(lab, "DELETE FROM ledger_entry WHERE journal = %s", f"refund:{packet_id}")


async def still_listed(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(lab, "INSERT INTO unsettled (packet_id, due_at) VALUES (%s, '2001-01-01')", packet_id)


async def open_again_in_redis(lab: MoneyLab, packet_id: PacketId) -> None:
    meta = lab.services.keys.packet(packet_id).meta
    await lab.redis("HSET", meta, "state", "open", "expires_at_ms", 4_102_444_800_000)


async def kept_for_ever(lab: MoneyLab, packet_id: PacketId) -> None:
    await lab.redis("PERSIST", lab.services.keys.packet(packet_id).meta)


async def wrong_best_luck(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(lab, "UPDATE settlement SET best_seq = best_seq + 1 WHERE packet_id = %s", packet_id)


async def nobody_crowned(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(
        lab,
        "UPDATE settlement SET best_seq = NULL, best_user_id = NULL, best_fen = NULL"
        " WHERE packet_id = %s",
        packet_id,
    )


async def wrong_shares_refunded(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(lab, "UPDATE settlement SET refund_shares = 0 WHERE packet_id = %s", packet_id)


ENDS: list[tuple[Break, Kind]] = [
    (no_settlement, "settlement_incomplete"),
    (not_marked_settled, "settlement_incomplete"),
    (refund_not_posted, "settlement_incomplete"),
    (wrong_best_luck, "settlement_differs"),
    (nobody_crowned, "settlement_differs"),
    (wrong_shares_refunded, "settlement_differs"),
    (still_listed, "not_settled"),
    (open_again_in_redis, "not_retired"),
    (kept_for_ever, "not_retired"),
]


@pytest.mark.parametrize(("break_it", "kind"), ENDS, ids=[b.__name__ for b, _ in ENDS])
async def test_a_settlement_that_is_not_whole_is_completed(
    lab: MoneyLab, break_it: Break, kind: Kind
) -> None:
    packet_id = await settled_packet(lab)
    refunds = await lab.refunds(packet_id)
    await break_it(lab, packet_id)

    found = await reconcile(lab, repair=True)

    assert kind in kinds(found.found)
    assert found.left == []
    assert (await reconcile(lab)).found == []
    assert await lab.refunds(packet_id) == refunds
    [late] = await lab.grab(packet_id, "late")
    assert late.outcome == Outcome.CLOSED
    await lab.balanced()


async def wrong_amount(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(lab, "UPDATE claim SET amount_fen = amount_fen + 1 WHERE seq = 1")


async def posted_to_somebody_else(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(
        lab,
        "UPDATE ledger_entry SET account_id = 'user:eve' WHERE reference = %s",
        f"claim:{packet_id}:1",
    )


async def wrong_seed(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(lab, "UPDATE packet SET commitment = seed WHERE id = %s", packet_id)


async def refund_of_another_amount(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(
        lab,
        "UPDATE ledger_entry SET amount_fen = amount_fen - 1 WHERE reference = %s",
        f"refund:{packet_id}:sender",
    )


@pytest.mark.parametrize(
    ("break_it", "kind"),
    [
        (wrong_amount, "amount_not_of_the_split"),
        (posted_to_somebody_else, "posting_differs"),
        (wrong_seed, "commitment_differs"),
        (refund_of_another_amount, "refund_differs"),
    ],
)
async def test_what_only_a_person_can_decide_is_reported_and_left(
    lab: MoneyLab, break_it: Break, kind: Kind
) -> None:
    packet_id = await settled_packet(lab)
    await break_it(lab, packet_id)
    assert kind in UNREPAIRABLE

    report = await reconcile(lab, repair=True)

    assert kind in kinds(report.left)
