"""Free loopback ports."""

import random
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"
LOWEST_PORT = 10_000
PORT_TRIES_MAX = 200


def free_port() -> int:
    """A port that nobody holds right now.

    It lies below the ephemeral range: a client that keeps knocking on a dead server's ephemeral
    port can end up connected to itself, and then the server cannot have its port back.
    """
    ceiling = _first_ephemeral_port()
    for _ in range(PORT_TRIES_MAX):
        port = random.randrange(LOWEST_PORT, ceiling)
        if _can_bind(port):
            return port
    raise OSError(f"no free port between {LOWEST_PORT} and {ceiling} in {PORT_TRIES_MAX} tries")


def free_ports(count: int) -> list[int]:
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return list(ports)


def accepts_connections(port: int) -> bool:
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1):
            return True
    except OSError:
        return False


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def _first_ephemeral_port() -> int:
    setting = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(setting.read_text().split()[0]) if setting.exists() else 32_768
    return max(first, LOWEST_PORT + 5_000)
