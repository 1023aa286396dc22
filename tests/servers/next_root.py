"""The next versions of the servers run with a folder of the project as their root directory.

deploy/install-next-servers.sh fills it. In it a link with its own path leads back to itself, so the
path of anything inside means the same to us and to the programs; outside they see nothing, so their
data has to be inside too.
"""

import os
from pathlib import Path

from tests.servers.programs import NotInstalled, find_program

# `make test STACK=next` sets it.
STACK = "REDPACKET_TEST_STACK"
NEXT_STACK = ("redis-server", "rabbitmq-server", "rabbitmqctl", "epmd")
ONLY_NEXT = ("mysqld",)
ROOT = Path(__file__).resolve().parents[2] / ".next-servers" / "root"
# RabbitMQ's own scripts come ahead of wrappers that only root and rabbitmq may run.
PLACES = ("/usr/lib/rabbitmq/bin", "/usr/sbin", "/usr/bin")


class OutOfSight(Exception):
    """The server could not see its directory; the message says what to do."""


def server_command(name: str, directory: Path) -> list[str]:
    """What runs a program of a server that has this directory; its arguments are to follow."""
    if name in ONLY_NEXT or (name in NEXT_STACK and os.environ.get(STACK) == "next"):
        return [*_enter_root(), "env", f"--chdir={_in_sight(directory)}", _find_next(name)]
    return [find_program(name)]


def _enter_root() -> list[str]:
    # Like env, both turn into the program that they run: its pid is the one that we hold.
    if os.geteuid() == 0:
        return ["chroot", str(ROOT)]
    return ["unshare", "--user", "--map-current-user", f"--root={ROOT}"]


def _in_sight(directory: Path) -> Path:
    path = directory.resolve()
    if not path.is_relative_to(ROOT):
        raise OutOfSight(f"{path} is not in {ROOT}; TMPDIR={ROOT}/tmp puts it there")
    return path


def _find_next(name: str) -> str:
    for place in PLACES:
        # Not followed: a link in there may lead to a path that only counts in there.
        if os.path.lexists(f"{ROOT}{place}/{name}"):
            return f"{place}/{name}"
    raise NotInstalled(f"{name} is not there; deploy/install-next-servers.sh fetches it")
