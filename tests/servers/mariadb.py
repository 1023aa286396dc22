"""A private MariaDB server."""

from collections.abc import Sequence
from pathlib import Path

from tests.servers.database import BUFFER_POOL_MB, DatabaseServer
from tests.servers.next_root import server_command
from tests.servers.process import start_fresh


class MariaServer(DatabaseServer):
    name = "mariadb"
    program = "mariadbd"

    def installer(self) -> Sequence[str]:
        # Without --user, which would make the script change owners of installed files.
        return [
            *server_command("mariadb-install-db", self.directory),
            "--no-defaults",
            f"--datadir={self.data}",
            "--skip-test-db",
            "--skip-name-resolve",
        ]


def start_mariadb(directory: Path, *, buffer_pool_mb: int = BUFFER_POOL_MB) -> MariaServer:
    return start_fresh(lambda: MariaServer(directory, buffer_pool_mb=buffer_pool_mb))
