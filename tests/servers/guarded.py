"""A process that cannot outlive us, and neither can its descendants."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.servers import guard
from tests.servers.deadline import POLL_EVERY_S

GUARD_DEADLINE_S = 20.0
LOG_TAIL_BYTES = 4_000


class ServerFailed(Exception):
    """The server could not be started or stopped; the message carries the tail of its log."""


class PortTaken(ServerFailed):
    """Somebody else took the port between our choosing it and the server's binding it."""


class GuardedProcess:
    """One process run by a guard that takes it and its descendants down when we are gone."""

    def __init__(
        self, command: Sequence[str], *, directory: Path, log: Path, environment: Mapping[str, str]
    ) -> None:
        self._unread = b""
        self._status: int | None = None
        self._lock = threading.Lock()
        with log.open("ab") as log_file:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, str(os.getpid()), str(log), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log_file,
                bufsize=0,
                cwd=directory,
                env=environment,
                start_new_session=True,
            )
        line = self._next_report(GUARD_DEADLINE_S)
        if line is None or not line.startswith("started "):
            self.release()
            raise ServerFailed(f"the guard of {command[0]} did not start it; see {log}")
        self.guard_pid = self._guard.pid
        self.pid = int(line.split()[1])

    def exit_status(self, wait_s: float = 0.0) -> int | None:
        """The exit code (negative: the signal) once the process has ended, else None."""
        give_up_at = time.monotonic() + wait_s
        while True:
            # Held for one short step at a time, so that nobody waits for another's long wait.
            with self._lock:
                if self._status is None:
                    line = self._next_report(min(wait_s, POLL_EVERY_S))
                    self._status = None if line is None else int(line.split()[1])
                if self._status is not None or time.monotonic() >= give_up_at:
                    return self._status

    def signal(self, signum: int) -> None:
        os.kill(self.pid, signum)

    def release(self) -> None:
        """Kill whatever is left of the process and its descendants, and end the guard."""
        with self._lock:
            if self._status is None:
                self._status = -signal.SIGKILL
            for pipe in (self._guard.stdin, self._guard.stdout):
                if pipe is not None:
                    pipe.close()
            self._guard.terminate()
            try:
                self._guard.wait(GUARD_DEADLINE_S)
            except subprocess.TimeoutExpired:
                self._guard.kill()
                self._guard.wait(GUARD_DEADLINE_S)

    def _next_report(self, wait_s: float) -> str | None:
        assert self._guard.stdout is not None
        give_up_at = time.monotonic() + wait_s
        while b"\n" not in self._unread:
            left = max(0.0, give_up_at - time.monotonic())
            readable, _, _ = select.select([self._guard.stdout], [], [], left)
            if not readable:
                return None
            chunk = os.read(self._guard.stdout.fileno(), 4096)
            if not chunk:
                # The guard is gone, and by PR_SET_PDEATHSIG the process with it.
                return f"exited {-signal.SIGKILL}"
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()


def run_to_end(
    command: Sequence[str],
    *,
    directory: Path,
    log: Path,
    environment: Mapping[str, str],
    deadline_s: float,
) -> str:
    """Run a tool under a guard and return its output; ServerFailed unless it exits with 0."""
    start = log.stat().st_size if log.exists() else 0
    process = GuardedProcess(command, directory=directory, log=log, environment=environment)
    try:
        status = process.exit_status(deadline_s)
    finally:
        process.release()
    output = log.read_bytes()[start:].decode(errors="replace")
    if status is None:
        raise ServerFailed(f"{command[0]} did not end within {deadline_s} s\n{output}")
    if status != 0:
        raise ServerFailed(f"{command[0]} ended with status {status}\n{output}")
    return output


def log_tail(log: Path, start: int = 0) -> str:
    """The end of a log, looking no further back than byte `start`."""
    if not log.exists():
        return "(no log)"
    with log.open("rb") as file:
        file.seek(max(start, log.stat().st_size - LOG_TAIL_BYTES))
        return file.read().decode(errors="replace")
