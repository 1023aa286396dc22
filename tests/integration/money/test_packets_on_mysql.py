"""Packets in MySQL alone keep the same promises: raced for by several processes, to their end."""

import asyncio
from collections.abc import Sequence

import pytest

from app.grabbing.mysql_grabs import MysqlGrabs
from app.packets.terms import terms_of
from app.settling.settling import Settled
from app.store.times import now_ms
from lua.ids import PacketId, UserId
from lua.replies import Grab, Outcome
from splitter.split import split
from tests.integration.money.lab import MoneyLab, told, users

SHARES = 40


async def outcomes(lab: MoneyLab, packet_id: PacketId, *names: str) -> list[Outcome]:
    return [Outcome(grab.outcome) for grab in await lab.grab(packet_id, *names)]


async def test_several_processes_give_each_share_once(lab: MoneyLab) -> None:
    packet_id = await lab.packet(SHARES, on_mysql=True)
    names = [UserId(user) for user in users(SHARES + 20)]
    # To the database a process is nothing but transactions of its own.
    processes = [MysqlGrabs(lab.services.database) for _ in range(3)]

    async def grab(process: MysqlGrabs, of: Sequence[UserId]) -> dict[str, Grab]:
        reply = await process.grab(packet_id, of)
        return dict(zip(of, reply.grabs, strict=True))

    # Every process is asked for every user, in batches of its own size and another order.
    batches = [
        (process, names[:: 1 - 2 * (number % 2)][first : first + 15 + number])
        for number, process in enumerate(processes)
        for first in range(0, len(names), 15 + number)
    ]
    replies = await asyncio.gather(*(grab(process, of) for process, of in batches))

    by_user: dict[str, list[Grab]] = {}
    for reply in replies:
        for user, answer in reply.items():
            by_user.setdefault(user, []).append(answer)
    won = {user: grabs for user, grabs in by_user.items() if any(grab.seq for grab in grabs)}
    assert len(won) == SHARES
    for grabs in won.values():
        assert len({(grab.seq, grab.amount_fen, grab.at_ms) for grab in grabs if grab.seq}) == 1
        assert [grab.outcome for grab in grabs].count(Outcome.GRABBED) == 1
    rows = await lab.claims(packet_id)
    assert rows == {
        user: next((grab.seq, grab.amount_fen) for grab in grabs if grab.seq)
        for user, grabs in won.items()
    }
    packet = await lab.row(packet_id)
    amounts = split(terms_of(packet), bytes(packet.seed))
    assert sorted(rows.values()) == list(enumerate(amounts, start=1))
    await lab.balanced()


async def test_it_opens_sells_out_expires_and_is_settled(
    lab: MoneyLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    packet_id = await lab.packet(3, on_mysql=True)
    had = told(await lab.wins(packet_id, "ann", "bob"))
    await lab.run("UPDATE packet SET opens_at = '2090-01-01' WHERE id = %s", packet_id)
    [early] = await lab.grab(packet_id, "cy")
    assert (early.outcome, early.seq) == (Outcome.NOT_OPEN_YET, 0)
    assert early.at_ms > now_ms()
    assert await outcomes(lab, packet_id, "ann") == [Outcome.REPEATED]

    await lab.run("UPDATE packet SET opens_at = created_at WHERE id = %s", packet_id)
    await lab.expire(packet_id)
    assert await outcomes(lab, packet_id, "cy", "ann") == [Outcome.EXPIRED, Outcome.REPEATED]

    async def no_redis(*_: object, **__: object) -> None:
        raise ConnectionError

    # The settler of a packet in MySQL has nothing to ask Redis.
    monkeypatch.setattr(lab.services.redis, "execute_command", no_redis)
    monkeypatch.setattr(lab.services.redis, "evalsha", no_redis)
    assert await lab.settle(packet_id) is Settled.NOW
    monkeypatch.undo()

    assert await outcomes(lab, packet_id, "cy", "ann") == [Outcome.CLOSED, Outcome.REPEATED]
    assert await lab.refunds(packet_id) == [300 - sum(fen for _, fen in had.values())]
    [settlement] = await lab.rows("SELECT best_user_id, best_fen FROM settlement")
    assert settlement["best_fen"] == max(fen for _, fen in had.values())
    assert await lab.claims(packet_id) == had
    await lab.balanced()


async def test_one_that_is_sold_out_says_so_to_whoever_comes_late(lab: MoneyLab) -> None:
    packet_id = await lab.packet(2, on_mysql=True)
    await lab.wins(packet_id, "ann", "bob")

    assert await outcomes(lab, packet_id, "cy", "bob", "cy") == [
        *(Outcome.SOLD_OUT, Outcome.REPEATED, Outcome.SOLD_OUT)
    ]
    assert await lab.settle(packet_id) is Settled.NOW
    assert await lab.refunds(packet_id) == []
    await lab.balanced()
