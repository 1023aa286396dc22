"""Dev mode's database closes, recovers and reconciles as the real one does."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.config import Settings
from app.reconciling.reconciling import Scope
from app.services import open_services
from app.settling.settling import Settled
from lua.replies import Outcome
from tests.deployment import make_ready, running_workers
from tests.integration.money.lab import MoneyLab, users
from tests.integration.money.reconciled import booked
from workers.recoverer import Recoverer
from workers.settler import Settler


@pytest.fixture
async def lab(settings: Settings, tmp_path: Path) -> AsyncIterator[MoneyLab]:
    own = replace(settings, mysql_url=f"sqlite://{tmp_path / 'own.sqlite3'}", mysql_connections=1)
    async with open_services(own) as services:
        await make_ready(services)
        async with running_workers(services):
            yield MoneyLab(services)


async def test_a_packet_is_settled_once(lab: MoneyLab) -> None:
    expired, sold_out = await lab.packet(5), await lab.packet(2)
    wins = await lab.wins(expired, "ann", "bob")
    await lab.wins(sold_out, "ann", "bob")
    await booked(lab, expired, 2)
    await booked(lab, sold_out, 2)
    await lab.expire(expired)

    settler = Settler(lab.services.database, lab.services.settling, "one")
    assert [await settler.settle_due() for _ in range(2)] == [2, 0]

    assert await lab.settle(expired) is Settled.BEFORE
    assert await lab.refunds(expired) == [500 - sum(grab.amount_fen for grab in wins.values())]
    assert await lab.refunds(sold_out) == []
    assert await lab.rows("SELECT packet_id FROM unsettled") == []
    await lab.balanced()


async def test_what_redis_lost_is_rebuilt(lab: MoneyLab) -> None:
    packet_id = await lab.packet(10)
    wins = await lab.wins(packet_id, *users(4))
    await booked(lab, packet_id, 4)
    keys = lab.services.keys
    await lab.redis("DEL", *keys.packet(packet_id)[1:5], *keys.certificates())

    await Recoverer(lab.services.recovery)._recover()

    await lab.services.redis_grabs.refresh_certificate()
    again = await lab.grab(packet_id, *wins)
    assert {grab.outcome for grab in again} == {Outcome.REPEATED}
    assert [grab[1:3] for grab in again] == [grab[1:3] for grab in wins.values()]
    await lab.wins(packet_id, *users(6, first=100))
    await booked(lab, packet_id, 10)
    await lab.balanced()


async def test_a_rebuild_is_noted_and_forgotten(lab: MoneyLab) -> None:
    packet_id = await lab.packet(3)
    await lab.services.packet_recovery.rebuild(packet_id)

    assert await lab.rows("SELECT packet_id FROM rebuild") == []
    assert await lab.services.recovery.finish_rebuilds() == 0


async def test_a_difference_is_found_and_repaired(lab: MoneyLab) -> None:
    packet_id = await lab.packet(3)
    await lab.wins(packet_id, "ann")
    await booked(lab, packet_id, 1)
    await lab.run("DELETE FROM ledger_entry WHERE reference = %s", f"claim:{packet_id}:1")
    await lab.run("UPDATE account SET balance_fen = balance_fen + 3 WHERE id = 'user:ann'")

    report = await lab.services.reconciling.run(Scope("all"), repair=True)

    assert {finding.kind for finding in report.found} >= {"row_without_posting", "balance_differs"}
    assert report.left == []
    assert (await lab.services.reconciling.run(Scope("all"), repair=False)).found == []
    await lab.balanced()
