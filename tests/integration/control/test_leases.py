"""Leases: one owner at a time by the database's clock, and nobody is locked out by a dead one."""

import asyncio
import logging

import pytest

from app.control.leases import hold_lease, release_lease, still_held
from app.store.database import Database

LONG_S = 60


async def is_held(database: Database, owner: str) -> bool:
    return await database.transaction(lambda work: still_held(work, "settle", owner))


async def test_it_belongs_to_the_first_until_it_is_released(database: Database) -> None:
    assert await hold_lease(database, "settle", "a", LONG_S)
    assert not await hold_lease(database, "settle", "b", LONG_S)
    assert await hold_lease(database, "settle", "a", LONG_S)
    assert await hold_lease(database, "recover", "b", LONG_S)
    assert await is_held(database, "a")
    assert not await is_held(database, "b")

    await release_lease(database, "settle", "b")
    assert await is_held(database, "a")

    await release_lease(database, "settle", "a")
    assert not await is_held(database, "a")
    assert await hold_lease(database, "settle", "b", LONG_S)


async def test_one_that_has_run_out_goes_to_whoever_asks_next(database: Database) -> None:
    assert not await hold_lease(database, "settle", "dead", -1)

    assert not await is_held(database, "dead")
    assert await hold_lease(database, "settle", "b", LONG_S)
    assert not await hold_lease(database, "settle", "dead", LONG_S)


async def test_of_many_who_ask_first_one_gets_it_and_nobody_deadlocks(
    mysql: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for name in ("settle", "recover", "archive", "boards", "buckets"):
        asked = [hold_lease(mysql, name, f"owner-{n}", LONG_S) for n in range(20)]

        assert sum(await asyncio.gather(*asked)) == 1

    assert "tried again" not in caplog.text
