"""Looks again and again, in the background, at what other processes may have changed."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from app.control.pausing import pause

log = logging.getLogger(__name__)

LOOK_TIMEOUT_S: Final = 1.0

Look = Callable[[], Awaitable[None]]


@asynccontextmanager
async def watching(*looks: tuple[str, Look, float]) -> AsyncIterator[None]:
    """For the length of the block call each look, first of all now, and then every so many seconds.

    A look that fails leaves what was known before.
    """
    # Told to stop, not cancelled: a client library may swallow a cancellation.
    stop = asyncio.Event()
    tasks = [asyncio.create_task(_watch(*look, stop)) for look in looks]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)


async def _watch(name: str, look: Look, every_s: float, stop: asyncio.Event) -> None:
    fails = False
    while not stop.is_set():
        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                await look()
            if fails:
                log.warning("%s: known again", name)
            fails = False
        except Exception as error:
            if not fails:
                log.warning("%s: %r; what was known before holds", name, error)
            fails = True
        await pause(stop, every_s)
