"""MariaDB dies under load: refusals meanwhile, and afterwards every connection works again."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from app.config import Settings
from app.ledger.posting import InsufficientFunds
from app.services import open_services
from app.store.database import Database, Transaction
from tests.deployment import Answer, Deployment, MemoryDeadLetters, make_ready, running_api
from tests.eventually import eventually
from tests.servers.chosen import start_database
from tests.servers.database import DatabaseServer

CONNECTIONS = 3
MORE = 4 * CONNECTIONS
IN_TIME_S = 20.0
ORDER = {"total_fen": 100, "shares": 2}


@pytest.fixture
def own_database(tmp_path: Path) -> Iterator[DatabaseServer]:
    with start_database(tmp_path / "own-database", buffer_pool_mb=32) as server:
        yield server


@pytest.fixture
async def fragile(settings: Settings, own_database: DatabaseServer) -> AsyncIterator[Deployment]:
    """A deployment on a database of its own, with few connections."""
    own = replace(settings, mysql_url=own_database.url, mysql_connections=CONNECTIONS)
    async with open_services(own) as services:
        await make_ready(services)
        async with running_api(own, services) as url, aiohttp.ClientSession() as session:
            yield Deployment(own, services, url, session, MemoryDeadLetters())
        give_up_connections(services.database)


def give_up_connections(database: Database) -> None:
    """End what waits for a connection that was lost: a failure shows as one, not as a hang."""
    for task in database._running:
        task.cancel()
    pool: Any = database._client._pool
    pool.terminate()


async def create(deployment: Deployment, key: str) -> Answer:
    return await deployment.ask("POST", "/v1/packets", user="sender", body=ORDER, key=key)


async def create_many(deployment: Deployment, round_: str) -> list[Answer]:
    async with asyncio.timeout(IN_TIME_S):
        return await asyncio.gather(*(create(deployment, f"{round_}{n}") for n in range(MORE)))


async def held_at_once(deployment: Deployment) -> None:
    """Use every connection of the pool at the same time; a lost one would never come."""
    together = asyncio.Barrier(CONNECTIONS)

    async def hold(work: Transaction) -> None:
        await work.run("SELECT 1")
        await together.wait()

    async with asyncio.timeout(IN_TIME_S):
        database = deployment.services.database
        await asyncio.gather(*(database.transaction(hold) for _ in range(CONNECTIONS)))


async def test_requests_are_refused_while_the_database_is_dead_and_all_connections_come_back(
    fragile: Deployment, own_database: DatabaseServer
) -> None:
    await fragile.top_up("sender", 100 * 100)
    assert {answer.status for answer in await create_many(fragile, "before")} == {201}
    await held_at_once(fragile)

    own_database.kill()
    refused = await create_many(fragile, "meanwhile")
    reads = [await fragile.ask("GET", "/v1/account", user="sender") for _ in range(MORE)]
    own_database.start()

    assert {answer.status for answer in [*refused, *reads]} == {503}
    assert {answer.code for answer in [*refused, *reads]} <= {"unavailable", "overloaded"}
    assert {answer.status for answer in await create_many(fragile, "meanwhile")} == {201}
    await held_at_once(fragile)
    await books_are_right(fragile, packets=2 * MORE)


async def test_connections_that_died_unnoticed_cost_at_most_one_refusal_each(
    fragile: Deployment, own_database: DatabaseServer
) -> None:
    await fragile.top_up("sender", 100 * 100)
    await held_at_once(fragile)

    own_database.kill()
    own_database.start()
    answers = [await create(fragile, f"after{number}") for number in range(MORE)]

    refusals = [answer for answer in answers if answer.status != 201]
    assert len(refusals) <= CONNECTIONS
    assert {answer.code for answer in refusals} <= {"unavailable"}
    assert {answer.status for answer in await create_many(fragile, "after")} == {201}
    await held_at_once(fragile)
    await books_are_right(fragile, packets=MORE)


async def test_database_killed_in_the_middle_of_requests_leaves_no_half_and_loses_no_connection(
    fragile: Deployment, own_database: DatabaseServer
) -> None:
    await fragile.top_up("sender", 100 * 100)
    creating = asyncio.create_task(create_many(fragile, "during"))

    async def some_are_there() -> bool:
        return await packets_of(fragile) > 0

    await eventually(some_are_there, what="a first packet")
    own_database.kill()
    answers = await creating
    own_database.start()

    assert {answer.status for answer in answers} <= {201, 503}
    assert {answer.status for answer in await create_many(fragile, "during")} == {201}
    await held_at_once(fragile)
    await books_are_right(fragile, packets=MORE)


async def test_work_that_fails_by_itself_gives_its_connection_back(fragile: Deployment) -> None:
    async def fail(work: Transaction) -> None:
        await work.run("SELECT 1")
        raise InsufficientFunds("user:sender")

    for _ in range(MORE):
        with pytest.raises(InsufficientFunds):
            await fragile.services.database.transaction(fail)

    await held_at_once(fragile)


async def packets_of(deployment: Deployment) -> int:
    return await number(deployment, "SELECT COUNT(*) AS n FROM packet")


async def number(deployment: Deployment, sql: str) -> int:
    [row] = await deployment.services.database.transaction(lambda work: work.rows(sql))
    return int(row["n"])


async def books_are_right(deployment: Deployment, packets: int) -> None:
    assert await packets_of(deployment) == packets
    assert await number(deployment, "SELECT SUM(amount_fen) AS n FROM ledger_entry") == 0
    assert await number(deployment, "SELECT SUM(balance_fen) AS n FROM account") == 0
    escrow = "SELECT SUM(balance_fen) AS n FROM account WHERE id LIKE 'packet:%%'"
    assert await number(deployment, escrow) == 100 * packets
