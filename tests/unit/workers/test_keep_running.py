"""What runs for ever: pauses between failures that grow, an end when told, a heartbeat."""

import asyncio

import pytest

from app.control.pausing import pause
from workers import amqp
from workers.amqp import FIRST_PAUSE_S, LONGEST_PAUSE_S, keep_running, with_heartbeat


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were asked for, none of which is made."""
    made: list[float] = []

    async def note(stop: asyncio.Event, seconds: float) -> None:
        made.append(seconds)

    monkeypatch.setattr(amqp, "pause", note)
    return made


async def test_pauses_double_up_to_the_longest(pauses: list[float]) -> None:
    stop = asyncio.Event()

    async def fail() -> None:
        if len(pauses) == 8:
            stop.set()
        raise ConnectionError

    await keep_running("test", fail, stop)

    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses[-2:] == [LONGEST_PAUSE_S, LONGEST_PAUSE_S]


async def test_work_is_not_begun_once_told_to_stop(pauses: list[float]) -> None:
    stop = asyncio.Event()
    stop.set()

    async def work() -> None:
        raise AssertionError("must not run")

    await keep_running("test", work, stop)

    assert pauses == []


async def test_a_cancelled_worker_ends() -> None:
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    running = asyncio.create_task(keep_running("test", work, asyncio.Event()))
    await begun.wait()
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_pause_ends_when_told_to_stop() -> None:
    stop = asyncio.Event()
    pausing = asyncio.create_task(pause(stop, 3600))
    await asyncio.sleep(0)

    stop.set()

    await pausing


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("amqp://guest:guest@localhost/", "amqp://guest:guest@localhost/?heartbeat=10"),
        ("amqp://localhost/v?name=x", "amqp://localhost/v?name=x&heartbeat=10"),
        ("amqp://localhost/?heartbeat=3", "amqp://localhost/?heartbeat=3"),
    ],
)
def test_a_dead_link_is_noticed_unless_the_url_says_when(url: str, expected: str) -> None:
    assert with_heartbeat(url) == expected
