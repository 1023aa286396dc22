"""The private MariaDB or MySQL: committed rows survive a kill; it can be paused."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncmy
import pytest
from asyncmy.connection import Connection

from tests.servers.chosen import start_database
from tests.servers.database import DatabaseServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatabaseServer]:
    with start_database(tmp_path_factory.mktemp("database"), buffer_pool_mb=64) as started:
        yield started


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[Connection]:
    parts = urlsplit(url)
    connection = await asyncmy.connect(
        host=parts.hostname,
        port=parts.port,
        user=parts.username,
        password=parts.password,
        db=parts.path.lstrip("/"),
        connect_timeout=5,
        autocommit=True,
    )
    try:
        yield connection
    finally:
        await connection.ensure_closed()


async def execute(url: str, *statements: str) -> list[tuple[Any, ...]]:
    async with connect(url) as connection, connection.cursor() as cursor:
        for statement in statements:
            await cursor.execute(statement)
        return list(await cursor.fetchall())


async def test_server_runs_with_the_settings_it_promises(server: DatabaseServer) -> None:
    rows = await execute(
        server.url,
        "SELECT @@innodb_flush_log_at_trx_commit, @@performance_schema, @@character_set_server,"
        " @@innodb_buffer_pool_size, DATABASE()",
    )
    assert rows == [(1, 0, "utf8mb4", 64 * 1024 * 1024, "redpacket")]


async def test_transactions_repeat_their_reads(server: DatabaseServer) -> None:
    # MariaDB 10 has one of these names, MySQL 9 the other.
    rows = await execute(
        server.url,
        "SHOW VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation')",
    )
    assert {value for _, value in rows} == {"REPEATABLE-READ"}


async def test_committed_row_survives_kill(server: DatabaseServer) -> None:
    url = server.create_database("kept")
    await execute(
        url,
        "CREATE TABLE claim (user BIGINT PRIMARY KEY, amount_fen BIGINT NOT NULL)",
        "INSERT INTO claim VALUES (7, 321)",
    )
    port, first_pid = server.port, server.pid
    server.kill()
    assert not server.is_running
    server.restart()
    assert (server.port, server.pid != first_pid) == (port, True)
    assert await execute(url, "SELECT user, amount_fen FROM claim") == [(7, 321)]


async def test_paused_server_answers_nobody_until_resumed(server: DatabaseServer) -> None:
    server.pause()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(execute(server.url, "SELECT 1"), timeout=0.5)
    server.resume()
    server.wait_ready()
    assert await execute(server.url, "SELECT 1") == [(1,)]


async def test_databases_are_separate_and_can_be_dropped(server: DatabaseServer) -> None:
    first, second = server.create_database("one"), server.create_database("two")
    await execute(first, "CREATE TABLE only_here (id INT PRIMARY KEY)")
    assert await execute(second, "SHOW TABLES") == []
    server.drop_database("one")
    server.drop_database("two")


def test_database_name_that_is_not_plain_is_refused(server: DatabaseServer) -> None:
    with pytest.raises(ValueError, match="plain"):
        server.create_database("a`; DROP DATABASE mysql")


async def test_row_survives_in_a_directory_too_deep_for_a_socket_path(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    with start_database(deep) as server:
        assert await execute(server.url, "SELECT 1") == [(1,)]
