"""At half of full load: from answered grab to committed row, and what each process spends."""

import bisect
import statistics
import threading
import time
from typing import Any, Final

from bench import wrk
from bench.processes import cpu_us
from bench.rows import RowCounter
from bench.stack import Stack

SECONDS: Final = 10
CLAIMS: Final = 200_000
TRIAL_SECONDS: Final = 3
TRIAL_CLAIMS: Final = 100_000
CONNECTIONS: Final = 128
POLL_S: Final = 0.002
DEADLINE_S: Final = 60.0


def bench_lag(stack: Stack) -> dict[str, Any]:
    with stack.api() as (port, api_pid), stack.workers() as workers:
        full_per_s = _full_load(stack, port)
        delay_ms = _delay_for(stack, port, full_per_s / 2)
        packet_id, public_id = stack.create_packet(CLAIMS)
        tickets = stack.tickets(packet_id, CLAIMS)
        counter = RowCounter(stack, packet_id)
        pids = {
            "api": [api_pid],
            "redis": [stack.redis.pid],
            "relay": [workers["relay"]],
            "broker": stack.rabbitmq.pids,
            "consumer": [workers["ledger"]],
            "database": [stack.mariadb.pid],
        }
        before = {name: cpu_us(of_name) for name, of_name in pids.items()}
        watcher = _Watcher(counter)
        watcher.start()
        result = wrk.grab(
            *(port, public_id, tickets, SECONDS, stack.directory),
            connections=CONNECTIONS,
            delay_ms=delay_ms,
        )
        claims = _wait_until_quiet(watcher)
        watcher.stop()
        spent = {name: cpu_us(of_name) - before[name] for name, of_name in pids.items()}
        lags = watcher.lags_ms(counter.claimed_at_ms())
    per_mille = statistics.quantiles(lags, n=1000)
    return {
        "lag_p50_ms": round(per_mille[499], 1),
        "lag_p99_ms": round(per_mille[989], 1),
        "lag_max_ms": round(max(lags), 1),
        "lag_load_per_s": round(result.per_second),
        "lag_load_over_full": round(result.per_second / full_per_s, 2),
        "cpu_us_per_grab": {name: round(us / claims, 1) for name, us in spent.items()},
        "cpu_us_per_grab_sum": round(sum(spent.values()) / claims, 1),
    }


def _full_load(stack: Stack, port: int) -> float:
    return _load(stack, port, wrk.CONNECTIONS, 0)


def _delay_for(stack: Stack, port: int, wanted_per_s: float) -> int:
    """The pause before each request with which CONNECTIONS make `wanted_per_s`, by trial."""
    delay_ms = 1000 * CONNECTIONS / wanted_per_s
    made_per_s = _load(stack, port, CONNECTIONS, round(delay_ms))
    waiting_ms = 1000 * CONNECTIONS / made_per_s - delay_ms
    return max(1, round(delay_ms - waiting_ms))


def _load(stack: Stack, port: int, connections: int, delay_ms: int) -> float:
    packet_id, public_id = stack.create_packet(TRIAL_CLAIMS)
    tickets = stack.tickets(packet_id, TRIAL_CLAIMS)
    return wrk.grab(
        *(port, public_id, tickets, TRIAL_SECONDS, stack.directory),
        connections=connections,
        delay_ms=delay_ms,
    ).per_second


class _Watcher(threading.Thread):
    """Notes how many rows are committed at which time, every POLL_S."""

    def __init__(self, counter: RowCounter) -> None:
        super().__init__()
        self._counter = counter
        self._stopping = threading.Event()
        self.samples: list[tuple[int, float]] = []

    def run(self) -> None:
        while not self._stopping.wait(POLL_S):
            rows = self._counter.rows()
            if not self.samples or rows > self.samples[-1][0]:
                self.samples.append((rows, time.time() * 1000))

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def lags_ms(self, claimed_at_ms: list[int]) -> list[float]:
        """Rows are booked in order of seq: a claim is committed when the count has reached it."""
        counts = [rows for rows, _ in self.samples]
        return [
            self.samples[bisect.bisect_left(counts, seq)][1] - at_ms
            for seq, at_ms in enumerate(claimed_at_ms, start=1)
        ]


def _wait_until_quiet(watcher: _Watcher) -> int:
    """Wait until nothing has been booked for a second; returns the number of rows."""
    give_up_at = time.monotonic() + DEADLINE_S
    while time.monotonic() < give_up_at:
        if watcher.samples and time.time() * 1000 - watcher.samples[-1][1] > 1000:
            return watcher.samples[-1][0]
        time.sleep(0.05)
    raise TimeoutError("rows keep arriving")
