"""Drives wrk: one thread, keep-alive connections, every request with a credential of its own."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

CONNECTIONS: Final = 128

_SCRIPT: Final = """
local authorizations, next_one = {}, 0
function init(args)
  for line in io.lines('%(file)s') do authorizations[#authorizations + 1] = line end
end
function request()
  next_one = next_one + 1
  local authorization = authorizations[(next_one - 1) %% #authorizations + 1]
  return 'POST %(path)s HTTP/1.1\\r\\nHost: bench\\r\\n'
    .. 'Authorization: ' .. authorization .. '\\r\\n\\r\\n'
end
function delay() return %(delay_ms)d end
"""
_HELLO_SCRIPT: Final = "wrk.method = 'POST'\n"


class WrkResult(NamedTuple):
    requests: int
    per_second: float


class WrkFailed(Exception):
    """wrk saw errors, or ran out of credentials."""


def hello(port: int, seconds: int, directory: Path) -> WrkResult:
    script = directory / "hello.lua"
    script.write_text(_HELLO_SCRIPT, encoding="utf-8")
    return _run(f"http://127.0.0.1:{port}/hello", script, seconds, CONNECTIONS)


def grab(
    port: int,
    packet_id: str,
    authorizations: Sequence[str],
    seconds: int,
    directory: Path,
    *,
    repeats_allowed: bool = False,
    connections: int = CONNECTIONS,
    delay_ms: int = 0,
) -> WrkResult:
    """Grab `packet_id` with each of `authorizations` in turn for some seconds."""
    credentials, script = directory / "authorizations", directory / "grab.lua"
    credentials.write_text("\n".join(authorizations) + "\n", encoding="ascii")
    path = f"/v1/packets/{packet_id}/grab"
    text = _SCRIPT % {"file": credentials, "path": path, "delay_ms": delay_ms}
    if delay_ms == 0:
        text = text[: text.index("function delay")]
    script.write_text(text, encoding="utf-8")
    result = _run(f"http://127.0.0.1:{port}/", script, seconds, connections)
    if not repeats_allowed and result.requests + connections > len(authorizations):
        raise WrkFailed(f"{result.requests} requests used up {len(authorizations)} credentials")
    return result


def _run(url: str, script: Path, seconds: int, connections: int) -> WrkResult:
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "-s", str(script), url]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in output or "Socket errors" in output:
        raise WrkFailed(output)
    requests = re.search(r"(\d+) requests in", output)
    per_second = re.search(r"Requests/sec:\s+([\d.]+)", output)
    if requests is None or per_second is None:
        raise WrkFailed(output)
    return WrkResult(int(requests[1]), float(per_second[1]))
