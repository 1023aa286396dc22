"""While Redis is in trouble a process asks it nothing but one probe at a time."""

import asyncio

from app.services import Services
from tests.eventually import eventually
from tests.integration.money.lab import MoneyLab


async def calls(lab: MoneyLab, command: str) -> int:
    stats = await lab.redis("INFO", "commandstats")
    return int(stats.get(f"cmdstat_{command}", {}).get("calls", 0))


async def test_the_backlog_is_looked_at_only_while_redis_answers(services: Services) -> None:
    lab = MoneyLab(services)
    breaker, gate = services.redis_grabs.breaker, asyncio.Event()

    async def hanging_probe() -> None:
        await gate.wait()

    breaker._probe = hanging_probe
    breaker.trip("test")
    assert not services.admission.redis_answers
    # The look that was under way, if any, has ended once a read of its own is through.
    await services.redis.ping()
    before = await calls(lab, "xlen")
    for _ in range(3):
        await services.admission.look_at_backlog()
    assert await calls(lab, "xlen") == before

    gate.set()

    async def is_looked_at() -> bool:
        return await calls(lab, "xlen") > before

    await eventually(is_looked_at, what="a backlog that is looked at")
