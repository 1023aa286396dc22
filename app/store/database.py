"""Transactions on MySQL or SQLite that a cancelled caller can neither break nor leak."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from asyncmy import Connection
from asyncmy.errors import MySQLError
from tortoise import Tortoise
from tortoise.backends.base.client import BaseDBAsyncClient, TransactionalDBClient
from tortoise.backends.base.config_generator import expand_db_url
from tortoise.exceptions import IntegrityError, OperationalError
from tortoise.migrations.executor import MigrationExecutor, MigrationTarget

log = logging.getLogger(__name__)

T = TypeVar("T")

GATE_TIMEOUT_S: Final = 2.0
CONNECT_TIMEOUT_S: Final = 5
# Of any work as a whole, waiting for a connection included. The driver can limit a read, but
# never what it writes, nor its farewell: a peer that takes nothing more would hold it for ever.
WORK_TIMEOUT_S: Final = 20.0
FAREWELL_TIMEOUT_S: Final = 5.0
ATTEMPTS: Final = 5
_APP: Final = "redpacket"
_MODELS: Final = {"models": ["app.store.models"], "migrations": "app.store.migrations"}
# 1213 deadlock, 1205 lock wait, 1020 row changed since read: the transaction was rolled back.
_RETRYABLE_CODES: Final = {1213, 1205, 1020}


# What a row itself causes: 1048 NULL, 1264 out of range, 1366 wrong string, 1406 too long,
# 3819 and 4025 CHECK violated (MySQL, MariaDB). All else is the server's or network's trouble.
_DATA_CODES: Final = {1048, 1264, 1366, 1406, 3819, 4025}


class DatabaseBusy(Exception):
    """All connections were in use for longer than a request may wait."""


class Transaction:
    """Statements inside one transaction. SQL is written with %s placeholders for both dialects."""

    def __init__(self, client: TransactionalDBClient, dialect: str) -> None:
        self._client = client
        self.dialect: Final = dialect

    def now(self, plus_s: int = 0) -> str:
        """SQL for the database's own clock, in UTC, `plus_s` seconds from now."""
        return _now(self.dialect, plus_s)

    async def run(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement and return the number of rows it *changed*."""
        count, _ = await self._client.execute_query(_placeholders(sql, self.dialect), list(values))
        return count

    async def rows(self, sql: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        return await _rows(self._client, self.dialect, sql, values)

    async def insert(self, prefix: str, rows: Sequence[Sequence[Any]], suffix: str = "") -> int:
        """Run `prefix VALUES (...), (...) suffix` with all rows in one statement."""
        row = f"({', '.join(['%s'] * len(rows[0]))})"
        sql = f"{prefix} VALUES {', '.join([row] * len(rows))} {suffix}"
        return await self.run(sql, [value for values in rows for value in values])


class Database:
    """One pool of connections. Work runs in its own task: it ends even when its caller is gone."""

    def __init__(self, client: BaseDBAsyncClient, connections: int) -> None:
        self._client = client
        self.dialect: Final = client.capabilities.dialect
        self._gate = asyncio.Semaphore(connections)
        # One connection more than requests may use: what watches switches never waits for them.
        self._control_gate = asyncio.Semaphore(1)
        self._running: set[asyncio.Task[Any]] = set()

    async def transaction(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Run `work` in one transaction and commit; deadlocks are tried again.

        Raises DatabaseBusy before anything was begun. A connection lost during COMMIT, or no end
        within WORK_TIMEOUT_S, leaves the outcome unknown: `work` must be safe to ask for again.
        """
        return await self._to_the_end(lambda: self._attempts(work))

    async def read(self, query: Callable[[], Awaitable[T]]) -> T:
        """Run a Tortoise query on the pool."""

        async def run() -> T:
            return await query()

        return await self._to_the_end(run)

    async def rows(
        self, sql: str, values: Sequence[Any] = (), *, control: bool = False
    ) -> list[dict[str, Any]]:
        """Run one reading statement, written with %s placeholders, on the pool.

        `control`: on the connection that is kept for what steers the service.
        """
        gate = self._control_gate if control else self._gate
        return await self._to_the_end(lambda: _rows(self._client, self.dialect, sql, values), gate)

    def now(self, plus_s: int = 0) -> str:
        """SQL for the database's own clock, in UTC, `plus_s` seconds from now."""
        return _now(self.dialect, plus_s)

    async def ping(self) -> None:
        await self.read(lambda: self._client.execute_query("SELECT 1"))

    async def migrate(self) -> None:
        executor = MigrationExecutor(self._client, {_APP: _MODELS})
        await executor.migrate([MigrationTarget(app_label=_APP, name="__latest__")])

    async def _attempts(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                async with _begun(self._client) as client:
                    return await work(Transaction(client, self.dialect))
            except OperationalError as error:
                if attempt == ATTEMPTS or mysql_code(error) not in _RETRYABLE_CODES:
                    raise
                log.info("transaction tried again after %s", error)
        raise AssertionError("unreachable")

    async def _to_the_end(
        self, work: Callable[[], Coroutine[Any, Any, T]], gate: asyncio.Semaphore | None = None
    ) -> T:
        gate = gate or self._gate
        try:
            async with asyncio.timeout(GATE_TIMEOUT_S):
                await gate.acquire()
        except TimeoutError:
            raise DatabaseBusy from None

        def finished(task: asyncio.Task[Any]) -> None:
            self._running.discard(task)
            gate.release()
            # Whoever waits is told by the shield; a caller that is gone has nobody to be told.
            if not task.cancelled() and (error := task.exception()) is not None:
                log.debug("ended with %r", error)

        task = asyncio.create_task(_in_known_terms(work))
        self._running.add(task)
        task.add_done_callback(finished)
        return await asyncio.shield(task)


@asynccontextmanager
async def _begun(client: BaseDBAsyncClient) -> AsyncIterator[TransactionalDBClient]:
    """Tortoise's transaction, which by itself never gives back a connection whose BEGIN failed."""
    context = client._in_transaction()
    try:
        begun = await context.__aenter__()
    except BaseException as error:
        transactional = getattr(context, "client", None)
        connection = getattr(transactional, "_connection", None)
        pool = getattr(client, "_pool", None)
        if connection is not None and pool is not None:
            connection.close()
            await pool.release(connection)
        if isinstance(error, MySQLError):  # nor what opening a connection raises
            raise OperationalError(error) from error
        raise
    try:
        yield begun
    except asyncio.CancelledError as error:
        # Out of time: no roll-back is waited for, the server does it when the connection is gone.
        if isinstance(begun._connection, Connection):
            begun._connection.close()
        with suppress(MySQLError):
            await context.__aexit__(type(error), error, error.__traceback__)
        raise
    except BaseException as error:
        # On a connection that broke, rolling back fails as well and would hide why.
        with suppress(MySQLError):
            await context.__aexit__(type(error), error, error.__traceback__)
        raise
    else:
        try:
            await context.__aexit__(None, None, None)
        except MySQLError as error:  # Tortoise does not translate what COMMIT raises
            raise OperationalError(error) from error


async def _in_known_terms(work: Callable[[], Awaitable[T]]) -> T:
    """Raise as an OperationalError what Tortoise lets through of a connection in trouble."""
    limit = asyncio.timeout(WORK_TIMEOUT_S)
    try:
        async with limit:
            return await work()
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise OperationalError(f"the database took longer than {WORK_TIMEOUT_S} s") from error
    except MySQLError as error:
        raise OperationalError(error) from error
    except RuntimeError as error:
        # asyncmy and uvloop, of a transport that was reset before it could be set up.
        if "Transport" in str(error):
            raise OperationalError(error) from error
        raise


def is_data_error(error: Exception) -> bool:
    """Whether the rows are at fault, so that trying the same again cannot help."""
    if isinstance(error, IntegrityError):
        return True
    return isinstance(error, OperationalError) and mysql_code(error) in _DATA_CODES


def _now(dialect: str, plus_s: int) -> str:
    if dialect == "mysql":
        return f"(UTC_TIMESTAMP(3) + INTERVAL {plus_s} SECOND)"
    return f"strftime('%Y-%m-%d %H:%M:%f', 'now', '{plus_s:+d} seconds')"


async def _rows(
    client: BaseDBAsyncClient, dialect: str, sql: str, values: Sequence[Any]
) -> list[dict[str, Any]]:
    _, rows = await client.execute_query(_placeholders(sql, dialect), list(values))
    return [dict(row) for row in rows]


def _placeholders(sql: str, dialect: str) -> str:
    return sql.replace("%s", "?") if dialect == "sqlite" else sql


def mysql_code(error: OperationalError) -> int | None:
    """The number of the error in MySQL, where it comes from there."""
    cause = error.args[0] if error.args else None
    code = cause.args[0] if isinstance(cause, Exception) and cause.args else None
    return code if isinstance(code, int) else None


@asynccontextmanager
async def open_database(url: str, connections: int) -> AsyncIterator[Database]:
    """Open the pool at `url` (`mysql://user:password@host:port/name` or `sqlite:///path`)."""
    config = {
        "connections": {"default": _connection(url, connections)},
        "apps": {_APP: {**_MODELS, "default_connection": "default"}},
    }
    context = await Tortoise.init(config=config, use_tz=False, _enable_global_fallback=True)
    try:
        yield Database(context.connections.get("default"), connections)
    finally:
        try:
            async with asyncio.timeout(WORK_TIMEOUT_S + FAREWELL_TIMEOUT_S):
                await Tortoise.close_connections()
        except TimeoutError:
            log.warning("the connections to the database did not close in time")


def _connection(url: str, connections: int) -> dict[str, Any]:
    connection = expand_db_url(url)
    if urlsplit(url).scheme == "mysql":
        connection["credentials"] |= {
            "minsize": 1,
            "maxsize": connections + 1,
            "connect_timeout": CONNECT_TIMEOUT_S,
        }
    return connection
