"""Settlers that die at, meet at and keep step through every statement: still one refund."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import pytest

from app.settling.settling import Settled
from app.store.database import Transaction
from lua.ids import PacketId
from lua.scripts import Scripts
from splitter.money import Fen
from tests.integration.money.lab import MoneyLab
from workers.settler import Settler

STATEMENTS_OF_A_SETTLING: Final = 12
POLLERS: Final = 100
AT_ONCE: Final = 8  # no more than connections; each begins when another is somewhere in the middle
LOCKED_S: Final = 0.2  # after which one that does not arrive is taken to wait for a row's lock


class Died(Exception):
    """The settler's process ended here."""


class Due(NamedTuple):
    packet_id: PacketId
    refund_fen: Fen


@pytest.fixture
async def due(lab: MoneyLab) -> Due:
    packet_id = await lab.packet(5)
    wins = await lab.wins(packet_id, "ann")
    await lab.book()
    await lab.expire(packet_id)
    return Due(packet_id, Fen(500 - wins["ann"].amount_fen))


async def is_refunded_once(lab: MoneyLab, due: Due) -> None:
    assert await lab.refunds(due.packet_id) == [due.refund_fen]
    assert (await lab.row(due.packet_id)).state == "settled"
    await lab.balanced()


def count_statements(
    monkeypatch: pytest.MonkeyPatch, before: Callable[[int], Awaitable[None]]
) -> None:
    """Call `before(n)` before the n-th statement and script call from now."""
    number = 0

    def hooked(owner: type, name: str) -> None:
        original = getattr(owner, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal number
            number += 1
            await before(number)
            return await original(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    for name in ("run", "rows"):  # insert goes through run
        hooked(Transaction, name)
    hooked(Scripts, "close")
    hooked(Scripts, "retire")


class Lockstep:
    """Lets two go on only together, unless the other one has to wait for a lock or is done."""

    def __init__(self) -> None:
        self._waiting: asyncio.Event | None = None
        self.steps_together = 0

    async def step(self, _: int) -> None:
        if self._waiting is not None:
            self.steps_together += 1
            self._waiting.set()
            self._waiting = None
            return
        mine = self._waiting = asyncio.Event()
        try:
            async with asyncio.timeout(LOCKED_S):
                await mine.wait()
        except TimeoutError:
            if self._waiting is mine:
                self._waiting = None


async def test_there_are_as_many_statements_as_the_tests_below_interrupt(
    lab: MoneyLab, due: Due, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers: list[int] = []

    async def note(number: int) -> None:
        numbers.append(number)

    with monkeypatch.context() as patch:
        count_statements(patch, note)
        await lab.settle(due.packet_id)

    assert numbers[-1] == STATEMENTS_OF_A_SETTLING


@pytest.mark.parametrize("dies_before", range(1, STATEMENTS_OF_A_SETTLING + 1))
async def test_a_settler_that_dies_before_any_statement_leaves_one_refund_to_the_next(
    lab: MoneyLab, due: Due, monkeypatch: pytest.MonkeyPatch, dies_before: int
) -> None:
    reached = 0

    async def die(number: int) -> None:
        nonlocal reached
        reached = number
        if number == dies_before:
            raise Died

    with monkeypatch.context() as patch:
        count_statements(patch, die)
        with pytest.raises(Died):
            await lab.settle(due.packet_id)
    assert reached == dies_before

    assert await lab.settle(due.packet_id) in (Settled.NOW, Settled.BEFORE)
    assert await lab.rows("SELECT packet_id FROM unsettled") == []
    await is_refunded_once(lab, due)


@pytest.mark.parametrize("meets_before", range(1, STATEMENTS_OF_A_SETTLING + 1))
async def test_a_second_settler_in_the_middle_of_the_first_makes_no_second_refund(
    lab: MoneyLab, due: Due, monkeypatch: pytest.MonkeyPatch, meets_before: int
) -> None:
    """The first stops before its n-th statement until the second has gone as far as it can."""
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def meet(number: int) -> None:
        if number == meets_before:
            arrived.set()
            await go_on.wait()

    with monkeypatch.context() as patch:
        count_statements(patch, meet)
        first = asyncio.create_task(lab.settle(due.packet_id))
        async with asyncio.timeout(10):
            await arrived.wait()
    second = asyncio.create_task(lab.settle(due.packet_id))
    await asyncio.wait([second], timeout=LOCKED_S)  # it may wait for a row the first has locked
    go_on.set()
    outcomes = [await first, await second]

    assert outcomes.count(Settled.NOW) == 1, outcomes
    await is_refunded_once(lab, due)


async def test_two_settlers_in_step_before_every_statement_make_one_refund(
    lab: MoneyLab, due: Due, monkeypatch: pytest.MonkeyPatch
) -> None:
    lockstep = Lockstep()

    with monkeypatch.context() as patch:
        count_statements(patch, lockstep.step)
        outcomes = await asyncio.gather(lab.settle(due.packet_id), lab.settle(due.packet_id))

    assert sorted(outcome.name for outcome in outcomes) == ["BEFORE", "NOW"]
    # UPDATE to closing, the script, and the lock on the packet's row: what comes after is held up.
    assert lockstep.steps_together >= 3
    await is_refunded_once(lab, due)


async def test_a_hundred_overlapping_settlers_make_one_refund(lab: MoneyLab, due: Due) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def settle() -> Settled:
        async with gate:
            return await lab.settle(due.packet_id)

    outcomes = await asyncio.gather(*(settle() for _ in range(POLLERS)))

    assert outcomes.count(Settled.NOW) == 1
    await is_refunded_once(lab, due)


async def test_a_hundred_overlapping_pollers_make_one_refund(lab: MoneyLab, due: Due) -> None:
    """Each of its own name, so that the lease is wanted by all of them, and looked at too late."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def poll(number: int) -> int:
        settler = Settler(lab.services.database, lab.services.settling, f"poller-{number}")
        async with gate:
            return await settler.settle_due()

    settled = await asyncio.gather(*(poll(number) for number in range(POLLERS)))

    assert sum(settled) == 1
    await is_refunded_once(lab, due)
