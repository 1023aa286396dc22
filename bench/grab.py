"""Grabs a second over HTTP, against the bare Sanic app in the same minutes on the same machine."""

import statistics
from pathlib import Path
from typing import Any, Final

from bench import wrk
from bench.processes import running, wait_for_http
from bench.stack import Stack
from tests.servers.ports import free_ports

ROUNDS: Final = 5
SECONDS: Final = 3
TICKETS: Final = 100_000
BEARERS: Final = 60_000
SOLD_OUT_SHARES: Final = 1_000


def bench_grab(stack: Stack) -> dict[str, Any]:
    """Alternates hello and ticket, JWT, sold-out; each ratio is to the hellos beside it."""
    [hello_port] = free_ports(1)
    directory = stack.directory
    hello_arguments = [str(Path(__file__).with_name("hello.py")), str(hello_port)]
    rates: dict[str, list[float]] = {name: [] for name in ("ticket", "jwt", "sold_out", "workers")}
    ratios: dict[str, list[float]] = {name: [] for name in rates}
    hellos: list[float] = []
    with running(hello_arguments, {}, directory / "hello.log") as hello, stack.api() as (port, _):
        wait_for_http(f"http://127.0.0.1:{hello_port}/", hello)
        sold_out = _SoldOut(stack, port)
        _one_round(stack, port, "ticket", sold_out)  # warms up, not counted
        for _ in range(ROUNDS):
            before = wrk.hello(hello_port, SECONDS, directory).per_second
            for name in ("ticket", "jwt", "sold_out"):
                rate = _one_round(stack, port, name, sold_out)
                after = wrk.hello(hello_port, SECONDS, directory).per_second
                rates[name].append(rate)
                ratios[name].append(rate / statistics.mean((before, after)))
                hellos.append(after)
                before = after
        with stack.workers():
            for _ in range(ROUNDS):
                before = wrk.hello(hello_port, SECONDS, directory).per_second
                rate = _one_round(stack, port, "ticket", sold_out)
                rates["workers"].append(rate)
                ratios["workers"].append(rate / before)
    return {
        "grab_over_hello": round(statistics.median(ratios["ticket"]), 3),
        "grab_jwt_over_hello": round(statistics.median(ratios["jwt"]), 3),
        "sold_out_over_hello": round(statistics.median(ratios["sold_out"]), 3),
        "grab_beside_workers_over_hello": round(statistics.median(ratios["workers"]), 3),
        "hello_per_s": round(statistics.median(hellos)),
        "grab_per_s": round(statistics.median(rates["ticket"])),
        "grab_jwt_per_s": round(statistics.median(rates["jwt"])),
        "sold_out_per_s": round(statistics.median(rates["sold_out"])),
        "grab_over_hello_rounds": [round(ratio, 3) for ratio in ratios["ticket"]],
        "sold_out_over_hello_rounds": [round(ratio, 3) for ratio in ratios["sold_out"]],
    }


class _SoldOut:
    """A packet that is sold out, with tickets of users who come too late."""

    def __init__(self, stack: Stack, port: int) -> None:
        packet_id, self.public_id = stack.create_packet(SOLD_OUT_SHARES)
        winners = stack.tickets(packet_id, SOLD_OUT_SHARES)
        wrk.grab(port, self.public_id, winners, 1, stack.directory, repeats_allowed=True)
        self.latecomers = stack.tickets(packet_id, TICKETS)


def _one_round(stack: Stack, port: int, name: str, sold_out: _SoldOut) -> float:
    directory = stack.directory
    if name == "sold_out":
        result = wrk.grab(port, sold_out.public_id, sold_out.latecomers, SECONDS, directory)
        return result.per_second
    packet_id, public_id = stack.create_packet(TICKETS)
    credentials = stack.bearers(BEARERS) if name == "jwt" else stack.tickets(packet_id, TICKETS)
    return wrk.grab(port, public_id, credentials, SECONDS, directory).per_second
