"""A database that falls silent with the connection still open costs bounded time, and no more."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from tortoise.exceptions import OperationalError

import app.store.database
from app.store.database import Database, Transaction, open_database
from tests.chaos.proxy import Proxy

CONNECTIONS = 3
LIMIT_S = 0.5
SOON_S = 10.0
# More than the sockets on the way hold, so that writing it never ends while nobody reads.
TOO_MUCH = f"SELECT LENGTH('{'x' * (15 * 2**20)}')"


@pytest.fixture
async def link(mysql_url: str) -> AsyncIterator[Proxy]:
    port = urlsplit(mysql_url).port
    assert port is not None
    proxy = Proxy(port)
    await proxy.open()
    yield proxy
    proxy.close()


@pytest.fixture
async def behind_link(
    mysql_url: str, link: Proxy, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Database]:
    url = mysql_url.replace(f":{urlsplit(mysql_url).port}/", f":{link.port}/")
    async with asyncio.timeout(SOON_S), open_database(url, CONNECTIONS) as database:
        await all_connections_work(database)
        monkeypatch.setattr(app.store.database, "WORK_TIMEOUT_S", LIMIT_S)
        yield database


async def all_connections_work(database: Database) -> None:
    together = asyncio.Barrier(CONNECTIONS)

    async def hold(work: Transaction) -> None:
        await work.run("SELECT 1")
        await together.wait()

    await asyncio.gather(*(database.transaction(hold) for _ in range(CONNECTIONS)))


async def all_fail(database: Database, sql: str) -> None:
    async def ask(work: Transaction) -> None:
        await work.run(sql)

    outcomes = await asyncio.gather(
        *(database.transaction(ask) for _ in range(CONNECTIONS)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [OperationalError] * CONNECTIONS


@pytest.mark.parametrize("sql", ["SELECT 1", TOO_MUCH], ids=["a short one", "a long one"])
async def test_a_statement_that_is_never_answered(
    behind_link: Database, link: Proxy, sql: str
) -> None:
    with link.stalled():
        await all_fail(behind_link, sql)
    await all_connections_work(behind_link)


async def test_a_connection_that_is_never_greeted(behind_link: Database, link: Proxy) -> None:
    link.cut()
    with link.stalled():
        await all_fail(behind_link, "SELECT 1")
    await all_connections_work(behind_link)


async def test_a_reader_that_is_never_answered(behind_link: Database, link: Proxy) -> None:
    with link.stalled():
        for _ in range(2 * CONNECTIONS):
            with pytest.raises(OperationalError, match="took longer"):
                await behind_link.rows("SELECT 1 AS one")
    await all_connections_work(behind_link)


async def test_work_that_waits_for_something_else_holds_its_connection_no_longer_than_that(
    behind_link: Database,
) -> None:
    async def wait(work: Transaction) -> None:
        await work.run("SELECT 1")
        await asyncio.Event().wait()

    with pytest.raises(OperationalError, match="took longer"):
        await behind_link.transaction(wait)
    await all_connections_work(behind_link)


async def test_closing_the_pool_ends_while_the_database_is_silent(
    mysql_url: str, link: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.store.database, "WORK_TIMEOUT_S", LIMIT_S)
    monkeypatch.setattr(app.store.database, "FAREWELL_TIMEOUT_S", LIMIT_S)
    url = mysql_url.replace(f":{urlsplit(mysql_url).port}/", f":{link.port}/")
    async with asyncio.timeout(SOON_S):
        async with open_database(url, CONNECTIONS) as database:
            await all_connections_work(database)
            stalled = link.stalled()
            stalled.__enter__()
            await all_fail(database, TOO_MUCH)
        stalled.__exit__(None, None, None)
