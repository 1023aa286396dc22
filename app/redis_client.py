"""Opens the connection pool to Redis and refuses a server that could forget an answered grab."""

from typing import Final

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from app.config import Durability

SOCKET_TIMEOUT_S: Final = 5.0
CONNECT_TIMEOUT_S: Final = 2.0
POOL_WAIT_S: Final = 2.0
RETRIES: Final = 2  # of a command that never reached the server; scripts are safe to send again


class UnsafeRedis(Exception):
    """The server's configuration breaks a promise of this deployment."""


def open_redis(url: str, connections: int) -> Redis:
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=connections,
        timeout=POOL_WAIT_S,
        socket_timeout=SOCKET_TIMEOUT_S,
        socket_connect_timeout=CONNECT_TIMEOUT_S,
        health_check_interval=0,
        retry=Retry(ExponentialBackoff(cap=0.1, base=0.01), RETRIES),
    )
    return Redis.from_pool(pool)


async def check_redis(redis: Redis, durability: Durability) -> None:
    """Raise UnsafeRedis unless answers survive as `durability` promises, and nothing is evicted."""
    config = await redis.config_get(
        "appendonly", "appendfsync", "maxmemory-policy", "lazyfree-lazy-expire"
    )
    # A packet of a million claims that goes must not hold up grabs while it is freed.
    wanted = {"maxmemory-policy": "noeviction", "lazyfree-lazy-expire": "yes"}
    if durability != "memory":
        wanted |= {"appendonly": "yes", "appendfsync": "always"}
    for name, value in wanted.items():
        if config[name] != value:
            raise UnsafeRedis(
                f"Redis has {name} {config[name]}; durability {durability} needs {name} {value}"
            )
