"""Everything a chaos run runs: real servers, the links to them, and the service's processes."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from app.config import Settings, settings_from_env
from app.exit_codes import COULD_NOT_RUN
from app.store.database import open_database
from tests.chaos.kinds import API, KINDS, STORES, Kind
from tests.chaos.member import Member
from tests.chaos.proxy import Proxy
from tests.eventually import eventually
from tests.integration.workers.broker import Broker
from tests.servers.guarded import ServerFailed, log_tail
from tests.servers.mariadb import MariaServer, start_mariadb
from tests.servers.ports import LOOPBACK, free_ports
from tests.servers.process import NotRunning, ServerProcess
from tests.servers.rabbitmq import RabbitServer, start_rabbitmq
from tests.servers.redis import RedisServer, start_redis

START_AGAIN_AFTER_S: Final = 0.3
COMES_UP_WITHIN_S: Final = 90.0
SUPERVISE_EVERY_S: Final = 0.3
# Whoever ends with COULD_NOT_RUN later than this did run.
STARTING_TAKES_S: Final = 15.0
PARTITIONS: Final = 8
SERVERS_SHARE: Final = 0.4  # of the faults of processes


@dataclass(slots=True)
class Stand:
    """`troubles` lists what went wrong with a process by itself: each is a failure of the run."""

    directory: Path
    redis: RedisServer
    mariadb: MariaServer
    rabbitmq: RabbitServer
    environment: dict[str, str]
    links: dict[str, Proxy] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    visitors: list[Member] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    refused_starts: int = 0
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)
    _started_s: dict[str, float] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """As a process of the service has them, but past the proxies."""
        return settings_from_env(self.environment)

    @property
    def servers(self) -> dict[str, ServerProcess]:
        return {"redis": self.redis, "mariadb": self.mariadb, "rabbitmq": self.rabbitmq}

    @property
    def api_urls(self) -> list[str]:
        return [member.url for member in self.members.values() if member.kind is API]

    @property
    def process_names(self) -> list[str]:
        return [*self.members, *STORES]

    def draw_process(self, rng: Random) -> str:
        """One of ours or a server; servers are few, and everything hangs on them."""
        return rng.choice(STORES if rng.random() < SERVERS_SHARE else list(self.members))

    def process(self, name: str) -> ServerProcess:
        member = self.members.get(name)
        return self.servers[name] if member is None else member

    def holder(self, name: str) -> asyncio.Lock:
        """Held by whoever may start, stop or spoil the process or link of this name."""
        return self._locks.setdefault(name, asyncio.Lock())

    def member(self, kind: Kind, name: str, port: int | None = None) -> Member:
        """A process of this kind, not started, whose links to its stores are the kind's."""
        return Member(name, kind, self.directory, self._environment_of(kind, port), port)

    async def start(self, process: ServerProcess) -> None:
        """Start, and again as long as it ends by itself: a store it needs may be in trouble."""
        give_up_at = time.monotonic() + COMES_UP_WITHIN_S
        while True:
            try:
                await asyncio.to_thread(process.start)
            except ServerFailed as failure:
                if time.monotonic() > give_up_at:
                    raise
                if not isinstance(process, Member):
                    self.troubles.append(f"{process.name} did not start: {failure}")
                self.refused_starts += 1
                await asyncio.sleep(START_AGAIN_AFTER_S)
                continue
            self._started_s[process.name] = time.monotonic()
            return

    async def supervise(self) -> None:
        """Start again what ended by itself, as an init system would; for ever."""
        while True:
            for member in self.members.values():
                lock = self.holder(member.name)
                if not lock.locked() and not member.is_running:
                    async with lock:
                        await self.make_run(member)
            await asyncio.sleep(SUPERVISE_EVERY_S)

    async def make_run(self, process: ServerProcess) -> None:
        """Have it running, whatever became of it. Its holder calls this."""
        if process.is_running:
            return
        self._note_end(process)
        await self.start(process)

    async def end_in_order(self, process: ServerProcess) -> None:
        """SIGTERM. A process of ours that does not end with 0 is trouble, unless it ended before"""
        if not isinstance(process, Member):
            await asyncio.to_thread(process.terminate)
            return
        with suppress(NotRunning):
            status = await asyncio.to_thread(process.end_in_order)
            if status not in (0, COULD_NOT_RUN):
                self._note(process, f"ended with {status} after SIGTERM")

    def _note_end(self, process: ServerProcess) -> None:
        status = process.exit_status
        if status is None:
            return
        ran_s = time.monotonic() - self._started_s.get(process.name, 0.0)
        if status == COULD_NOT_RUN and ran_s < STARTING_TAKES_S:
            self.refused_starts += 1
            return
        self._note(process, f"ended by itself with {status} after {ran_s:.1f} s")

    def _note(self, process: ServerProcess, what: str) -> None:
        self.troubles.append(f"{process.name} {what}\n{log_tail(process.log)}")

    def _environment_of(self, kind: Kind, port: int | None) -> dict[str, str]:
        urls = {"redis": "REDIS_URL", "mariadb": "MYSQL_URL", "rabbitmq": "AMQP_URL"}
        own = {} if port is None else {"REDPACKET_PORT": str(port)}
        for store in kind.stores:
            variable = f"REDPACKET_{urls[store]}"
            own[variable] = _through(self.environment[variable], self.links[kind.link(store)].port)
        return self.environment | own


