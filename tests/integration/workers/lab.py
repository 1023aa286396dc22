"""Packets, grabs and workers inside a test, over real Redis, RabbitMQ and MariaDB."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from redis.exceptions import ResponseError

from app.ledger.dead_letters import DeadLetter, DeadLetters, list_letters
from app.packets.funding import PacketOrder
from app.services import Services
from app.store.models import Packet
from lua.ids import PacketId, UserId
from lua.replies import Grab
from splitter.money import Fen
from splitter.terms import Terms
from tests.eventually import eventually
from tests.integration.workers.broker import Broker
from workers.consumer import Consumer
from workers.dead_letter_keeper import dead_letter_keeper
from workers.ledger import LedgerHandler, ledger_consumer
from workers.publisher import AmqpPublisher
from workers.relay import Publisher, Relay, RelayLimits
from workers.topology import LEDGER_QUEUE

AT_MS = 1_790_000_000_000
SENDER = UserId("sender")
STOP_DEADLINE_S = 30.0
# Nothing counts as abandoned, or everything does.
NEVER_ABANDONED = RelayLimits(abandoned_ms=3_600_000, block_ms=50)
AT_ONCE_ABANDONED = RelayLimits(abandoned_ms=1, block_ms=50)


class Worker(Protocol):
    async def run(self, stop: asyncio.Event) -> None: ...


def entry(packet_id: Any, *rows: Any) -> bytes:
    """What grab.lua writes into the outbox, or what it never would."""
    return json.dumps({"packet_id": packet_id, "claimed_at_ms": AT_MS, "claims": rows}).encode()


def message_of(packet: Packet, user: str, grab: Grab) -> bytes:
    return entry(str(packet.id), [grab.seq, grab.amount_fen, user])


@asynccontextmanager
async def running(*workers: Worker) -> AsyncIterator[None]:
    """Run workers for the length of the block; they must end when told to."""
    stop = asyncio.Event()
    tasks = [asyncio.create_task(worker.run(stop)) for worker in workers]
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(STOP_DEADLINE_S):
            await asyncio.gather(*tasks)


@dataclass(slots=True)
class Collector:
    """A publisher that keeps what it is given, or breaks as often as it is told to."""

    failures_left: int = 0
    published: list[list[bytes]] = field(default_factory=list)
    failed: int = 0

    async def publish(self, bodies: Sequence[bytes]) -> None:
        if self.failures_left:
            self.failures_left -= 1
            self.failed += 1
            raise ConnectionError("the broker is gone")
        self.published.append(list(bodies))

    @property
    def lines(self) -> list[bytes]:
        return [line for bodies in self.published for body in bodies for line in body.split(b"\n")]


@dataclass(slots=True)
class Watched:
    """A real publisher, with a count of what it refused."""

    inner: AmqpPublisher
    failed: int = 0

    async def publish(self, bodies: Sequence[bytes]) -> None:
        try:
            await self.inner.publish(bodies)
        except Exception:
            self.failed += 1
            raise


@dataclass(slots=True)
class Lab:
    services: Services
    broker: Broker

    async def packet(self, shares: int, *, opened: bool = True) -> Packet:
        total_fen = Fen(shares * 100)
        await self.services.accounts.top_up(SENDER, SENDER, total_fen, secrets.token_hex(8))
        order = PacketOrder(SENDER, Terms("lucky", total_fen, shares))
        packet = await self.services.funding.fund(order, secrets.token_hex(8))
        if opened:
            await self.services.opener.open(packet)
        return packet

    async def grab(self, packet: Packet, *users: str) -> list[Grab]:
        """One script call, hence one outbox entry."""
        reply = await self.services.scripts.grab(
            PacketId(packet.id), [UserId(user) for user in users]
        )
        return reply.grabs

    async def rows(self, packet: Packet) -> list[tuple[int, str, int]]:
        rows = await self.services.database.transaction(
            lambda work: work.rows(
                "SELECT seq, user_id, amount_fen FROM claim WHERE packet_id = %s ORDER BY seq",
                [packet.id],
            )
        )
        return [(row["seq"], row["user_id"], row["amount_fen"]) for row in rows]

    async def booked(self, packet: Packet, claims: int) -> list[tuple[int, str, int]]:
        """The rows, once there are `claims` of them."""

        async def probe() -> list[tuple[int, str, int]]:
            rows = await self.rows(packet)
            return rows if len(rows) >= claims else []

        return await eventually(probe, what=f"{claims} booked claims")

    async def until_consumed(self) -> None:
        async def probe() -> bool:
            state = await self.broker.state()
            return state is not None and state.consumers == 1

        await eventually(probe, what="a consumer on the queue")

    @property
    def letters(self) -> DeadLetters:
        return DeadLetters(self.services.database, LEDGER_QUEUE)

    async def waiting_letters(self) -> list[DeadLetter]:
        return await list_letters(self.services.database, "waiting", 0, 10_000)

    async def dead_letters(self, count: int) -> list[DeadLetter]:
        """The dead letters that wait for a decision, once there are `count` of them."""

        async def probe() -> list[DeadLetter]:
            letters = await self.waiting_letters()
            return letters if len(letters) >= count else []

        return await eventually(probe, what=f"{count} dead letters")

    async def money_gap(self) -> int:
        """Fen by which balances and entries differ from balanced books."""

        [row] = await self.services.database.transaction(
            lambda work: work.rows(
                "SELECT ABS((SELECT COALESCE(SUM(balance_fen), 0) FROM account))"
                " + ABS((SELECT COALESCE(SUM(amount_fen), 0) FROM ledger_entry)) AS fen"
            )
        )
        return int(row["fen"])

    async def outbox(self) -> int:
        redis, streams = self.services.redis, self.services.keys.outboxes()
        return sum([await redis.xlen(stream) for stream in streams])

    async def outbox_is_empty(self) -> None:
        """Nothing is left in the streams, nor in the pending lists of their readers."""

        async def probe() -> bool:
            return await self.outbox() == 0 and await self.pending() == {}

        await eventually(probe, what="an empty outbox")

    async def pending(self) -> dict[str, int]:
        """Entries read and not acknowledged, by relay."""
        found: dict[str, int] = {}
        group = f"relay:{self.services.deployment.name}"
        for stream in self.services.keys.outboxes():
            try:
                readers = await self.services.redis.xinfo_consumers(stream, group)
            except ResponseError:  # no relay has been here yet
                continue
            for reader in readers:
                if reader["pending"]:
                    name = reader["name"].decode()
                    found[name] = found.get(name, 0) + reader["pending"]
        return found

    def relay(
        self,
        publisher: Publisher | None = None,
        name: str = "one",
        limits: RelayLimits = NEVER_ABANDONED,
    ) -> Relay:
        return Relay(
            self.services.redis,
            self.services.keys,
            self.services.deployment,
            publisher or AmqpPublisher(self.broker.url),
            name,
            limits,
        )

    def consumer(self, handler: LedgerHandler | None = None) -> Consumer:
        handler = handler or LedgerHandler(self.services.database, self.letters)
        return ledger_consumer(self.broker.url, handler)

    def keeper(self) -> Consumer:
        """What moves the broker's own dead letters into the table."""
        return dead_letter_keeper(self.broker.url, LEDGER_QUEUE, self.letters)


class HookedHandler(LedgerHandler):
    """Runs `before` and `after` around the real work, where a test wants trouble."""

    def __init__(
        self,
        lab: Lab,
        *,
        before: Callable[[], Awaitable[None]] | None = None,
        after: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(lab.services.database, lab.letters)
        self._before = before
        self._after = after

    async def handle(self, bodies: Sequence[bytes]) -> None:
        if self._before is not None:
            await self._before()
        await super().handle(bodies)
        if self._after is not None:
            await self._after()
