"""Processes of a bench run, and the CPU time that the operating system charges them with."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

START_DEADLINE_S: Final = 20.0
_TICK_US: Final = 1_000_000 / os.sysconf("SC_CLK_TCK")


def cpu_us(pids: Sequence[int]) -> float:
    """User and system time of the processes so far, ended children included, in microseconds."""
    total = 0.0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        total += sum(int(field) for field in fields[11:15]) * _TICK_US
    return total


@contextmanager
def running(
    arguments: Sequence[str], environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process of ours for the length of the block; SIGTERM ends it."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env=os.environ | dict(environment),
            stdout=output,
            stderr=output,
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(START_DEADLINE_S)


def wait_for_http(url: str, process: subprocess.Popen[bytes]) -> None:
    """Return once `url` answers anything at all."""
    give_up_at = time.monotonic() + START_DEADLINE_S
    while time.monotonic() < give_up_at:
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(url, timeout=1).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(f"{url} does not answer; exit code {process.poll()}")
