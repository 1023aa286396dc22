"""The life of one private server: start, kill, pause, restart, stop."""

import contextlib
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from tests.servers.deadline import POLL_EVERY_S
from tests.servers.guarded import GuardedProcess, PortTaken, ServerFailed, log_tail
from tests.servers.programs import plain_environment

START_DEADLINE_S = 60.0
STOP_DEADLINE_S = 60.0
FRESH_START_TRIES = 5
PORT_TAKEN_MARKS = ("already in use", "eaddrinuse", "address in use")


class NotReady(Exception):
    """The server does not answer yet."""


class NotRunning(Exception):
    """The server is not running."""


class ServerProcess(ABC):
    """One private server on fixed ports and in a directory of its own.

    Start, kill, pause and restart it at will, from any thread; data and ports stay the same.
    """

    name: str

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log = self.directory / f"{self.name}.log"
        self._log_start = 0
        self._process: GuardedProcess | None = None

    @property
    @abstractmethod
    def url(self) -> str: ...

    @abstractmethod
    def command(self) -> Sequence[str]: ...

    @abstractmethod
    def probe(self) -> None:
        """Return if this very server answers over its protocol; NotReady or OSError if not."""

    def environment(self) -> dict[str, str]:
        return plain_environment()

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def pids(self) -> list[int]:
        """Every process we started for this server: itself, its guard, companions."""
        process = self._process
        return [] if process is None else [process.pid, process.guard_pid]

    @property
    def is_running(self) -> bool:
        process = self._process
        return process is not None and process.exit_status() is None

    @property
    def exit_status(self) -> int | None:
        """How it ended by itself; None while it runs, and when we have ended it."""
        process = self._process
        return None if process is None else process.exit_status()

    def start(self, deadline_s: float = START_DEADLINE_S) -> None:
        if self.is_running:
            raise ServerFailed(f"{self.name} is running already")
        self._release()
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self._process = GuardedProcess(
            self.command(), directory=self.directory, log=self.log, environment=self.environment()
        )
        try:
            self.wait_ready(deadline_s)
        except BaseException:
            self.stop()
            raise

    def wait_ready(self, deadline_s: float = START_DEADLINE_S) -> None:
        """Poll the readiness probe until it passes; ServerFailed if it does not in time."""
        give_up_at = time.monotonic() + deadline_s
        while True:
            status = self._running().exit_status()
            if status is not None:
                raise self._failure(f"{self.name} ended with status {status} while starting")
            try:
                self.probe()
                return
            except (NotReady, OSError) as error:
                reason = error
            if time.monotonic() >= give_up_at:
                raise self._failure(f"{self.name} not ready within {deadline_s} s: {reason!r}")
            time.sleep(POLL_EVERY_S)

    def kill(self) -> None:
        """SIGKILL to the server itself; returns when it is gone."""
        process = self._running()
        process.signal(signal.SIGKILL)
        self._wait_ended(process, STOP_DEADLINE_S)

    def terminate(self, deadline_s: float = STOP_DEADLINE_S) -> None:
        """SIGTERM, so that the server shuts down in order; returns when it is gone."""
        process = self._running()
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGCONT)
        self._wait_ended(process, deadline_s)

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        self._running().signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().signal(signal.SIGCONT)

    def restart(self, deadline_s: float = START_DEADLINE_S) -> None:
        """Start again on the same ports and data, shutting down in order first if running."""
        if self.is_running:
            self.terminate()
        self.start(deadline_s)

    def stop(self) -> None:
        """The end: kill the server and everything that belongs to it. May be called again."""
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _running(self) -> GuardedProcess:
        if self._process is None:
            raise NotRunning(f"{self.name} in {self.directory} is not running")
        return self._process

    def _wait_ended(self, process: GuardedProcess, deadline_s: float) -> None:
        ended = process.exit_status(deadline_s) is not None
        self._release()
        if not ended:
            raise self._failure(f"{self.name} did not end within {deadline_s} s, killed it")

    def _release(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.release()

    def _failure(self, reason: str) -> ServerFailed:
        tail = log_tail(self.log, self._log_start)
        taken = any(mark in tail.lower() for mark in PORT_TAKEN_MARKS)
        return (PortTaken if taken else ServerFailed)(f"{reason}\n--- {self.log} ---\n{tail}")


Server = TypeVar("Server", bound=ServerProcess)


def start_fresh(make: Callable[[], Server]) -> Server:
    """Make and start a server; on a lost race for a port make another one, on other ports."""
    for _ in range(FRESH_START_TRIES - 1):
        server = make()
        with contextlib.suppress(PortTaken):
            server.start()
            return server
    server = make()
    server.start()
    return server
