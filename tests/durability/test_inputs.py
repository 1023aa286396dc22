"""A database that is gone for a minute, and a broker that comes back."""

import asyncio
import time

from tests.durability.fleet import MIDDLE, Fleet
from tests.eventually import eventually
from tests.servers.database import DatabaseServer
from tests.servers.rabbitmq import RabbitServer

DATABASE_GONE_S = 60.0
CONSUMERS_BACK_WITHIN_S = 15.0


async def test_a_database_that_is_gone_for_a_minute_costs_no_answer(
    fleet: Fleet, database_server: DatabaseServer
) -> None:
    crowd, users = await fleet.crowd()
    asking = asyncio.create_task(crowd.everybody(users))
    await crowd.reached(MIDDLE)
    await asyncio.to_thread(database_server.kill)
    gone_until_s = time.monotonic() + DATABASE_GONE_S

    await asking  # grabs go on without it
    while time.monotonic() < gone_until_s:
        await crowd.everybody(users[::10])
    await asyncio.to_thread(database_server.start)

    await fleet.reckon(crowd, "MariaDB gone for 60 s")
    assert not crowd.troubles


async def test_after_a_restart_of_the_broker_its_consumers_are_back_soon(
    fleet: Fleet, rabbitmq_server: RabbitServer
) -> None:
    await asyncio.to_thread(rabbitmq_server.restart)

    async def consumer_is_back() -> bool:
        state = await fleet.broker.state()
        return state is not None and state.consumers > 0

    await eventually(consumer_is_back, what="a consumer", deadline_s=CONSUMERS_BACK_WITHIN_S)
    crowd, users = await fleet.crowd()
    await crowd.everybody(users)
    await fleet.reckon(crowd, "RabbitMQ restarted")
