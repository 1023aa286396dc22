"""Waits for what must become true: by polling with a deadline, never by a fixed sleep."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE_S = 20.0
POLL_S = 0.02


async def eventually(
    probe: Callable[[], Awaitable[T]], *, what: str, deadline_s: float = DEADLINE_S
) -> T:
    """Return the first true answer of `probe`; TimeoutError names what did not come true."""
    give_up_at = time.monotonic() + deadline_s
    while True:
        found = await probe()
        if found:
            return found
        if time.monotonic() >= give_up_at:
            raise TimeoutError(f"not within {deadline_s} s: {what}")
        await asyncio.sleep(POLL_S)
