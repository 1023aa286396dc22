"""A private RabbitMQ node with an epmd of its own."""

import secrets
import socket
import struct
from collections.abc import Sequence
from pathlib import Path

from tests.servers.deadline import poll_until
from tests.servers.guarded import GuardedProcess, PortTaken, log_tail, run_to_end
from tests.servers.next_root import server_command
from tests.servers.ports import LOOPBACK, accepts_connections, free_ports
from tests.servers.process import START_DEADLINE_S, NotReady, ServerProcess, start_fresh
from tests.servers.programs import plain_environment

EPMD_DEADLINE_S = 10.0
CTL_DEADLINE_S = 60.0
PROBE_TIMEOUT_S = 5.0
HANDSHAKE = b"AMQP\x00\x00\x09\x01"
FRAME_HEADER = struct.Struct(">BHI")

# No rabbitmq.conf: translating that format costs a second at every start.
SETTINGS = """[
  {{rabbit, [
    {{tcp_listeners, [{{"{host}", {port}}}]}},
    {{vm_memory_high_watermark, {{absolute, 1073741824}}}},
    {{disk_free_limit, 50000000}}
  ]}},
  {{ra, [{{wal_max_size_bytes, 67108864}}]}}
].
"""
# Loading code is a ping-pong between threads; RabbitMQ's `none` makes start-up twice as long.
SPIN_BEFORE_SLEEP = "+sbwt short +sbwtdio short"
# Resolves the node's own host without the inet_gethost helper processes.
NAME_LOOKUP = '{lookup, [file]}.\n{host, {127,0,0,1}, ["localhost"]}.\n'


class RabbitServer(ServerProcess):
    name = "rabbitmq"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.port, self._dist_port, self._epmd_port = free_ports(3)
        self.node = f"redpacket-{self.port}@localhost"
        self._epmd: GuardedProcess | None = None
        self._write_files()

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{LOOPBACK}:{self.port}/?heartbeat=10"

    @property
    def pids(self) -> list[int]:
        epmd = self._epmd
        return super().pids + ([] if epmd is None else [epmd.pid, epmd.guard_pid])

    def command(self) -> Sequence[str]:
        return [*server_command("rabbitmq-server", self.directory), "-noinput"]

    def environment(self) -> dict[str, str]:
        at = self.directory
        # A VM that has its name from the start skips RabbitMQ's own epmd start and port checks.
        distribution = (
            f"-start_epmd false -sname {self.node} -kernel inet_dist_use_interface {{127,0,0,1}}"
            f" -kernel inet_dist_listen_min {self._dist_port}"
            f" -kernel inet_dist_listen_max {self._dist_port}"
        )
        return plain_environment() | {
            "HOME": str(at / "home"),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "ERL_INETRC": str(at / "inetrc"),
            "ERL_CRASH_DUMP": str(at / "erl_crash.dump"),
            # Makes the script exec the VM, so that the pid we hold is beam.smp itself.
            "RABBITMQ_ALLOW_INPUT": "1",
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{distribution} {SPIN_BEFORE_SLEEP}",
            "RABBITMQ_CTL_ERL_ARGS": "-start_epmd false"
            " -kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_CTL_DIST_PORT_MIN": "0",
            "RABBITMQ_CTL_DIST_PORT_MAX": "0",
            "RABBITMQ_MNESIA_BASE": str(at / "mnesia"),
            "RABBITMQ_LOG_BASE": str(at / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONF_ENV_FILE": str(at / "no-env.conf"),
            "RABBITMQ_CONFIG_FILE": str(at / "no-rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(at / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(at / "enabled_plugins"),
            "RABBITMQ_PLUGINS_EXPAND_DIR": str(at / "plugins"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(at / "generated"),
        }

    def start(self, deadline_s: float = START_DEADLINE_S) -> None:
        try:
            self._ensure_epmd()
        except BaseException:
            self.stop()
            raise
        super().start(deadline_s)

    def stop(self) -> None:
        super().stop()
        epmd, self._epmd = self._epmd, None
        if epmd is not None:
            epmd.release()

    def probe(self) -> None:
        """Open the AMQP handshake: the server's answer carries the name of its node."""
        with socket.create_connection((LOOPBACK, self.port), timeout=PROBE_TIMEOUT_S) as link:
            link.sendall(HANDSHAKE)
            with link.makefile("rb") as answer:
                header = answer.read(FRAME_HEADER.size)
                if len(header) < FRAME_HEADER.size:
                    raise NotReady("the connection was closed during the handshake")
                greeting = answer.read(FRAME_HEADER.unpack(header)[2])
        if self.node.partition("@")[0].encode() + b"@" not in greeting:
            raise NotReady(f"port {self.port} is answered by another server")

    def ctl(self, *arguments: str, deadline_s: float = CTL_DEADLINE_S) -> str:
        """Run rabbitmqctl on this node and return what it prints."""
        log = self.directory / f"ctl-{secrets.token_hex(4)}.log"
        try:
            rabbitmqctl = server_command("rabbitmqctl", self.directory)
            return run_to_end(
                [*rabbitmqctl, "--quiet", "--node", self.node, *arguments],
                directory=self.directory,
                log=log,
                environment=self.environment(),
                deadline_s=deadline_s,
            )
        finally:
            log.unlink(missing_ok=True)

    def flush_queue_names(self) -> None:
        """Make newly declared quorum queues outlive `kill()`.

        Until 3.13 a node writes the name of a new quorum queue to disk only half a second or
        more after it has confirmed the declaration, even after messages in it were confirmed;
        killed before that it starts a queue without a leader (rabbitmq/ra pull 443). The file
        keeps bytes of deleted names, so looking into it tells nothing: it is flushed instead.
        """
        self.ctl("eval", "[ok = dets:sync(Table) || Table <- dets:all()].")

    def _ensure_epmd(self) -> None:
        if self._epmd is not None:
            if self._epmd.exit_status() is None:
                return
            self._epmd.release()
        program = server_command("epmd", self.directory)
        epmd = self._epmd = GuardedProcess(
            [*program, "-port", str(self._epmd_port), "-address", LOOPBACK],
            directory=self.directory,
            log=self.directory / "epmd.log",
            environment=plain_environment(),
        )
        poll_until(
            lambda: epmd.exit_status() is not None or accepts_connections(self._epmd_port),
            deadline_s=EPMD_DEADLINE_S,
            what=f"epmd answers on port {self._epmd_port}",
        )
        if epmd.exit_status() is not None:
            raise PortTaken(f"epmd ended at once\n{log_tail(self.directory / 'epmd.log')}")

    def _write_files(self) -> None:
        home = self.directory / "home"
        home.mkdir(exist_ok=True)
        cookie = home / ".erlang.cookie"
        if not cookie.exists():
            cookie.write_text(secrets.token_hex(16))
            cookie.chmod(0o400)
        (self.directory / "inetrc").write_text(NAME_LOOKUP)
        (self.directory / "enabled_plugins").write_text("[].\n")
        settings = SETTINGS.format(host=LOOPBACK, port=self.port)
        (self.directory / "advanced.config").write_text(settings)


def start_rabbitmq(directory: Path) -> RabbitServer:
    """A one-node RabbitMQ, loopback only, without plugins."""
    return start_fresh(lambda: RabbitServer(directory))
