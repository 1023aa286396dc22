"""Private Redis and Valkey: they answer, survive a kill with their data, and can be paused."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis, RedisCluster
from redis.backoff import NoBackoff
from redis.exceptions import TimeoutError as RedisTimeout
from redis.retry import Retry

from tests.servers.guarded import ServerFailed
from tests.servers.redis import RedisServer, start_redis, start_valkey

STARTERS = [pytest.param(start_redis, id="redis"), pytest.param(start_valkey, id="valkey")]
Starter = Callable[[Path], RedisServer]


@pytest.fixture(params=STARTERS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    starter: Starter = request.param
    with starter(tmp_path) as started:
        yield started


def connect(server: RedisServer, timeout_s: float = 5.0) -> Redis:
    return Redis.from_url(
        server.url,
        decode_responses=True,
        socket_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
    )


def test_server_runs_with_the_settings_the_service_insists_on(server: RedisServer) -> None:
    with connect(server) as client:
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        assert client.config_get("appendfsync") == {"appendfsync": "always"}
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("save") == {"save": ""}
        assert client.config_get("bind") == {"bind": "127.0.0.1"}


def test_key_written_before_kill_is_there_after_restart(server: RedisServer) -> None:
    with connect(server) as client:
        client.set("rp:test:kept", "3.21")
    port, first_pid = server.port, server.pid
    server.kill()
    assert not server.is_running
    server.restart()
    assert server.port == port
    assert server.pid != first_pid
    with connect(server) as client:
        assert client.get("rp:test:kept") == "3.21"


def test_key_is_there_after_orderly_restart(server: RedisServer) -> None:
    with connect(server) as client:
        client.set("rp:test:kept", "1")
    server.restart()
    with connect(server) as client:
        assert client.get("rp:test:kept") == "1"


def test_paused_server_answers_nobody_until_resumed(server: RedisServer) -> None:
    with connect(server, timeout_s=0.2) as client:
        assert client.ping()
        server.pause()
        with pytest.raises(RedisTimeout):
            client.ping()
        server.resume()
        server.wait_ready()
        assert client.ping()


def test_paused_server_can_be_terminated(server: RedisServer) -> None:
    server.pause()
    server.terminate()
    assert not server.is_running


@pytest.mark.parametrize("starter", [start_redis, start_valkey])
def test_cluster_node_owns_every_slot_also_after_a_kill(
    starter: Callable[..., RedisServer], tmp_path: Path
) -> None:
    with starter(tmp_path, cluster=True) as server:
        with RedisCluster.from_url(server.url, decode_responses=True) as client:
            client.set("rp:{p01}:a", "1")
            client.set("rp:{p02}:b", "2")
        server.kill()
        server.restart()
        with RedisCluster.from_url(server.url, decode_responses=True) as client:
            assert client.get("rp:{p01}:a") == "1"
            assert client.get("rp:{p02}:b") == "2"


def test_extra_lines_reach_the_configuration(tmp_path: Path) -> None:
    with (
        start_redis(tmp_path, appendfsync="everysec", extra=["maxmemory 64mb"]) as server,
        connect(server) as client,
    ):
        assert client.config_get("maxmemory") == {"maxmemory": str(64 * 1024 * 1024)}
        assert client.config_get("appendfsync") == {"appendfsync": "everysec"}


def test_failed_start_carries_the_log(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="no-such-setting"):
        start_redis(tmp_path, extra=["no-such-setting 1"])
