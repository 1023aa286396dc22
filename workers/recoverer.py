"""Recovers Redis by itself: watches for a run that is not certified, one owner at a time."""

import asyncio
import logging
from typing import Final

from app.control.alarm import raise_alarm
from app.control.pausing import pause
from app.recovery.certificates import LeaseLost
from app.recovery.recovery import ForeignRedis, Recovery, RecoveryElsewhere, RunChanged
from workers.amqp import keep_running

log = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 0.2


class Recoverer:
    def __init__(self, recovery: Recovery) -> None:
        self._recovery = recovery

    async def run(self, stop: asyncio.Event) -> None:
        await keep_running("recoverer", lambda: self._recover_until(stop), stop)

    async def _recover_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            if await self._recovery.is_needed():
                await self._recover()
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
        if report.lost or report.stray:
            raise_alarm(
                "redis lost data",
                f"{len(report.lost)} packets were rebuilt and {report.stray} closed again",
            )
