"""Every partial state is found by name, repaired, and found no more."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.reconciling.findings import Kind
from app.reconciling.reconciling import ReconcileReport, Scope
from app.recovery.in_flight import ClaimsUnderWay
from app.services import Services
from lua.ids import PacketId, UserId
from splitter.money import Fen
from tests.deployment import running_workers
from tests.integration.money.lab import MoneyLab, users
from tests.integration.money.reconciled import (
    ALL,
    Break,
    booked,
    kinds,
    open_packet,
    reconcile,
    sql,
)


@pytest.fixture
async def lab(services: Services) -> AsyncIterator[MoneyLab]:
    """With relay and ledger at work: what reconciling waits for."""
    async with running_workers(services):
        yield MoneyLab(services)


async def pop_without_claim(lab: MoneyLab, packet_id: PacketId) -> None:
    await lab.redis("LPOP", lab.services.keys.packet(packet_id).shares)


async def claim_without_entry_or_row(lab: MoneyLab, packet_id: PacketId) -> None:
    keys = lab.services.keys.packet(packet_id)
    share = (await lab.redis("LPOP", keys.shares)).decode()
    seq, amount_fen = map(int, share.split(":"))
    await lab.redis("HSET", keys.claims, "eve", f"{share}:1790000000000")
    await lab.redis("ZADD", keys.board, amount_fen * 16 + 15 - seq, "eve")


async def swapped_shares(lab: MoneyLab, packet_id: PacketId) -> None:
    shares = lab.services.keys.packet(packet_id).shares
    await lab.redis("LSET", shares, 1, await lab.redis("LINDEX", shares, 2))


async def unranked_claim(lab: MoneyLab, packet_id: PacketId) -> None:
    await lab.redis("ZINCRBY", lab.services.keys.packet(packet_id).board, 1, "u1")


async def lost_claims(lab: MoneyLab, packet_id: PacketId) -> None:
    await lab.redis("DEL", lab.services.keys.packet(packet_id).claims)


async def lost_packet(lab: MoneyLab, packet_id: PacketId) -> None:
    await lab.redis("DEL", lab.services.keys.packet(packet_id).meta)


async def row_without_posting(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(lab, "DELETE FROM ledger_entry WHERE reference = %s", f"claim:{packet_id}:2")


async def row_without_journal(lab: MoneyLab, packet_id: PacketId) -> None:
    [row] = await lab.rows(
        "SELECT journal FROM ledger_entry WHERE reference = %s", f"claim:{packet_id}:2"
    )
    await sql(lab, "DELETE FROM ledger_entry WHERE journal = %s", row["journal"])


async def posting_without_row(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(lab, "DELETE FROM claim WHERE packet_id = %s AND seq = 3", packet_id)


async def escrow_not_debited(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(lab, "DELETE FROM ledger_entry WHERE reference = %s", f"claims:{packet_id}:1")


async def wrong_remaining(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(
        lab, "UPDATE packet SET remaining_shares = remaining_shares - 1 WHERE id = %s", packet_id
    )


async def wrong_balance(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(lab, "UPDATE account SET balance_fen = balance_fen + 7 WHERE id = 'user:u1'")


async def account_gone(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(lab, "DELETE FROM account WHERE id = 'user:u2'")


async def half_a_funding(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(lab, "DELETE FROM ledger_entry WHERE reference = %s", f"fund:{packet_id}:packet")


async def never_due(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(lab, "DELETE FROM unsettled WHERE packet_id = %s", packet_id)


async def forgotten_by_settlers(lab: MoneyLab, packet_id: PacketId) -> None:
    await lab.expire(packet_id)


async def died_while_closing(lab: MoneyLab, packet_id: PacketId) -> None:
    await lab.expire(packet_id)
    await sql(lab, "UPDATE packet SET state = 'closing' WHERE id = %s", packet_id)


async def open_unknown_to_mysql(lab: MoneyLab, packet_id: PacketId) -> None:
    await sql(
        lab,
        "UPDATE packet SET state = 'funded', created_at = '2026-01-01' WHERE id = %s",
        packet_id,
    )


async def funded_and_never_opened(lab: MoneyLab, packet_id: PacketId) -> None:
    keys = lab.services.keys.packet(packet_id)
    await open_unknown_to_mysql(lab, packet_id)
    await lab.redis("DEL", keys.meta, keys.shares, keys.claims, keys.board)
    await sql(lab, "DELETE FROM claim WHERE packet_id = %s", packet_id)
    await sql(lab, "DELETE FROM ledger_entry WHERE journal LIKE %s", f"claims:{packet_id}:%")
    await sql(
        lab,
        "UPDATE packet SET remaining_fen = total_fen, remaining_shares = shares WHERE id = %s",
        packet_id,
    )
    for user in users(4):
        await sql(lab, "UPDATE account SET balance_fen = 0 WHERE id = %s", f"user:{user}")
    await sql(lab, "UPDATE account SET balance_fen = 1000 WHERE id = %s", f"packet:{packet_id}")


BREAKS: list[tuple[Break, Kind]] = [
    (pop_without_claim, "redis_lost"),
    (lost_claims, "redis_lost"),
    (lost_packet, "redis_lost"),
    (swapped_shares, "redis_shares_differ"),
    (unranked_claim, "redis_board_differs"),
    (claim_without_entry_or_row, "claim_not_booked"),
    (row_without_posting, "row_without_posting"),
    (row_without_journal, "row_without_posting"),
    (posting_without_row, "posting_without_row"),
    (escrow_not_debited, "journal_unbalanced"),
    (wrong_remaining, "remaining_differs"),
    (wrong_balance, "balance_differs"),
    (account_gone, "balance_differs"),
    (half_a_funding, "funding_missing"),
    (never_due, "not_due_listed"),
    (forgotten_by_settlers, "not_settled"),
    (died_while_closing, "not_settled"),
    (open_unknown_to_mysql, "open_not_noted"),
    (funded_and_never_opened, "not_opened"),
]


@pytest.mark.parametrize(("break_it", "kind"), BREAKS, ids=[b.__name__ for b, _ in BREAKS])
async def test_a_partial_state_is_found_repaired_and_found_no_more(
    lab: MoneyLab, break_it: Break, kind: Kind
) -> None:
    packet_id = await open_packet(lab)
    bystander = await open_packet(lab, first_user=11)
    await break_it(lab, packet_id)

    found = await reconcile(lab)
    assert kind in kinds(found.found), found.found
    assert {finding.packet_id for finding in found.found} == {packet_id}
    assert kinds((await reconcile(lab)).found) == kinds(found.found)  # looking repairs nothing

    repaired = await reconcile(lab, repair=True)
    assert repaired.left == []
    clean = await reconcile(lab)
    assert (clean.packets, clean.found, clean.conflicts) == (2, [], 0)
    await lab.balanced()
    for one in (packet_id, bystander):
        if (await lab.row(one)).state == "open":
            rest = await lab.services.live.counts(one)
            assert rest is not None
            await lab.wins(one, *users(rest.remaining, first=100))
            await booked(lab, one, 10)
    assert (await reconcile(lab)).found == []
    await lab.balanced()


async def test_next_to_live_traffic_nothing_is_mistaken_for_a_difference(lab: MoneyLab) -> None:
    packets = [await lab.packet(400) for _ in range(3)]
    grabbing = asyncio.gather(*(lab.wins(packet_id, *users(400)) for packet_id in packets))
    reports = []
    while not grabbing.done():
        reports.append(await reconcile(lab, repair=True))
    await grabbing

    assert len(reports) > 1
    assert [report.found for report in reports] == [[]] * len(reports)
    for packet_id in packets:
        await booked(lab, packet_id, 400)
    await lab.balanced()


async def test_claims_that_do_not_arrive_stop_it_rather_than_being_called_lost(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = MoneyLab(services)  # no relay
    packet_id = await lab.packet(3)
    await lab.wins(packet_id, "ann")
    monkeypatch.setattr(services.in_flight, "_wait_s", 0.3)

    with pytest.raises(ClaimsUnderWay):
        await reconcile(lab)


async def test_a_run_that_was_cut_off_goes_on_where_it_was(
    lab: MoneyLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.reconciling.reconciling.PACKETS_PER_PAGE", 2)
    packets = [await lab.packet(2) for _ in range(6)]
    pages = 0

    def cut_off(report: ReconcileReport) -> None:
        nonlocal pages
        pages += 1
        if pages == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await lab.services.reconciling.run(ALL, repair=False, progress=cut_off)

    assert (await reconcile(lab, resume=True)).packets == len(packets) - 4
    assert (await reconcile(lab, resume=True)).packets == len(packets)  # the run before was whole


async def test_one_packet_or_one_day_can_be_asked_for(lab: MoneyLab) -> None:
    one, other = await open_packet(lab), await open_packet(lab)
    await wrong_balance(lab, one)
    await sql(lab, "UPDATE packet SET created_at = '2026-03-01 16:00:00' WHERE id = %s", other)
    day = Scope("day", since="2026-03-01 16:00:00", until="2026-03-02 16:00:00")

    assert (await reconcile(lab, scope=Scope("packet", packet_id=one))).packets == 1
    assert (await reconcile(lab, scope=day)).packets == 1


async def test_a_balance_is_repaired_next_to_payments_of_the_same_account(lab: MoneyLab) -> None:
    packet_id = await open_packet(lab)
    await wrong_balance(lab, packet_id)

    async def pay() -> None:
        for number in range(30):
            await lab.services.accounts.top_up(UserId("root"), UserId("u1"), Fen(1), f"k{number}")

    paying = asyncio.create_task(pay())
    while not paying.done():
        await reconcile(lab, repair=True)
        await lab.run("UPDATE account SET balance_fen = balance_fen + 5 WHERE id = 'user:u1'")
    await paying
    await reconcile(lab, repair=True)

    assert (await reconcile(lab)).found == []
    await lab.balanced()
