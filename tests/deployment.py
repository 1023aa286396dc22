"""A service under test: how to run it inside a test, and how its clients talk to it."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import jwt
from sanic import Sanic

from app.config import Settings
from app.http.application import build_application
from app.ledger.claims import Rejected
from app.server import serve_application
from app.services import Services
from tests.eventually import eventually
from workers.ledger import DirectPublisher, LedgerHandler
from workers.relay import Relay, RelayLimits

RELAY_BLOCK_MS = 50


@dataclass(slots=True)
class MemoryDeadLetters:
    """Keeps dead letters for the test to look at."""

    rejected: list[Rejected] = field(default_factory=list)

    async def put(self, rejected: Sequence[Rejected]) -> None:
        self.rejected += rejected


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Any
    body: Any

    @property
    def code(self) -> str:
        return str(self.body["code"])


@dataclass(frozen=True, slots=True)
class Deployment:
    settings: Settings
    services: Services
    url: str
    session: aiohttp.ClientSession
    dead_letters: MemoryDeadLetters

    def token(self, user_id: str, *, admin: bool = False, **claims: Any) -> str:
        payload = {"sub": user_id, "exp": int(time.time()) + 600} | claims
        if admin:
            payload["role"] = "admin"
        return jwt.encode(payload, self.settings.tokens.key, algorithm="HS256")

    async def ask(
        self,
        method: str,
        path: str,
        *,
        user: str | None = None,
        admin: bool = False,
        authorization: str | None = None,
        body: Any = None,
        key: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Send a request as `user`, with a bearer token, or with `authorization` as it stands."""
        sent = dict(headers or {})
        if user is not None:
            sent["authorization"] = f"Bearer {self.token(user, admin=admin)}"
        if authorization is not None:
            sent["authorization"] = authorization
        if key is not None:
            sent["idempotency-key"] = key
        async with self.session.request(
            method, f"{self.url}{path}", headers=sent, json=body
        ) as response:
            content = await response.json(content_type=None) if response.status != 304 else None
            return Answer(response.status, response.headers, content)

    async def top_up(self, user: str, amount_fen: int) -> None:
        answer = await self.ask(
            "POST",
            f"/v1/admin/accounts/{user}/top-ups",
            user="root",
            admin=True,
            body={"amount_fen": amount_fen},
            key=f"top-up-{user}-{time.monotonic_ns()}",
        )
        assert answer.status == 201, answer

    async def create(self, sender: str, total_fen: int, shares: int, **terms: Any) -> str:
        """Give `sender` the money, create a packet with it and return the packet's id."""
        await self.top_up(sender, total_fen)
        answer = await self.ask(
            "POST",
            "/v1/packets",
            user=sender,
            body={"total_fen": total_fen, "shares": shares} | terms,
            key=f"create-{time.monotonic_ns()}",
        )
        assert answer.status == 201, answer
        return str(answer.body["packet_id"])

    async def grab(self, packet_id: str, user: str) -> Answer:
        return await self.ask("POST", f"/v1/packets/{packet_id}/grab", user=user)

    async def booked(self, packet_id: str, claims: int) -> dict[str, Any]:
        """The packet as read over HTTP, once `claims` claims of it are booked."""

        async def read() -> dict[str, Any]:
            answer = await self.ask("GET", f"/v1/packets/{packet_id}", user="reader")
            body: dict[str, Any] = answer.body
            return body if len(body["claims"]) >= claims else {}

        return await eventually(read, what=f"{claims} booked claims")


async def make_ready(services: Services) -> None:
    """Tables made, and Redis certified for them."""
    await services.database.migrate()
    await services.recovery.recover()
    await services.redis_grabs.refresh_certificate()


@asynccontextmanager
async def running_api(settings: Settings, services: Services) -> AsyncIterator[str]:
    """The HTTP service in this event loop."""
    stop, listening = asyncio.Event(), asyncio.Event()
    Sanic.test_mode = True  # lets several applications follow each other in one process
    app = build_application(services, name=f"test-{settings.key_prefix}")
    serving = asyncio.create_task(serve_application(app, settings, stop, listening))
    try:
        waiting = asyncio.create_task(listening.wait())
        await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
        yield f"http://{settings.host}:{settings.port}"
    finally:
        stop.set()
        await serving


@asynccontextmanager
async def running_workers(services: Services) -> AsyncIterator[MemoryDeadLetters]:
    """Relay and ledger without a broker between them, as in dev mode."""
    dead_letters = MemoryDeadLetters()
    handler = LedgerHandler(services.database, dead_letters)
    # A relay ends once its read does: a short one, for a test ends with it.
    limits = RelayLimits(block_ms=RELAY_BLOCK_MS)
    relay = Relay(
        *(services.redis, services.keys, services.deployment),
        *(DirectPublisher(handler), "test", limits),
    )
    stop = asyncio.Event()
    relaying = asyncio.create_task(relay.run(stop))
    try:
        yield dead_letters
    finally:
        stop.set()
        await relaying
