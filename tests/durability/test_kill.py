"""kill -9 in the middle of thousands of grabs: no answer is lost, doubled or wrong by a fen."""

import asyncio

import pytest

from tests.durability.fleet import MIDDLE, SHARES, Fleet, kill_and_restart
from tests.servers.database import DatabaseServer
from tests.servers.process import ServerProcess
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer


@pytest.mark.parametrize("victim", ["api", "relay", "ledger", "rabbitmq", "redis", "database"])
async def test_every_answer_survives_the_kill_of_any_process(
    fleet: Fleet,
    victim: str,
    redis_server: RedisServer,
    rabbitmq_server: RabbitServer,
    database_server: DatabaseServer,
) -> None:
    processes: dict[str, ServerProcess] = {
        "api": fleet.api,
        "relay": fleet.relay,
        "ledger": fleet.ledger,
        "rabbitmq": rabbitmq_server,
        "redis": redis_server,
        "database": database_server,
    }
    crowd, users = await fleet.crowd()
    asking = asyncio.create_task(crowd.everybody(users))
    await crowd.reached(MIDDLE)

    await kill_and_restart(processes[victim])

    await asking
    await crowd.everybody(users[::10])  # who asks again is told the same
    await fleet.reckon(crowd, f"kill -9 {victim}")
    assert crowd.outcomes["grabbed"] + crowd.first_words["repeated"] == SHARES
