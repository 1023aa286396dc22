"""Where the installed servers are and what environment they get."""

import os
import shutil

# Where distributions keep servers that an ordinary user's PATH does not reach.
SYSTEM_PATH = ("/usr/local/sbin", "/usr/sbin", "/sbin")
# Ahead of PATH, where Debian puts a wrapper that only root and rabbitmq may run.
RABBITMQ_PATH = "/usr/lib/rabbitmq/bin"


class NotInstalled(Exception):
    """The program is not installed; the message says what installs it."""


def plain_environment() -> dict[str, str]:
    """Ours without what would steer a server: no settings of other installations."""
    kept = ("PATH", "HOME", "TMPDIR", "USER", "LOGNAME")
    environment = {key: os.environ[key] for key in kept if key in os.environ}
    return environment | {"LC_ALL": "C.UTF-8"}


def find_program(name: str) -> str:
    places = os.pathsep.join([RABBITMQ_PATH, os.environ.get("PATH", ""), *SYSTEM_PATH])
    found = shutil.which(name, path=places)
    if found is None:
        raise NotInstalled(f"{name} is not installed; deploy/install-servers.sh installs it")
    return found
