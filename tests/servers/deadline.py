"""Polling with a deadline, the only way anything here waits."""

import time
from collections.abc import Callable

POLL_EVERY_S = 0.02


def poll_until(condition: Callable[[], bool], *, deadline_s: float, what: str) -> None:
    """Return as soon as `condition` holds; TimeoutError names `what` was waited for in vain."""
    give_up_at = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() >= give_up_at:
            raise TimeoutError(f"not within {deadline_s} s: {what}")
        time.sleep(POLL_EVERY_S)
