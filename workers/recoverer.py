"""Recovers Redis by itself: watches for a run that is not certified, one owner at a time."""

import asyncio
import logging
from typing import Final

from app.control.alarm import raise_alarm
from app.control.pausing import pause
from app.recovery.certificates import LeaseLost
from app.recovery.deployment import ForeignRedis
from app.recovery.recovery import Recovery, RecoveryElsewhere, RunChanged
from app.redis_client import UnsafeRedis
from workers.amqp import keep_running

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 0.2
REBUILDS_EVERY_S: Final = 5.0


class Recoverer:
    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery

    async def run(self, stop: asyncio.Event) -> None:
        await keep_running("recoverer", lambda: self._recover_until(stop), stop)

    async def _recover_until(self, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        next_rebuilds_s = 0.0
        while not stop.is_set():
            if await self._recovery.is_needed():
                await self._recover()
            elif loop.time() >= next_rebuilds_s:
                await self._recovery.finish_rebuilds()
                next_rebuilds_s = loop.time() + REBUILDS_EVERY_S
            await pause(stop, LOOK_EVERY_S)

    async def _recover(self) -> None:
        try:
            report = await self._recovery.recover()
        except (RecoveryElsewhere, RunChanged, LeaseLost) as error:
            log.info("recovery begins again: %r", error)
            return
        except ForeignRedis as error:
            raise_alarm("foreign redis", str(error))
            raise
        except UnsafeRedis as error:
            raise_alarm("unsafe redis", str(error))
            raise
        for detail in report.failed.values():
            raise_alarm("packet not rebuilt", detail)
        if report.lost or report.stray:
            raise_alarm(
                "redis lost data",
                f"{len(report.lost)} packets lacked some and {report.stray} were closed again",
            )
