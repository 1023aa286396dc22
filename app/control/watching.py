"""Looks again and again, in the background, at what other processes may have changed."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

log = logging.getLogger(__name__)

Look = Callable[[], Awaitable[None]]


@asynccontextmanager
async def watching(*looks: tuple[str, Look, float]) -> AsyncIterator[None]:
    """For the length of the block call each look, first of all now, and then every so many seconds.

    A look that fails leaves what was known before.
    """
    tasks = [asyncio.create_task(_watch(name, look, every_s)) for name, look, every_s in looks]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _watch(name: str, look: Look, every_s: float) -> None:
    fails = False
    while True:
        try:
            async with asyncio.timeout(max(1.0, 4 * every_s)):
                await look()
            if fails:
                log.warning("%s: known again", name)
            fails = False
        except Exception as error:
            if not fails:
                log.warning("%s: %r; what was known before holds", name, error)
            fails = True
        await asyncio.sleep(every_s)
