"""The whole production stack on this machine: real servers, one API process, workers on demand."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import jwt
from redis import Redis
from tortoise.exceptions import BaseORMException

from app.auth.packet_ids import PacketIds
from app.auth.tickets import Tickets
from app.config import settings_from_env
from app.packets.funding import PacketOrder
from app.services import Services, open_services
from bench.processes import running, wait_for_http
from lua.ids import PacketId, UserId
from splitter.money import Fen
from splitter.terms import Terms
from tests.deployment import make_ready
from tests.servers.mariadb import MariaServer, start_mariadb
from tests.servers.ports import free_ports
from tests.servers.rabbitmq import RabbitServer, start_rabbitmq
from tests.servers.redis import RedisServer, start_redis

T = TypeVar("T")

BUFFER_POOL_MB: Final = 1024
SENDER: Final = UserId("bench-sender")
CREDENTIAL_SECONDS: Final = 3600
FEN_PER_SHARE: Final = 100


@dataclass(slots=True)
class Stack:
    """Running servers, and how to reach them. `environment` is what a `redpacket` process gets."""

    directory: Path
    redis: RedisServer
    mariadb: MariaServer
    rabbitmq: RabbitServer
    environment: dict[str, str]
    ports: list[int] = field(default_factory=list)
    _users: int = 0

    def redis_client(self) -> Redis:
        return Redis.from_url(self.redis.url)

    def with_services(self, work: Callable[[Services], Awaitable[T]]) -> T:
        """Run `work` on services that are opened for it alone."""

        async def run() -> T:
            async with open_services(settings_from_env(self.environment)) as services:
                with suppress(BaseORMException):  # before there are tables
                    await services.redis_grabs.refresh_certificate()
                return await work(services)

        return asyncio.run(run())

    def make_ready(self) -> None:
        """Make the tables, and certify Redis for them."""
        self.with_services(make_ready)

    def create_packet(self, shares: int) -> tuple[PacketId, str]:
        """Fund and open a packet; returns its id and its public id."""
        total_fen = Fen(shares * FEN_PER_SHARE)

        async def create(services: Services) -> PacketId:
            await services.accounts.top_up(SENDER, SENDER, total_fen, secrets.token_hex(8))
            order = PacketOrder(SENDER, Terms("lucky", total_fen, shares))
            packet = await services.funding.fund(order, secrets.token_hex(8))
            await services.opener.open(packet)
            return PacketId(packet.id)

        packet_id = self.with_services(create)
        return packet_id, PacketIds(self._secret).write(packet_id)

    def tickets(self, packet_id: PacketId, count: int) -> list[str]:
        """Authorization headers of `count` users nobody has used before."""
        tickets = Tickets(self._secret)
        expires_at_s = int(time.time()) + CREDENTIAL_SECONDS
        return [
            f"Ticket {tickets.issue(packet_id, user, expires_at_s).text}"
            for user in self._new_users(count)
        ]

    def bearers(self, count: int) -> list[str]:
        expires_at_s = int(time.time()) + CREDENTIAL_SECONDS
        key = self.environment["REDPACKET_JWT_SECRET"]
        return [
            f"Bearer {jwt.encode({'sub': user, 'exp': expires_at_s}, key, algorithm='HS256')}"
            for user in self._new_users(count)
        ]

    @contextmanager
    def api(self) -> Iterator[tuple[int, int]]:
        """An API process; yields its port and pid."""
        [port] = free_ports(1)
        environment = self.environment | {"REDPACKET_PORT": str(port)}
        with running(["-m", "app.cli", "serve"], environment, self.directory / "api.log") as api:
            wait_for_http(f"http://127.0.0.1:{port}/healthz", api)
            yield port, api.pid

    @contextmanager
    def workers(self, *more: str) -> Iterator[dict[str, int]]:
        """A relay, a ledger consumer and `more` workers; yields their pids."""
        with ExitStack() as opened:
            pids = {}
            for name in ("ledger", "relay", *more):
                arguments = ["-m", "app.cli", "worker", name]
                log = self.directory / f"{name}.log"
                pids[name] = opened.enter_context(running(arguments, self.environment, log)).pid
            yield pids

    @property
    def _secret(self) -> bytes:
        return self.environment["REDPACKET_SECRET"].encode()

    def _new_users(self, count: int) -> list[UserId]:
        first = self._users
        self._users += count
        return [UserId(f"user{number}") for number in range(first, first + count)]


@contextmanager
def running_stack(directory: Path) -> Iterator[Stack]:
    with ExitStack() as opened:
        redis_server = opened.enter_context(start_redis(directory / "redis"))
        mariadb = opened.enter_context(
            start_mariadb(directory / "mariadb", buffer_pool_mb=BUFFER_POOL_MB)
        )
        rabbitmq = opened.enter_context(start_rabbitmq(directory / "rabbitmq"))
        environment: dict[str, Any] = {
            "REDPACKET_REDIS_URL": redis_server.url,
            "REDPACKET_MYSQL_URL": mariadb.create_database("bench"),
            "REDPACKET_AMQP_URL": rabbitmq.url,
            "REDPACKET_SECRET": secrets.token_hex(32),
            "REDPACKET_JWT_SECRET": secrets.token_hex(32),
        }
        stack = Stack(directory, redis_server, mariadb, rabbitmq, environment)
        stack.make_ready()
        yield stack
