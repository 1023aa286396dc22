"""Assembles the Sanic application."""

from typing import Any, Final

from sanic import Sanic

from app.http.accounts import account_routes
from app.http.boards import board_routes
from app.http.errors import install_error_handler
from app.http.grab import grab_routes
from app.http.health import health_routes
from app.http.openapi import openapi_routes
from app.http.packets import packet_routes
from app.services import Services

REQUEST_MAX_BYTES: Final = 16 * 1024
REQUEST_TIMEOUT_S: Final = 10
RESPONSE_TIMEOUT_S: Final = 30
KEEP_ALIVE_TIMEOUT_S: Final = 75


def build_application(services: Services, name: str = "redpacket") -> Sanic[Any, Any]:
    app = Sanic(name, configure_logging=False)
    app.config.update(
        {
            "REQUEST_MAX_SIZE": REQUEST_MAX_BYTES,
            "REQUEST_MAX_HEADER_SIZE": REQUEST_MAX_BYTES,
            "REQUEST_TIMEOUT": REQUEST_TIMEOUT_S,
            "RESPONSE_TIMEOUT": RESPONSE_TIMEOUT_S,
            "KEEP_ALIVE_TIMEOUT": KEEP_ALIVE_TIMEOUT_S,
            "ACCESS_LOG": False,
            "OAS": False,
        }
    )
    install_error_handler(app)
    app.blueprint(grab_routes(services.packet_ids, services.authenticator, services.grabbing))
    app.blueprint(packet_routes(services))
    app.blueprint(board_routes(services))
    app.blueprint(account_routes(services))
    app.blueprint(health_routes(services))
    app.blueprint(openapi_routes())
    return app
