"""Claims saved up in the outbox, then relay and consumer drain them into rows."""

import statistics
import time
from typing import Any, Final

from app.services import Services
from bench import wrk
from bench.rows import RowCounter
from bench.stack import Stack

ROUNDS: Final = 5
CLAIMS: Final = 100_000
BATCH: Final = 100
DEADLINE_S: Final = 120.0


def bench_drain(stack: Stack) -> dict[str, Any]:
    """`drain_over_grab`: rows committed a second ÷ grabs answered a second just before."""
    ratios, drains, grabs = [], [], []
    with stack.api() as (port, _):
        for _ in range(ROUNDS):
            packet_id, public_id = stack.create_packet(CLAIMS)
            tickets = stack.tickets(packet_id, CLAIMS)
            seconds = 4
            answered = wrk.grab(port, public_id, tickets, seconds, stack.directory)
            _grab_the_rest(stack, packet_id)
            counter = RowCounter(stack, packet_id)
            with stack.workers():
                rate = _rows_a_second(counter)
            grabs.append(answered.per_second)
            drains.append(rate)
            ratios.append(rate / answered.per_second)
    return {
        "drain_over_grab": round(statistics.median(ratios), 3),
        "drain_rows_per_s": round(statistics.median(drains)),
        "drain_grabs_per_s": round(statistics.median(grabs)),
    }


def _grab_the_rest(stack: Stack, packet_id: Any) -> None:
    """What wrk left goes by script call, so that every round drains the same number."""

    async def rest(services: Services) -> None:
        number = 0
        while (counts := await services.live.counts(packet_id)) and counts.remaining:
            users = [f"rest{number + n}" for n in range(min(BATCH, counts.remaining))]
            await services.scripts.grab(packet_id, users)  # type: ignore[arg-type]
            number += BATCH

    stack.with_services(rest)


def _rows_a_second(counter: RowCounter) -> float:
    """From the first commit seen to the last row."""
    give_up_at = time.monotonic() + DEADLINE_S
    first: tuple[float, int] | None = None
    while time.monotonic() < give_up_at:
        rows, now_s = counter.rows(), time.monotonic()
        if first is None and rows > 0:
            first = now_s, rows
        if first is not None and rows >= CLAIMS:
            return (rows - first[1]) / (now_s - first[0])
        time.sleep(0.01)
    raise TimeoutError(f"{counter.rows()} of {CLAIMS} rows after {DEADLINE_S} s")
