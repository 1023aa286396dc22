"""A rebuild that ends half-way is finished by the workers alone, and one that fails fails alone."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import AsyncMock

import pytest

from app.reconciling.reconciling import Scope
from app.recovery import packets
from app.recovery.in_flight import InFlightClaims
from app.recovery.rebuild_notes import (
    STALLED_S,
    forget_rebuild,
    note_rebuild,
    stalled_rebuilds,
)
from app.services import Services
from app.settling.settling import Settled
from lua.ids import PacketId, UserId
from lua.replies import Grab, GrabStatus, Outcome
from lua.scripts import Scripts
from tests.deployment import running_workers
from tests.eventually import eventually
from tests.integration.money.lab import MoneyLab, told, users
from workers.recoverer import Recoverer
from workers.settler import Settler

SHARES = 10
SUSPEND, CERTIFIED_STEPS, UNCERTIFIED_STEPS = 2, 7, 4


class Died(Exception):
    """The process ended here."""


def die_before_step(patch: pytest.MonkeyPatch, dies_before: int) -> None:
    """Of noting, suspending, waiting for claims, restoring, resuming and forgetting."""
    steps = 0

    def hook(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == dies_before:
                raise Died
            return await original(*args, **kwargs)

        patch.setattr(owner, name, call)

    for name in ("suspend", "restore", "resume"):
        hook(Scripts, name)
    hook(InFlightClaims, "arrived")
    hook(packets, "note_rebuild")
    hook(packets, "forget_rebuild")


@pytest.fixture
async def lab(services: Services) -> AsyncIterator[MoneyLab]:
    async with running_workers(services):
        yield MoneyLab(services)


@asynccontextmanager
async def recoverer_at_work(lab: MoneyLab) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(Recoverer(lab.services.recovery).run(stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def damaged_packet(lab: MoneyLab) -> tuple[PacketId, dict[str, tuple[int, int]]]:
    """One whose claims, all booked, are gone from Redis."""
    packet_id = await lab.packet(SHARES)
    had = told(await lab.wins(packet_id, *users(4)))

    async def are_booked() -> bool:
        return len(await lab.claims(packet_id)) == len(had)

    await eventually(are_booked, what="booked claims")
    await lab.redis("DEL", lab.services.keys.packet(packet_id).claims)
    return packet_id, had


async def time_passes(lab: MoneyLab) -> None:
    past = lab.services.database.now(plus_s=-STALLED_S - 1)
    await lab.run(f"UPDATE rebuild SET noted_at = {past}")


async def status(lab: MoneyLab, packet_id: PacketId) -> GrabStatus:
    return (await lab.services.scripts.grab(packet_id, [UserId("eve")])).status


async def whole(lab: MoneyLab, packet_id: PacketId, had: dict[str, tuple[int, int]]) -> None:
    async def is_grabbed() -> bool:
        return await status(lab, packet_id) is GrabStatus.OK

    await eventually(is_grabbed, what="a packet that is grabbed again")
    for user, claim in had.items():
        [grab] = await lab.grab(packet_id, user)
        assert (grab.outcome, grab[1:3]) == (Outcome.REPEATED, claim)
    reply = await lab.services.scripts.grab(packet_id, [UserId(user) for user in users(20, 100)])
    won = [grab for grab in reply.grabs if grab.outcome == Outcome.GRABBED]
    [eve] = [Grab(*grab) for grab in await lab.grab(packet_id, "eve")]
    seqs = [seq for seq, _ in had.values()] + [grab.seq for grab in (*won, eve)]
    assert sorted(seqs) == list(range(1, SHARES + 1))


@pytest.mark.parametrize("dies_before", range(SUSPEND, CERTIFIED_STEPS + 1))
async def test_one_that_died_on_a_certified_run_is_finished(
    lab: MoneyLab, monkeypatch: pytest.MonkeyPatch, dies_before: int
) -> None:
    packet_id, had = await damaged_packet(lab)
    with monkeypatch.context() as patch:
        die_before_step(patch, dies_before)
        with pytest.raises(Died):
            await lab.services.packet_recovery.rebuild(packet_id)
    assert await stalled_rebuilds(lab.services.database) == []
    await time_passes(lab)
    assert await stalled_rebuilds(lab.services.database) == [packet_id]

    async with recoverer_at_work(lab):

        async def nothing_is_left() -> bool:
            return await lab.rows("SELECT packet_id FROM rebuild") == []

        await eventually(nothing_is_left, what="finished rebuilds")

    await whole(lab, packet_id, had)


@pytest.mark.parametrize("dies_before", range(1, UNCERTIFIED_STEPS + 1))
async def test_one_that_died_on_an_uncertified_run_is_finished(
    lab: MoneyLab, monkeypatch: pytest.MonkeyPatch, dies_before: int
) -> None:
    packet_id, had = await damaged_packet(lab)
    await lab.redis("DEL", *lab.services.keys.certificates())
    with monkeypatch.context() as patch:
        die_before_step(patch, dies_before)
        with pytest.raises(Died):
            await lab.services.recovery.recover()
    assert await status(lab, packet_id) is GrabStatus.UNCERTIFIED

    async with recoverer_at_work(lab):

        async def is_certified() -> bool:
            return not await lab.services.recovery.is_needed()

        await eventually(is_certified, what="a certified run")

    await lab.services.redis_grabs.refresh_certificate()
    await whole(lab, packet_id, had)


async def test_a_settler_that_died_while_rebuilding_leaves_one_refund_to_the_next(
    lab: MoneyLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    packet_id, had = await damaged_packet(lab)
    await lab.expire(packet_id)
    with monkeypatch.context() as patch:
        die_before_step(patch, CERTIFIED_STEPS - 1)
        with pytest.raises(Died):
            await lab.settle(packet_id)
    assert await lab.settle(packet_id) is Settled.NOT_READY

    await time_passes(lab)
    assert await lab.services.recovery.finish_rebuilds() == 1

    assert await lab.settle(packet_id) is Settled.NOW
    assert await lab.refunds(packet_id) == [SHARES * 100 - sum(fen for _, fen in had.values())]
    await lab.balanced()


async def test_the_newest_rebuild_of_a_packet_owns_its_note(lab: MoneyLab) -> None:
    database, packet_id = lab.services.database, PacketId(7)
    await note_rebuild(database, packet_id, "older")
    await note_rebuild(database, packet_id, "newer")
    await time_passes(lab)

    await forget_rebuild(database, packet_id, "older")
    assert await stalled_rebuilds(database) == [packet_id]

    await forget_rebuild(database, packet_id, "newer")
    assert await stalled_rebuilds(database) == []


async def test_a_packet_that_contradicts_its_books_keeps_no_other_from_being_grabbed(
    lab: MoneyLab, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "redpacket.alarm")
    bad, _ = await damaged_packet(lab)
    good, had = await damaged_packet(lab)
    await lab.run("UPDATE claim SET amount_fen = amount_fen + 1 WHERE packet_id = %s", bad)
    await lab.redis("DEL", *lab.services.keys.certificates())

    async with recoverer_at_work(lab):

        async def is_certified() -> bool:
            return not await lab.services.recovery.is_needed()

        await eventually(is_certified, what="a certified run")

    await lab.services.redis_grabs.refresh_certificate()
    await whole(lab, good, had)
    assert await status(lab, bad) is GrabStatus.LOADING
    assert f"ALARM packet not rebuilt: packet {bad}: share" in caplog.text
    assert "ALARM redis lost data: 2 packets" in caplog.text


async def test_a_certificate_of_the_wrong_type_is_none(lab: MoneyLab) -> None:
    packet_id, had = await damaged_packet(lab)
    key = lab.services.keys.packet(packet_id).certificate
    await lab.redis("DEL", key)
    await lab.redis("RPUSH", key, "x")

    assert await lab.services.recovery.is_needed()
    assert (await lab.services.recovery.recover()).certified

    await lab.services.redis_grabs.refresh_certificate()
    await whole(lab, packet_id, had)


@pytest.mark.parametrize("key", ["meta", "shares", "claims", "board"])
@pytest.mark.parametrize("when", ["open", "books closed"])
async def test_a_packet_with_a_key_of_the_wrong_type_is_settled_and_holds_up_none_behind_it(
    lab: MoneyLab, monkeypatch: pytest.MonkeyPatch, when: str, key: str
) -> None:
    damaged, had = await damaged_packet(lab)
    behind = await lab.packet(3)
    await lab.services.packet_recovery.rebuild(damaged)
    await lab.expire(damaged)
    if when == "books closed":
        with monkeypatch.context() as patch:
            patch.setattr(Scripts, "retire", AsyncMock(side_effect=Died))
            with pytest.raises(Died):
                await lab.settle(damaged)
    await lab.expire(behind)
    name = lab.services.keys.packet(damaged)._asdict()[key]
    await lab.redis("DEL", name)
    await lab.redis("SET", name, "x")

    await Settler(lab.services.database, lab.services.settling, "one").settle_due()

    assert await lab.rows("SELECT packet_id FROM unsettled") == []
    assert await lab.refunds(damaged) == [SHARES * 100 - sum(fen for _, fen in had.values())]
    assert await lab.refunds(behind) == [300]
    assert (await lab.services.reconciling.run(Scope("all"), repair=False)).found == []
    await lab.balanced()
