"""The database that this run of the tests uses as MySQL."""

import os
from pathlib import Path

from tests.servers.database import BUFFER_POOL_MB, DatabaseServer
from tests.servers.mariadb import start_mariadb
from tests.servers.mysql import start_mysql

# `make test DB=mysql` sets it.
DATABASE = "REDPACKET_TEST_DB"
STARTERS = {"mariadb": start_mariadb, "mysql": start_mysql}


def start_database(directory: Path, *, buffer_pool_mb: int = BUFFER_POOL_MB) -> DatabaseServer:
    """A server whose `.url` names an empty database; more can be created in it."""
    start = STARTERS[os.environ.get(DATABASE) or "mariadb"]
    return start(directory, buffer_pool_mb=buffer_pool_mb)
