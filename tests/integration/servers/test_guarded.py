"""The guard alone: exit codes, descendants that hide, programs that cannot be run."""

from pathlib import Path

import pytest

from tests.integration.servers.processes import is_alive, processes_of
from tests.servers.deadline import poll_until
from tests.servers.guarded import GuardedProcess, ServerFailed, run_to_end
from tests.servers.programs import NotInstalled, find_program, plain_environment


def guarded(tmp_path: Path, *command: str) -> GuardedProcess:
    return GuardedProcess(
        command, directory=tmp_path, log=tmp_path / "log", environment=plain_environment()
    )


def run(tmp_path: Path, script: str, deadline_s: float = 10) -> str:
    return run_to_end(
        ["sh", "-c", script],
        directory=tmp_path,
        log=tmp_path / "log",
        environment=plain_environment(),
        deadline_s=deadline_s,
    )


def test_tool_that_ends_well_returns_its_output(tmp_path: Path) -> None:
    assert run(tmp_path, "echo out; echo err >&2") == "out\nerr\n"


def test_tool_that_ends_badly_raises_with_its_output(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match=r"status 3\nbad luck"):
        run(tmp_path, "echo bad luck; exit 3")


def test_tool_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match="did not end"):
        run(tmp_path, "exec tail -f /dev/null", deadline_s=0.1)
    assert not processes_of(tmp_path)


def test_program_that_does_not_exist_ends_with_127_and_a_line_in_the_log(tmp_path: Path) -> None:
    process = guarded(tmp_path, str(tmp_path / "nothing"))
    assert process.exit_status(10) == 127
    process.release()
    assert "cannot run" in (tmp_path / "log").read_text()


def test_program_that_is_not_installed_names_the_script_that_installs_it() -> None:
    with pytest.raises(NotInstalled, match="install-servers"):
        find_program("no-such-server")


def test_release_also_kills_a_daemon_that_left_its_session_and_parent(tmp_path: Path) -> None:
    escaped = tmp_path / "escaped.pid"
    daemon = f"setsid sh -c 'echo $$ > {escaped}; exec tail -f /dev/null' &"
    process = guarded(tmp_path, "sh", "-c", daemon)
    assert process.exit_status(10) == 0
    poll_until(
        lambda: escaped.exists() and escaped.read_text().endswith("\n"),
        deadline_s=10,
        what="the daemon runs",
    )
    pid = int(escaped.read_text())
    assert is_alive(pid)
    process.release()
    assert not is_alive(pid)
