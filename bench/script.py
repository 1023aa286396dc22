"""grab.lua alone, pipelined: how fast it is, and whether a large packet makes a grab dearer."""

import random
import statistics
import time
from typing import Any, Final

from bench.stack import Stack
from lua.ids import PacketId
from lua.keys import KeySpace
from lua.script import Script
from lua.scripts import tie_factor

SLICES: Final = 10
LARGE_SHARES: Final = 1_000_000
SMALL_SHARES: Final = 1_000
SMALL_PACKETS: Final = 100  # a slice: as many grabs as a tenth of the large packet
USERS_PER_CALL: Final = 32
CALLS_PER_PIPELINE: Final = 20
SHARES_PER_PUSH: Final = 1_000
FIRST_ID: Final = 1 << 40
TOKEN: Final = "bench.token"


class _ScriptBench:
    def __init__(self, stack: Stack) -> None:
        self._redis = stack.redis_client()
        self._keys = KeySpace()
        self._grab = Script("grab")
        self._redis.script_load(self._grab.under(TOKEN)[1])
        for key in self._keys.certificates():
            self._redis.set(key, TOKEN)
        self._random = random.Random(1)
        self._next_id = FIRST_ID

    def new_packet(self, shares: int) -> PacketId:
        """An open packet, written straight into Redis: opening is not what is measured."""
        packet_id = PacketId(self._next_id)
        self._next_id += 1
        keys = self._keys.packet(packet_id)
        now_ms = int(time.time() * 1000)
        self._redis.hset(
            keys.meta,
            mapping={
                "state": "open",
                "shares": shares,
                "opens_at_ms": now_ms - 1000,
                "expires_at_ms": now_ms + 3_600_000,
                "tie_factor": tie_factor(shares),
            },
        )
        for first in range(1, shares + 1, SHARES_PER_PUSH):
            seqs = range(first, min(first + SHARES_PER_PUSH, shares + 1))
            self._redis.rpush(keys.shares, *(f"{n}:{self._random.randint(1, 200)}" for n in seqs))
        return packet_id

    def grab(self, packet_id: PacketId, first_user: int, grabs: int) -> float:
        """Seconds for `grabs` users."""
        keys = self._keys.packet(packet_id)
        users = [f"user{number}" for number in range(first_user, first_user + grabs)]
        began_s = time.perf_counter()
        calls = range(0, grabs, USERS_PER_CALL)
        for first_call in range(0, len(calls), CALLS_PER_PIPELINE):
            pipeline = self._redis.pipeline(transaction=False)
            for start in calls[first_call : first_call + CALLS_PER_PIPELINE]:
                batch = users[start : start + USERS_PER_CALL]
                _, sha, count, *rest = self._grab.command(TOKEN, keys, [packet_id, *batch])
                pipeline.evalsha(sha, count, *rest)
            pipeline.execute()
        return time.perf_counter() - began_s

    def forget(self, packet_id: PacketId) -> None:
        keys = self._keys.packet(packet_id)
        self._redis.unlink(keys.meta, keys.shares, keys.claims, keys.board, keys.outbox)


def bench_script(stack: Stack) -> dict[str, Any]:
    """Alternates slices of one large packet, over its whole life, with small packets."""
    bench = _ScriptBench(stack)
    large = bench.new_packet(LARGE_SHARES)
    grabs = LARGE_SHARES // SLICES
    large_us, small_us, ratios = [], [], []
    for number in range(SLICES):
        small = [bench.new_packet(SMALL_SHARES) for _ in range(SMALL_PACKETS)]
        small_s = sum(bench.grab(packet_id, 0, SMALL_SHARES) for packet_id in small)
        for packet_id in small:
            bench.forget(packet_id)
        large_s = bench.grab(large, number * grabs, grabs)
        small_us.append(small_s / grabs * 1e6)
        large_us.append(large_s / grabs * 1e6)
        ratios.append(large_s / small_s)
    bench.forget(large)
    return {
        "script_grabs_per_s": round(1e6 / statistics.median(small_us)),
        "script_cost_1m_over_1k": round(statistics.median(ratios), 3),
        "script_us_per_grab_1k": round(statistics.median(small_us), 2),
        "script_us_per_grab_1m": round(statistics.median(large_us), 2),
    }
