"""A pause that ends early when told to stop."""

import asyncio
from contextlib import suppress


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Wait, but no longer than until `stop` is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
