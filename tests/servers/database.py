"""What MariaDB and MySQL have in common as private servers."""

import asyncio
import os
import re
import secrets
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncmy
from asyncmy.errors import MySQLError

from tests.servers.guarded import run_to_end
from tests.servers.next_root import server_command
from tests.servers.ports import LOOPBACK, accepts_connections, free_port
from tests.servers.process import NotReady, ServerProcess
from tests.servers.programs import plain_environment

USER = "redpacket"
DATABASE = "redpacket"
BUFFER_POOL_MB = 128
INSTALL_DEADLINE_S = 120.0
CONNECT_TIMEOUT_S = 5
DATABASE_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")

ACCOUNTS = """CREATE DATABASE IF NOT EXISTS {database};
CREATE USER IF NOT EXISTS '{user}'@'{host}' IDENTIFIED BY '{password}';
GRANT ALL ON *.* TO '{user}'@'{host}' WITH GRANT OPTION;
"""


class DatabaseServer(ServerProcess):
    """A server that flushes its log at every commit; `url` names an empty database of it."""

    program: str
    own_settings: Sequence[str] = ()

    def __init__(self, directory: Path, *, buffer_pool_mb: int) -> None:
        super().__init__(directory)
        self.port = free_port()
        self._buffer_pool_mb = buffer_pool_mb
        self._password = secrets.token_hex(12)
        self.data = self.directory / "data"
        self._accounts = self.directory / "accounts.sql"
        self._accounts.touch(mode=0o600)
        self._accounts.write_text(
            ACCOUNTS.format(database=DATABASE, user=USER, host=LOOPBACK, password=self._password)
        )
        if not self.data.exists():
            self._install()

    @abstractmethod
    def installer(self) -> Sequence[str]:
        """The command that fills the data directory `data`."""

    @property
    def url(self) -> str:
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        return f"mysql://{USER}:{self._password}@{LOOPBACK}:{self.port}/{database}"

    def command(self) -> Sequence[str]:
        return [
            *server_command(self.program, self.directory),
            "--no-defaults",
            *run_as_self(),
            f"--datadir={self.data}",
            f"--tmpdir={self.directory}",
            f"--init-file={self._accounts}",
            f"--bind-address={LOOPBACK}",
            f"--port={self.port}",
            # Relative to the data directory: a socket's path must stay under 108 bytes.
            f"--socket={self.name}.sock",
            f"--pid-file={self.name}.pid",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--performance-schema=OFF",
            "--character-set-server=utf8mb4",
            "--max-connections=500",
            f"--innodb-buffer-pool-size={self._buffer_pool_mb}M",
            "--innodb-flush-log-at-trx-commit=1",
            *self.own_settings,
        ]

    def probe(self) -> None:
        if not accepts_connections(self.port):
            raise NotReady(f"nothing listens on port {self.port}")
        try:
            self._execute("SELECT 1")
        except MySQLError as error:
            raise NotReady(str(error)) from error

    def create_database(self, name: str) -> str:
        """Create an empty database and return its URL."""
        if not DATABASE_NAME.fullmatch(name):
            raise ValueError(f"not a plain database name: {name!r}")
        self._execute(f"CREATE DATABASE `{name}`")
        return self.url_of(name)

    def drop_database(self, name: str) -> None:
        if not DATABASE_NAME.fullmatch(name):
            raise ValueError(f"not a plain database name: {name!r}")
        self._execute(f"DROP DATABASE IF EXISTS `{name}`")

    def _execute(self, statement: str) -> None:
        async def execute() -> None:
            connection = await asyncmy.connect(
                host=LOOPBACK,
                port=self.port,
                user=USER,
                password=self._password,
                connect_timeout=CONNECT_TIMEOUT_S,
                autocommit=True,
            )
            try:
                async with connection.cursor() as cursor:
                    await cursor.execute(statement)
            finally:
                await connection.ensure_closed()

        _run_apart(execute)

    def _install(self) -> None:
        run_to_end(
            self.installer(),
            directory=self.directory,
            log=self.directory / "install.log",
            environment=plain_environment(),
            deadline_s=INSTALL_DEADLINE_S,
        )


def run_as_self() -> list[str]:
    # Only root is asked whom to run as; changing users would also undo the guard's death
    # signal, which the kernel clears with the credentials.
    return ["--user=root"] if os.geteuid() == 0 else []


def _run_apart(work: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run on a thread with its own event loop, as the caller may be inside a running one."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(lambda: asyncio.run(work())).result()
