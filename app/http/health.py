"""Alive: the loop turns. Ready: a grab would be answered, as running the script shows."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any, Final

from sanic import Blueprint, HTTPResponse, Request
from sanic.response import json

from app.services import Services

log = logging.getLogger(__name__)

CHECK_TIMEOUT_S: Final = 2.0  # a store that hangs is as bad as one that is gone


def health_routes(services: Services) -> Blueprint:
    blueprint = Blueprint("health")

    @blueprint.get("/healthz")
    async def alive(_: Request) -> HTTPResponse:
        return json({"status": "alive"})

    @blueprint.get("/readyz")
    async def ready(_: Request) -> HTTPResponse:
        redis, mysql = await asyncio.gather(
            _answers("redis", services.redis_grabs.probe()),
            _answers("mysql", services.database.ping()),
        )
        is_ready = redis and mysql
        return json(
            {
                "status": "ready" if is_ready else "not ready",
                "checks": {"redis": redis, "mysql": mysql},
            },
            status=200 if is_ready else 503,
        )

    return blueprint


async def _answers(name: str, check: Awaitable[Any]) -> bool:
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            await check
    except Exception as error:
        log.warning("not ready: %s: %r", name, error)
        return False
    return True
