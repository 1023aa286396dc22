"""A private MySQL 9 server, of the next servers: Debian has no older one."""

from collections.abc import Sequence
from pathlib import Path

from tests.servers.database import BUFFER_POOL_MB, DatabaseServer, run_as_self
from tests.servers.next_root import server_command
from tests.servers.process import start_fresh


class MySqlServer(DatabaseServer):
    name = "mysql"
    program = "mysqld"
    # Without them it opens a second port, and insists on a folder that Debian's package makes.
    own_settings = ("--mysqlx=OFF", "--secure-file-priv=")

    def installer(self) -> Sequence[str]:
        return [
            *server_command(self.program, self.directory),
            "--no-defaults",
            *run_as_self(),
            f"--datadir={self.data}",
            "--initialize-insecure",
            *self.own_settings,
        ]


def start_mysql(directory: Path, *, buffer_pool_mb: int = BUFFER_POOL_MB) -> MySqlServer:
    return start_fresh(lambda: MySqlServer(directory, buffer_pool_mb=buffer_pool_mb))
