"""Redis loses what it had, at each level: what had reached MySQL survives."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

from app.config import Durability, Settings
from lua.ids import PacketId
from tests.durability.pair import Pair, asked_until_answered, service, until_booked
from tests.integration.money.lab import MoneyLab, told, users
from tests.servers.redis import RedisServer

SHARES = 40
EARLY, LATE = list(users(10)), list(users(10, first=11))


def data_of(server: RedisServer) -> dict[Path, bytes]:
    folder = server.directory / "appendonlydir"
    return {file: file.read_bytes() for file in folder.iterdir()}


async def come_back_with(server: RedisServer, data: dict[Path, bytes]) -> None:
    server.kill()
    for file in data_of(server):
        file.unlink()
    for file, content in data.items():
        file.write_bytes(content)
    await asyncio.to_thread(server.start)


async def flushed(lab: MoneyLab, pair: Pair, early: dict[Path, bytes]) -> None:
    await lab.redis("FLUSHALL")


async def scripts_flushed(lab: MoneyLab, pair: Pair, early: dict[Path, bytes]) -> None:
    await lab.redis("SCRIPT", "FLUSH")


async def restarted(lab: MoneyLab, pair: Pair, early: dict[Path, bytes]) -> None:
    await come_back_with(pair.primary, data_of(pair.primary))


async def disk_lost(lab: MoneyLab, pair: Pair, early: dict[Path, bytes]) -> None:
    await come_back_with(pair.primary, {})


async def older_copy(lab: MoneyLab, pair: Pair, early: dict[Path, bytes]) -> None:
    await come_back_with(pair.primary, early)


async def shares_deleted(lab: MoneyLab, pair: Pair, early: dict[Path, bytes]) -> None:
    [packet] = await lab.rows("SELECT id FROM packet")
    await lab.redis("DEL", lab.services.keys.packet(PacketId(packet["id"])).shares)
    await lab.services.recovery.recover()


async def claims_of_the_wrong_type(lab: MoneyLab, pair: Pair, early: dict[Path, bytes]) -> None:
    [packet] = await lab.rows("SELECT id FROM packet")
    await lab.redis("SET", lab.services.keys.packet(PacketId(packet["id"])).claims, "x")
    await lab.services.recovery.recover()


Loss = Callable[[MoneyLab, Pair, dict[Path, bytes]], Awaitable[None]]
LOSSES: Final[list[Loss]] = [
    flushed,
    scripts_flushed,
    restarted,
    disk_lost,
    older_copy,
    shares_deleted,
    claims_of_the_wrong_type,
]


@pytest.mark.parametrize("level", ["replica", "memory"])
@pytest.mark.parametrize("loss", LOSSES)
async def test_what_had_reached_mysql_survives(
    settings: Settings, pair: Pair, level: Durability, loss: Loss
) -> None:
    async with service(settings, pair, level) as lab:
        packet_id = await lab.packet(SHARES)
        had = told(await lab.wins(packet_id, *EARLY))
        await until_booked(lab, packet_id, len(EARLY))
        early = data_of(pair.primary)
        had |= told(await lab.wins(packet_id, *LATE))
        await until_booked(lab, packet_id, len(had))

        await loss(lab, pair, early)

        for user, claim in had.items():
            assert await asked_until_answered(lab, packet_id, user) == claim
        for user in users(SHARES - len(had), first=100):
            had[user] = await asked_until_answered(lab, packet_id, user)
        await until_booked(lab, packet_id, SHARES)
        assert await lab.claims(packet_id) == had
        assert await lab.conflicts() == []
        await lab.balanced()
