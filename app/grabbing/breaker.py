"""Answers at once while Redis does not: after the first sign of trouble nobody waits for it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from redis.exceptions import ReadOnlyError, RedisError, ResponseError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BreakerLimits:
    slow_s: float = 0.5  # a call without an answer for so long is trouble
    probe_every_s: float = 0.1
    probe_timeout_s: float = 0.5


class Breaker:
    """Closed, calls pass. Tripped, it is open: calls are refused, and one probe at a time is sent
    until one succeeds, which closes it again.
    """

    def __init__(
        self,
        probe: Callable[[], Awaitable[None]],
        limits: BreakerLimits,
        on_trip: Callable[[], None] = lambda: None,
    ) -> None:
        """`probe` raises while Redis would not answer grabs; `on_trip` lets go who waits now."""
        self._probe = probe
        self._limits = limits
        self._on_trip = on_trip
        self._probing: asyncio.Task[None] | None = None
        self._is_shut_down = False
        self.trips = 0

    @property
    def is_open(self) -> bool:
        return self._probing is not None

    def trip(self, reason: str) -> None:
        if self._probing is not None or self._is_shut_down:
            return
        self.trips += 1
        log.warning("Redis is not asked any more: %s", reason)
        self._probing = asyncio.get_running_loop().create_task(self._probe_until_it_answers())
        self._on_trip()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch one call: no answer for long, or a failure that is not this packet's own, trips."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._limits.slow_s, self.trip, "slow")
        try:
            yield
        except ReadOnlyError as error:  # no primary any more
            self.trip(repr(error))
            raise
        except ResponseError:  # Redis answers; this packet or its memory is in trouble
            raise
        except (RedisError, OSError) as error:
            self.trip(repr(error))
            raise
        finally:
            timer.cancel()

    async def shut_down(self) -> None:
        self._is_shut_down = True
        probing, self._probing = self._probing, None
        if probing is not None:
            probing.cancel()
            with suppress(asyncio.CancelledError):
                await probing

    async def _probe_until_it_answers(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._limits.probe_timeout_s):
                    await self._probe()
                break
            except Exception as error:
                log.debug("probe of Redis: %r", error)
            await asyncio.sleep(self._limits.probe_every_s)
        log.warning("Redis answers again")
        self._probing = None
