"""However a run ends, no process of its servers is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.servers.processes import descendants, is_alive, processes_of
from tests.servers.deadline import poll_until
from tests.servers.rabbitmq import start_rabbitmq
from tests.servers.redis import RedisServer, start_redis

ROOT = Path(__file__).parents[3]
ALL_GONE_WITHIN_S = 10.0
# Four servers and epmd, a guard each.
STARTED_PIDS = 10


@pytest.fixture
def run(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A child that has started every server, and the pids of what it started."""
    command = [sys.executable, "-m", "tests.integration.servers.run_all_servers", str(tmp_path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as child:
        try:
            assert child.stdout is not None
            yield child, [int(pid) for pid in child.stdout.readline().split()]
        finally:
            child.kill()


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with start_redis(tmp_path) as server:
        yield server


def assert_all_gone(directory: Path, pids: set[int]) -> None:
    poll_until(
        lambda: not processes_of(directory) and not any(is_alive(pid) for pid in pids),
        deadline_s=ALL_GONE_WITHIN_S,
        what=f"everything started in {directory} is gone",
    )


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_server_outlives_a_run_that_is_ended_by(
    signum: signal.Signals, run: tuple[subprocess.Popen[str], list[int]], tmp_path: Path
) -> None:
    child, pids = run
    assert len(pids) == STARTED_PIDS
    everyone = descendants(child.pid) | set(pids)
    assert all(is_alive(pid) for pid in pids)
    assert set(pids) <= set(processes_of(tmp_path))

    child.send_signal(signum)

    assert_all_gone(tmp_path, everyone)


def test_no_server_outlives_a_run_that_is_killed_while_they_start(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.integration.servers.run_all_servers", str(tmp_path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True
    ) as child:
        poll_until(
            lambda: (tmp_path / "rabbitmq" / "rabbitmq.log").exists(),
            deadline_s=60,
            what="RabbitMQ is being started",
        )
        everyone = descendants(child.pid)
        child.kill()

        assert_all_gone(tmp_path, everyone)


def test_server_dies_with_its_guard(redis: RedisServer, tmp_path: Path) -> None:
    server_pid, guard_pid = redis.pids

    os.kill(guard_pid, signal.SIGKILL)

    poll_until(lambda: not is_alive(server_pid), deadline_s=ALL_GONE_WITHIN_S, what="Redis is gone")
    assert not redis.is_running
    redis.restart()
    assert redis.is_running


def test_stop_leaves_no_process_and_may_be_called_again(tmp_path: Path) -> None:
    server = start_rabbitmq(tmp_path)
    everyone = descendants(os.getpid()) & set(processes_of(tmp_path))
    assert set(server.pids) <= everyone

    server.stop()
    server.stop()

    assert not processes_of(tmp_path)
    assert not any(is_alive(pid) for pid in everyone)


def test_stop_of_a_paused_server_leaves_no_process(redis: RedisServer, tmp_path: Path) -> None:
    redis.pause()
    redis.stop()
    assert not processes_of(tmp_path)


def test_killed_redis_leaves_no_process(redis: RedisServer, tmp_path: Path) -> None:
    redis.kill()
    assert not processes_of(tmp_path)