def _through(url: str, port: int) -> str:
    """The same URL, through a proxy on `port`."""
    parts = urlsplit(url)
    credentials = parts.netloc.rpartition("@")[0]
    place = f"{LOOPBACK}:{port}"
    return urlunsplit(parts._replace(netloc=f"{credentials}@{place}" if credentials else place))


@asynccontextmanager
async def running_stand(directory: Path, rng: Random) -> AsyncIterator[Stand]:
    """Start everything, with queues that survive a kill. `rng` decides how many of each kind."""
    async with AsyncExitStack() as running:
        redis, mariadb, rabbitmq = await asyncio.gather(
            asyncio.to_thread(start_redis, directory / "redis"),
            asyncio.to_thread(start_mariadb, directory / "mariadb"),
            asyncio.to_thread(start_rabbitmq, directory / "rabbitmq"),
        )
        for server in (redis, mariadb, rabbitmq):
            running.enter_context(server)
        mysql_url = await asyncio.to_thread(mariadb.create_database, "chaos")
        environment = {
            "REDPACKET_REDIS_URL": redis.url,
            "REDPACKET_MYSQL_URL": mysql_url,
            "REDPACKET_AMQP_URL": rabbitmq.url,
            "REDPACKET_SECRET": secrets.token_hex(32),
            "REDPACKET_JWT_SECRET": secrets.token_hex(32),
            "REDPACKET_PARTITIONS": str(PARTITIONS),
        }
        stand = Stand(directory, redis, mariadb, rabbitmq, environment)
        async with open_database(mysql_url, 1) as database:
            await database.migrate()
        await _open_links(stand, running)
        await _start_members(stand, running, rng)
        yield stand


async def _open_links(stand: Stand, running: AsyncExitStack) -> None:
    ports = {"redis": stand.redis.port, "mariadb": stand.mariadb.port}
    ports["rabbitmq"] = stand.rabbitmq.port
    for kind in KINDS:
        for store in kind.stores:
            proxy = stand.links[kind.link(store)] = Proxy(ports[store])
            await proxy.open()
            running.callback(proxy.close)


async def _start_members(stand: Stand, running: AsyncExitStack, rng: Random) -> None:
    for kind in KINDS:
        count = rng.randint(kind.least, kind.most)
        ports = free_ports(count) if kind is API else [None] * count
        for number, port in enumerate(ports, start=1):
            member = stand.member(kind, f"{kind.name}-{number}", port)
            stand.members[member.name] = running.enter_context(member)
    await asyncio.gather(*(stand.start(member) for member in stand.members.values()))
    broker = Broker(stand.rabbitmq)

    async def all_consumed() -> bool:
        queues = [queue for kind in KINDS for queue in kind.queues]
        states = [await broker.state(queue) for queue in queues]
        return all(state is not None and state.consumers > 0 for state in states)

    await eventually(all_consumed, what="a consumer on every queue")
    # A queue declared less than a second ago does not outlive kill -9 (docs/durability.md).
    await asyncio.to_thread(stand.rabbitmq.flush_queue_names)
