"""Free ports."""

import socket
from pathlib import Path

import pytest

from tests.servers import redis as redis_module
from tests.servers.ports import LOOPBACK, free_ports
from tests.servers.redis import start_redis


def test_free_ports_differ_and_can_be_bound() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.socket() as listener:
            listener.bind((LOOPBACK, port))


def test_server_that_lost_the_race_for_its_port_starts_on_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as rival:
        rival.bind((LOOPBACK, 0))
        rival.listen()
        taken = rival.getsockname()[1]
        answers = iter([[taken, 0]])
        monkeypatch.setattr(
            redis_module, "free_ports", lambda count: next(answers, None) or free_ports(count)
        )
        with start_redis(tmp_path) as server:
            assert server.port != taken
            server.wait_ready()
