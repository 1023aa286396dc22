"""The service's own processes, under the same guard as the servers they talk to."""

import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.config import Settings
from tests.servers.ports import LOOPBACK
from tests.servers.process import NotReady, ServerProcess
from tests.servers.programs import plain_environment

PROBE_TIMEOUT_S = 5.0
END_DEADLINE_S = 40.0


def environment_of(settings: Settings) -> dict[str, str]:
    """What `redpacket` reads at its start, as these settings say."""
    assert settings.amqp_url is not None
    return {
        "REDPACKET_REDIS_URL": settings.redis_url,
        "REDPACKET_MYSQL_URL": settings.mysql_url,
        "REDPACKET_AMQP_URL": settings.amqp_url,
        "REDPACKET_SECRET": settings.secret.decode("ascii"),
        "REDPACKET_JWT_SECRET": settings.tokens.key,
        "REDPACKET_PORT": str(settings.port),
        "REDPACKET_PARTITIONS": str(settings.partitions),
        "REDPACKET_DURABILITY": settings.durability,
        "REDPACKET_KEY_PREFIX": settings.key_prefix,
    }


def redpacket(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "app.cli", *arguments]


class Program(ServerProcess):
    """`redpacket` with some arguments: `serve` on `port`, or a worker, which has none."""

    def __init__(
        self,
        directory: Path,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        port: int | None = None,
    ) -> None:
        self.name = "-".join(arguments)
        super().__init__(directory)
        self._arguments = arguments
        self._environment = environment
        self._port = port

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._port}"

    def command(self) -> Sequence[str]:
        return redpacket(*self._arguments)

    def environment(self) -> dict[str, str]:
        return plain_environment() | dict(self._environment)

    def probe(self) -> None:
        if self._port is None:
            with self.log.open("rb") as log:
                log.seek(self._log_start)
                if b" starts\n" not in log.read():
                    raise NotReady("it has not said that it starts")
            return
        try:
            urllib.request.urlopen(f"{self.url}/readyz", timeout=PROBE_TIMEOUT_S).close()
        except urllib.error.HTTPError as error:
            raise NotReady(f"/readyz answers {error.code}") from error

    def end_in_order(self) -> int | None:
        """SIGTERM; returns the exit status, None if it did not end."""
        process = self._running()
        process.signal(signal.SIGTERM)
        status = process.exit_status(END_DEADLINE_S)
        self._release()
        return status
