"""Settings from the environment, each `REDPACKET_...`, checked once at start."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args
from urllib.parse import urlsplit

from app.auth.hmac_key import MIN_SECRET_BYTES
from app.auth.tokens import ALGORITHMS, Algorithm, TokenSettings
from lua.keys import DEFAULT_PARTITIONS

Durability = Literal["fsync", "replica", "memory"]

DATABASE_SCHEMES: Final = ("mysql", "sqlite")


class BadSettings(ValueError):
    """The environment does not describe a service that can start."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`secret` signs packet ids and tickets; every process of a deployment has the same."""

    redis_url: str = field(repr=False)  # URLs carry passwords
    mysql_url: str = field(repr=False)
    secret: bytes = field(repr=False)
    tokens: TokenSettings = field(repr=False)
    amqp_url: str | None = field(default=None, repr=False)
    host: str = "127.0.0.1"
    port: int = 8000
    durability: Durability = "fsync"
    partitions: int = DEFAULT_PARTITIONS
    key_prefix: str = "rp"
    mysql_connections: int = 10
    redis_connections: int = 64
    shutdown_seconds: int = 15
    backlog_entries: int = 100_000
    backlog_messages: int = 40_000


def settings_from_env(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings. Raises BadSettings with the name of the variable that is at fault."""
    return Settings(
        redis_url=_url(environ, "REDIS_URL", ("redis", "rediss", "unix")),
        mysql_url=_url(environ, "MYSQL_URL", DATABASE_SCHEMES),
        amqp_url=_url(environ, "AMQP_URL", ("amqp", "amqps"))
        if _has(environ, "AMQP_URL")
        else None,
        secret=_secret(environ),
        tokens=_tokens(environ),
        host=_text(environ, "HOST", "127.0.0.1"),
        port=_integer(environ, "PORT", 8000, 0, 65535),
        durability=_choice(environ, "DURABILITY", "fsync", get_args(Durability)),
        partitions=_integer(environ, "PARTITIONS", DEFAULT_PARTITIONS, 1, 4096),
        key_prefix=_text(environ, "KEY_PREFIX", "rp"),
        mysql_connections=_integer(environ, "MYSQL_CONNECTIONS", 10, 1, 1000),
        redis_connections=_integer(environ, "REDIS_CONNECTIONS", 64, 1, 10_000),
        shutdown_seconds=_integer(environ, "SHUTDOWN_SECONDS", 15, 1, 600),
        backlog_entries=_integer(environ, "BACKLOG_ENTRIES", 100_000, 1, 10**9),
        backlog_messages=_integer(environ, "BACKLOG_MESSAGES", 40_000, 1, 10**9),
    )


def _has(environ: Mapping[str, str], name: str) -> bool:
    return bool(environ.get(f"REDPACKET_{name}"))


def _text(environ: Mapping[str, str], name: str, default: str | None = None) -> str:
    value = environ.get(f"REDPACKET_{name}") or default
    if value is None:
        raise BadSettings(f"REDPACKET_{name} is not set")
    return value


def _url(environ: Mapping[str, str], name: str, schemes: tuple[str, ...]) -> str:
    url = _text(environ, name)
    if urlsplit(url).scheme not in schemes:
        raise BadSettings(f"REDPACKET_{name} must begin with {' or '.join(schemes)}://")
    return url


def _integer(environ: Mapping[str, str], name: str, default: int, least: int, largest: int) -> int:
    text = _text(environ, name, str(default))
    if not text.isdecimal() or not least <= int(text) <= largest:
        raise BadSettings(f"REDPACKET_{name} must be a number from {least} to {largest}")
    return int(text)


def _choice(environ: Mapping[str, str], name: str, default: str, choices: tuple[str, ...]) -> Any:
    value = _text(environ, name, default)
    if value not in choices:
        raise BadSettings(f"REDPACKET_{name} must be one of {', '.join(choices)}")
    return value


def _secret(environ: Mapping[str, str]) -> bytes:
    secret = _text(environ, "SECRET").encode()
    if len(secret) < MIN_SECRET_BYTES:
        raise BadSettings(f"REDPACKET_SECRET needs at least {MIN_SECRET_BYTES} bytes")
    return secret


def _tokens(environ: Mapping[str, str]) -> TokenSettings:
    algorithm = cast(Algorithm, _choice(environ, "JWT_ALGORITHM", "HS256", ALGORITHMS))
    if algorithm == "HS256":
        key = _text(environ, "JWT_SECRET")
        if len(key.encode()) < MIN_SECRET_BYTES:
            raise BadSettings(f"REDPACKET_JWT_SECRET needs at least {MIN_SECRET_BYTES} bytes")
    else:
        path = Path(_text(environ, "JWT_PUBLIC_KEY_FILE"))
        try:
            key = path.read_text(encoding="ascii")
        except (OSError, ValueError) as error:
            raise BadSettings(f"REDPACKET_JWT_PUBLIC_KEY_FILE: {error}") from None
    return TokenSettings(
        algorithm=algorithm,
        key=key,
        issuer=environ.get("REDPACKET_JWT_ISSUER") or None,
        audience=environ.get("REDPACKET_JWT_AUDIENCE") or None,
    )
