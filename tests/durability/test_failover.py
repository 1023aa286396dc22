"""A replica is promoted: what it has not, the level decides; what is given away, MySQL decides."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from redis import Redis

from app.config import Durability, Settings
from app.grabbing.coalescer import GrabUnavailable
from app.services import open_services
from lua.ids import PacketId
from lua.replies import Outcome
from tests.chaos.proxy import Proxy
from tests.deployment import make_ready, running_workers
from tests.eventually import eventually
from tests.integration.money.lab import MoneyLab, told, users
from tests.servers.ports import LOOPBACK
from tests.servers.redis import RedisServer, start_redis
from workers.recoverer import Recoverer

SHARES = 60


@dataclass
class Pair:
    """The service reaches the primary through an address that can be moved."""

    primary: RedisServer
    replica: RedisServer
    address: Proxy

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.address.port}/0"

    async def in_step(self) -> None:
        async def probe() -> bool:
            with Redis.from_url(self.replica.url) as client:
                replication = client.info("replication")
            return bool(
                replication["role"] == "slave"
                and replication["master_link_status"] == "up"
                and not replication["master_sync_in_progress"]
            )

        await eventually(probe, what="a replica in step")

    async def fail_over(self) -> None:
        """The primary dies, the replica is promoted, and the dead one comes back to follow it."""
        self.primary.kill()
        with Redis.from_url(self.replica.url) as client:
            client.replicaof("NO", "ONE")
        self.address.lead_to(self.replica.port)
        self.primary, self.replica = self.replica, self.primary
        await asyncio.to_thread(self.replica.start)
        with Redis.from_url(self.replica.url) as client:
            client.replicaof(LOOPBACK, str(self.primary.port))
        await self.in_step()


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with AsyncExitStack() as running:
        primary = running.enter_context(start_redis(tmp_path / "primary"))
        follow = [f"replicaof {LOOPBACK} {primary.port}"]
        replica = running.enter_context(start_redis(tmp_path / "replica", extra=follow))
        # Whoever is started again decides anew whom to follow.
        config = replica.directory / "redis.conf"
        config.write_text(config.read_text().replace(follow[0], ""))
        address = Proxy(primary.port)
        await address.open()
        running.callback(address.close)
        found = Pair(primary, replica, address)
        await found.in_step()
        yield found


@asynccontextmanager
async def service(settings: Settings, pair: Pair, level: Durability) -> AsyncIterator[MoneyLab]:
    own = replace(settings, redis_url=pair.url, durability=level)
    async with open_services(own) as services:
        await make_ready(services)
        stop = asyncio.Event()
        recovering = asyncio.create_task(Recoverer(services.recovery).run(stop))
        async with running_workers(services):
            yield MoneyLab(services)
        stop.set()
        await recovering


async def asked_until_answered(lab: MoneyLab, packet_id: PacketId, user: str) -> tuple[int, int]:
    async def probe() -> list[tuple[int, int]]:
        try:
            [grab] = await lab.grab(packet_id, user)
        except GrabUnavailable:
            return []
        assert grab.outcome in (Outcome.GRABBED, Outcome.REPEATED)
        return [(grab.seq, grab.amount_fen)]

    [claim] = await eventually(probe, what=f"an answer for {user}")
    return claim


async def booked(lab: MoneyLab, packet_id: PacketId, claims: int) -> None:
    async def probe() -> bool:
        return len(await lab.claims(packet_id)) >= claims

    await eventually(probe, what=f"{claims} booked claims")


async def test_at_level_replica_nobody_is_told_what_no_replica_has(
    settings: Settings, pair: Pair
) -> None:
    async with service(settings, pair, "replica") as lab:
        packet_id = await lab.packet(SHARES)
        ann = await asked_until_answered(lab, packet_id, "ann")
        pair.replica.pause()
        try:
            for user in ("bob", "bob", "ann"):  # a repeat is no more certain than the first time
                with pytest.raises(GrabUnavailable):
                    await lab.grab(packet_id, user)
        finally:
            pair.replica.resume()

        assert (await asked_until_answered(lab, packet_id, "bob"))[0] == 2
        assert await asked_until_answered(lab, packet_id, "ann") == ann


async def test_at_level_replica_a_promoted_replica_has_every_answer(
    settings: Settings, pair: Pair
) -> None:
    async with service(settings, pair, "replica") as lab:
        packet_id = await lab.packet(SHARES)
        had: dict[str, tuple[int, int]] = {}
        for number, user in enumerate(users(30)):
            had[user] = await asked_until_answered(lab, packet_id, user)
            if number in (9, 19):  # over and back, in the middle of it
                await pair.fail_over()

        for user, claim in had.items():
            assert await asked_until_answered(lab, packet_id, user) == claim
        for user in users(SHARES - 30, first=100):
            had[user] = await asked_until_answered(lab, packet_id, user)
        await booked(lab, packet_id, SHARES)
        assert await lab.claims(packet_id) == had
        assert await lab.conflicts() == []
        await lab.balanced()


async def test_at_level_fsync_a_replica_that_lags_is_compared_and_rebuilt(
    settings: Settings, pair: Pair
) -> None:
    """It lacks answered grabs. They had reached MySQL: they stand, and no share goes twice."""
    async with service(settings, pair, "fsync") as lab:
        packet_id = await lab.packet(SHARES)
        early = told(await lab.wins(packet_id, *users(10)))
        await pair.in_step()
        with Redis.from_url(pair.replica.url) as client:
            client.replicaof("NO", "ONE")  # it hears nothing more
        late = told(await lab.wins(packet_id, *users(10, first=11)))
        await booked(lab, packet_id, 20)

        await pair.fail_over()

        had = early | late
        for user, claim in had.items():
            assert await asked_until_answered(lab, packet_id, user) == claim
        for user in users(SHARES - 20, first=100):
            had[user] = await asked_until_answered(lab, packet_id, user)
        await booked(lab, packet_id, SHARES)
        assert await lab.claims(packet_id) == had
        assert await lab.conflicts() == []
        await lab.balanced()
