"""`redpacket serve`: one API process. Also runs inside dev mode."""

import asyncio
import gc
import logging
import signal
from contextlib import suppress
from typing import Any

from sanic import Sanic
from sanic.application.state import ApplicationServerInfo
from sanic.http.constants import HTTP

from app.config import Settings
from app.http.application import build_application
from app.services import open_services

log = logging.getLogger(__name__)


def stop_on_signals() -> asyncio.Event:
    """An event that SIGINT or SIGTERM sets."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


async def serve(settings: Settings, stop: asyncio.Event) -> None:
    """Serve until `stop`, then finish what was begun."""
    async with open_services(settings) as services:
        # What is loaded by now stays: the collector need not walk through it at every full pass.
        gc.collect()
        gc.freeze()
        await serve_application(build_application(services), settings, stop)


async def serve_application(
    app: Sanic[Any, Any],
    settings: Settings,
    stop: asyncio.Event,
    listening: asyncio.Event | None = None,
) -> None:
    # Sanic.run() notes this itself; without it every answer carries an empty alt-svc header.
    http1 = {"version": HTTP.VERSION_1, "port": settings.port}
    app.state.server_info.append(ApplicationServerInfo(settings=http1))
    server = await app.create_server(
        settings.host,
        settings.port,
        access_log=False,
        backlog=1024,
        return_asyncio_server=True,
        # A connection taken before startup() has rewritten the handlers keeps the old one, and
        # answers 500 to each of its requests for as long as it lives.
        asyncio_server_kwargs={"start_serving": False},
    )
    if server is None:
        raise RuntimeError("Sanic made no server")
    await server.startup()
    await server.before_start()
    await server.start_serving()
    await server.after_start()
    log.info("listening on %s:%d", settings.host, settings.port)
    if listening is not None:
        listening.set()
    try:
        await stop.wait()
    finally:
        log.info("stopping: no new connections, %d open", len(server.connections))
        server.close()
        await server.before_stop()
        await _drain(server.connections, settings.shutdown_seconds)
        await server.after_stop()


async def _drain(connections: set[Any], seconds: float) -> None:
    """Let running requests finish, for at most `seconds`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while connections:
                for connection in list(connections):
                    # Sanic calls a connection idle whose next request has arrived but not begun.
                    if not connection.recv_buffer:
                        connection.close_if_idle()
                await asyncio.sleep(0.02)
    for connection in list(connections):
        connection.abort()
