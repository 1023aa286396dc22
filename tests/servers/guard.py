"""Run one server as a child and take it down, descendants included, once the owner is gone.

    guard.py OWNER_PID LOG COMMAND...

The owner holds our stdin open and never writes to it: its end means "clean up". On stdout we say
`started PID`, and `exited STATUS` when the server ends by itself. A process of its own is needed
because PR_SET_PDEATHSIG watches the parent *thread*; this process has only one, so the server dies
with the guard, and the guard follows its owner whichever of the owner's threads started it.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
from collections.abc import Iterator

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# An owner that forked leaves a second holder of our stdin behind; then only getppid tells.
OWNER_CHECK_EVERY_S = 0.25
HANDLED = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ)


def prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def become_server(guard_pid: int, log: str, command: list[str]) -> None:
    """In the forked child: tie our life to the guard, then turn into the server."""
    os.setsid()
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard_pid:
        os._exit(1)
    for signum in HANDLED:
        signal.signal(signum, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    log_fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    os.execvp(command[0], command)


def launch(log: str, command: list[str]) -> int:
    guard_pid = os.getpid()
    server_pid = os.fork()
    if server_pid != 0:
        return server_pid
    try:
        become_server(guard_pid, log, command)
    except BaseException as error:
        os.write(2, f"cannot run {command[0]}: {error}\n".encode())
    os._exit(127)


def report(line: str) -> None:
    # The owner may be gone already, or may have stopped listening.
    with contextlib.suppress(OSError):
        os.write(1, f"{line}\n".encode())


def exit_status(server_pid: int) -> int | None:
    """How the server ended, or None; it stays a zombie so that its pid cannot be given away."""
    ended = os.waitid(os.P_PID, server_pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def watch(owner_pid: int, server_pid: int, wake_fd: int, told_to_stop: list[int]) -> None:
    reported = False
    while os.getppid() == owner_pid and not told_to_stop:
        if not reported and (status := exit_status(server_pid)) is not None:
            reported = True
            report(f"exited {status}")
        readable, _, _ = select.select([0, wake_fd], [], [], OWNER_CHECK_EVERY_S)
        if 0 in readable:
            return
        if wake_fd in readable:
            os.read(wake_fd, 4096)


def children() -> Iterator[int]:
    mine = str(os.getpid())
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stat:
                parent = stat.read().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if parent == mine:
            yield int(entry)


def kill_descendants() -> None:
    """Orphans come to us (we are their subreaper), so killing children until none is left does."""
    while True:
        for pid in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def main() -> None:
    owner_pid, log, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    told_to_stop: list[int] = []
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda signum, frame: None)
    signal.signal(signal.SIGTERM, lambda signum, frame: told_to_stop.append(signum))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    server_pid = launch(log, command)
    report(f"started {server_pid}")
    try:
        watch(owner_pid, server_pid, wake_read, told_to_stop)
    finally:
        kill_descendants()


if __name__ == "__main__":
    main()
