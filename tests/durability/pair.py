"""A Redis and its replica behind an address that can be moved, and a service upon it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from redis import Redis

from app.config import Durability, Settings
from app.grabbing.coalescer import GrabUnavailable
from app.services import open_services
from lua.ids import PacketId
from lua.replies import Outcome
from tests.chaos.proxy import Proxy
from tests.deployment import make_ready, running_workers
from tests.eventually import eventually
from tests.integration.money.lab import MoneyLab
from tests.servers.ports import LOOPBACK
from tests.servers.redis import Fsync, RedisServer, start_redis
from workers.recoverer import Recoverer

# What a careful owner would run at each level; at `memory` nothing is asked of the server.
FSYNC: Final[dict[Durability, Fsync]] = {
    "fsync": "always",
    "replica": "always",
    "memory": "everysec",
}


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

    async def exchange_without_return(self) -> None:
        """The primary dies, and the other one takes its place with the data it has."""
        self.primary.kill()
        if not self.replica.is_running:
            await asyncio.to_thread(self.replica.start)
        with Redis.from_url(self.replica.url) as client:
            client.replicaof("NO", "ONE")
        self.address.lead_to(self.replica.port)
        self.primary, self.replica = self.replica, self.primary

    async def fail_over(self) -> None:
        """The primary dies, the replica is promoted, and the dead one comes back to follow it."""
        await self.exchange_without_return()
        await asyncio.to_thread(self.replica.start)
        with Redis.from_url(self.replica.url) as client:
            client.replicaof(LOOPBACK, str(self.primary.port))
        await self.in_step()


@asynccontextmanager
async def running_pair(directory: Path, appendfsync: Fsync) -> AsyncIterator[Pair]:
    async with AsyncExitStack() as running:
        primary = running.enter_context(start_redis(directory / "primary", appendfsync=appendfsync))
        follow = [f"replicaof {LOOPBACK} {primary.port}"]
        replica = running.enter_context(
            start_redis(directory / "replica", appendfsync=appendfsync, extra=follow)
        )
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


async def recovered(lab: MoneyLab) -> None:
    await lab.services.recovery.recover()
    await lab.services.redis_grabs.refresh_certificate()

    async def probe() -> bool:
        return lab.services.admission.redis_answers

    await eventually(probe, what="grabs that are let in again")


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


async def until_booked(lab: MoneyLab, packet_id: PacketId, claims: int) -> None:
    async def probe() -> bool:
        return len(await lab.claims(packet_id)) >= claims

    await eventually(probe, what=f"{claims} booked claims")
