"""Alive: the loop turns. Ready: a grab would be answered, as running the script shows."""

import logging

from sanic import Blueprint, HTTPResponse, Request
from sanic.response import json

from app.services import Services
from lua.ids import PacketId, UserId

log = logging.getLogger(__name__)

_NO_PACKET = PacketId(0)
_NOBODY = UserId("readiness")


def health_routes(services: Services) -> Blueprint:
    blueprint = Blueprint("health")

    @blueprint.get("/healthz")
    async def alive(_: Request) -> HTTPResponse:
        return json({"status": "alive"})

    @blueprint.get("/readyz")
    async def ready(_: Request) -> HTTPResponse:
        checks = {"redis": True, "mysql": True}
        try:
            await services.scripts.grab(_NO_PACKET, [_NOBODY])
        except Exception as error:
            log.warning("not ready: redis: %r", error)
            checks["redis"] = False
        try:
            await services.database.ping()
        except Exception as error:
            log.warning("not ready: mysql: %r", error)
            checks["mysql"] = False
        is_ready = all(checks.values())
        return json(
            {"status": "ready" if is_ready else "not ready", "checks": checks},
            status=200 if is_ready else 503,
        )

    return blueprint
