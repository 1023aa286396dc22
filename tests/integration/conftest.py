"""An empty, migrated database of each kind, and its books."""

from collections.abc import AsyncIterator

import pytest

from app.store.database import Database, open_database
from tests.integration.store.books import Books


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """MariaDB and SQLite in turn; SQLite has one connection, as in dev mode."""
    connections = 1 if database_url.startswith("sqlite") else 4
    async with open_database(database_url, connections) as opened:
        await opened.migrate()
        yield opened


@pytest.fixture
def books(database: Database) -> Books:
    return Books(database)


@pytest.fixture
async def mysql(mysql_url: str) -> AsyncIterator[Database]:
    """For what only a database with concurrent transactions can show."""
    async with open_database(mysql_url, connections=6) as opened:
        await opened.migrate()
        yield opened
