"""Redis, a Redis that is a cluster, and Valkey: one of each a session, a prefix a test."""

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.integration.lua.lab import Lab, LabServer
from tests.servers.redis import RedisServer, start_redis, start_valkey

SERVERS = ["standalone", "cluster", "valkey"]


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], LabServer]]:
    """Start a server of SERVERS when it is first asked for; all stop with the session."""
    started: dict[str, LabServer] = {}
    with ExitStack() as running:

        def start_once(name: str) -> LabServer:
            if name not in started:
                server = _start(name, tmp_path_factory)
                started[name] = LabServer(running.enter_context(server), name == "cluster")
            return started[name]

        yield start_once


def _start(name: str, tmp_path_factory: pytest.TempPathFactory) -> RedisServer:
    directory = tmp_path_factory.mktemp(name)
    if name == "valkey":
        return start_valkey(directory)
    return start_redis(directory, cluster=name == "cluster")


@pytest.fixture(params=SERVERS)
def place(request: pytest.FixtureRequest, start: Callable[[str], LabServer]) -> LabServer:
    return start(request.param)


@pytest.fixture
def prefix() -> str:
    return f"rp-{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def lab(place: LabServer, prefix: str) -> AsyncIterator[Lab]:
    lab = await Lab.enter(place, prefix)
    yield lab
    await lab.leave()


@pytest.fixture
async def cluster_lab(start: Callable[[str], LabServer], prefix: str) -> AsyncIterator[Lab]:
    lab = await Lab.enter(start("cluster"), prefix)
    yield lab
    await lab.leave()
