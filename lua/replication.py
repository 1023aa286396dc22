"""Durability level `replica`: an answer counts once a replica has what it says."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from redis.asyncio import Redis

from lua.keys import PacketKeys
from lua.script import CommandRunner

REPLICAS: Final = 1
WAIT_MS: Final = 500  # shorter than a grab may take


class NotReplicated(Exception):
    """The script ran, and no replica confirmed it in time: nobody may be told what it said."""


def replicated_call(
    redis: Redis, *, with_fsync: bool, wait_ms: int = WAIT_MS
) -> Callable[[CommandRunner, PacketKeys, tuple[Any, ...]], Awaitable[Any]]:
    """A call that returns once a replica has the script's writes; `with_fsync`: on its disk.

    WAIT speaks for the writes of its own connection only, so it goes in the same pipeline. A claim
    that an earlier call made and did not see confirmed is answered without a write: the key that is
    touched in between moves the connection's offset past that claim.
    """
    wait: tuple[Any, ...] = (
        ("WAITAOF", 0, REPLICAS, wait_ms) if with_fsync else ("WAIT", REPLICAS, wait_ms)
    )

    async def call(_: CommandRunner, keys: PacketKeys, command: tuple[Any, ...]) -> Any:
        async with redis.pipeline(transaction=False) as pipeline:
            pipeline.execute_command(*command)
            pipeline.set(keys.touch, b"")
            pipeline.execute_command(*wait)
            reply, _, confirmed = await pipeline.execute()
        if (confirmed[1] if with_fsync else confirmed) < REPLICAS:
            raise NotReplicated
        return reply

    return call


async def can_wait_for_fsync(redis: Redis) -> bool:
    """Whether the server has WAITAOF, as Redis 7.2 and Valkey do."""
    server = await redis.info("server")
    major, minor = str(server["redis_version"]).split(".")[:2]
    return (int(major), int(minor)) >= (7, 2)
