"""The breaker: open at the first sign of trouble, one probe at a time, closed by itself."""

import asyncio
from collections.abc import Callable

import pytest
from redis.exceptions import ConnectionError, ReadOnlyError, ResponseError

from app.grabbing.breaker import Breaker, BreakerLimits
from tests.eventually import eventually

QUICK = BreakerLimits(slow_s=0.02, probe_every_s=0.01, probe_timeout_s=0.05)


class Server:
    """What is probed: down until told otherwise."""

    def __init__(self) -> None:
        self.is_up = False
        self.hangs = False
        self.probes = 0
        self.at_once = 0
        self.most_at_once = 0

    async def probe(self) -> None:
        self.probes += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.hangs:
                await asyncio.sleep(3600)
            if not self.is_up:
                raise ConnectionError("down")
        finally:
            self.at_once -= 1


async def closed_again(breaker: Breaker) -> None:
    async def probe() -> bool:
        return not breaker.is_open

    await eventually(probe, what="a closed breaker")


async def probed(server: Server, times: int) -> None:
    async def probe() -> bool:
        return server.probes >= times

    await eventually(probe, what=f"{times} probes")


async def test_it_heals_by_itself_with_one_probe_at_a_time() -> None:
    server = Server()
    breaker = Breaker(server.probe, QUICK)
    breaker.trip("test")
    breaker.trip("again")
    assert breaker.is_open
    await probed(server, 3)
    assert breaker.is_open

    server.is_up = True

    await closed_again(breaker)
    assert (server.most_at_once, breaker.trips) == (1, 1)


async def test_a_probe_that_hangs_is_given_up() -> None:
    server = Server()
    server.hangs = True
    breaker = Breaker(server.probe, QUICK)
    breaker.trip("test")
    await probed(server, 2)
    server.hangs, server.is_up = False, True

    await closed_again(breaker)


@pytest.mark.parametrize(
    ("error", "trips"),
    [
        (ConnectionError("gone"), True),
        (TimeoutError(), True),
        (OSError("reset"), True),
        (ReadOnlyError("a replica"), True),
        (ResponseError("WRONGTYPE"), False),
        (ResponseError("OOM command not allowed"), False),
    ],
)
async def test_what_is_the_servers_trouble_trips_and_what_is_a_packets_does_not(
    error: Exception, trips: bool
) -> None:
    breaker = Breaker(Server().probe, QUICK)
    with pytest.raises(type(error)), breaker.watching():
        raise error

    assert breaker.is_open is trips
    await breaker.shut_down()


async def test_a_call_without_an_answer_for_long_trips_and_lets_those_go_who_wait() -> None:
    let_go: list[str] = []
    release: Callable[[], None] = lambda: let_go.append("all")  # noqa: E731
    breaker = Breaker(Server().probe, QUICK, release)
    with breaker.watching():
        await asyncio.sleep(3 * QUICK.slow_s)
        assert breaker.is_open

    assert let_go == ["all"]
    await breaker.shut_down()


async def test_a_quick_call_leaves_it_closed_for_good() -> None:
    breaker = Breaker(Server().probe, QUICK)
    with breaker.watching():
        pass
    await asyncio.sleep(2 * QUICK.slow_s)

    assert not breaker.is_open


async def test_shut_down_it_trips_no_more() -> None:
    server = Server()
    breaker = Breaker(server.probe, QUICK)
    breaker.trip("test")
    await breaker.shut_down()
    breaker.trip("late")

    assert not breaker.is_open
