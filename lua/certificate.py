"""Which run of Redis may answer grabs: one whose data was compared with MySQL and found whole."""

from typing import Any, Final, NamedTuple

from redis.asyncio import Redis

from lua.keys import KeySpace, is_wrong_type
from lua.script import Script, script_names


class Run(NamedTuple):
    """One life of a server: another process, or another history of its data, is another run."""

    process: str
    history: str

    def __str__(self) -> str:
        return f"{self.process}:{self.history}"


class Certificate:
    """The token under which this process calls scripts. None: none is known, nothing is called.

    Scripts carry the token in their text, so that a server knows them only if it was certified in
    this very run: a restarted or promoted server has an empty script cache. They compare it with a
    key of the partition too, so that flushed or older data is noticed in a run that goes on.
    """

    __slots__ = ("token",)

    def __init__(self, token: str | None = None) -> None:
        self.token = token


async def held_tokens(redis: Redis, keys: KeySpace) -> tuple[Run, list[str | None]]:
    """The run, and the token that each partition's data carries; of another type it is none."""
    async with redis.pipeline(transaction=False) as pipeline:
        pipeline.info("server")
        pipeline.info("replication")
        for key in keys.certificates():
            pipeline.get(key)
        server, replication, *tokens = await pipeline.execute(raise_on_error=False)
    for reply in (server, replication, *tokens):
        if isinstance(reply, Exception) and not is_wrong_type(reply):
            raise reply
    decoded = [token.decode() if isinstance(token, bytes) else None for token in tokens]
    return _run(server, replication), decoded


async def knows_scripts(redis: Redis, token: str) -> bool:
    """Whether the server still has the scripts of `token`; SCRIPT FLUSH takes them away."""
    found = await redis.script_exists(*(sha for sha, _ in _texts(token)))
    return all(found)


async def revoke_certificate(redis: Redis, keys: KeySpace) -> None:
    """Have no script answer under any token, in no partition."""
    async with redis.pipeline(transaction=False) as pipeline:
        for key in keys.certificates():
            pipeline.unlink(key)
        await pipeline.execute()


async def install_certificate(redis: Redis, keys: KeySpace, token: str) -> Run:
    """Teach the server the scripts of `token` and mark every partition; returns who took it.

    One round on one connection, so that all of it reached the run that is returned. Nobody uses
    the token before it is published: where the run is not the expected one, nothing is lost.
    """
    async with redis.pipeline(transaction=False) as pipeline:
        pipeline.info("server")
        pipeline.info("replication")
        for _, source in _texts(token):
            pipeline.script_load(source)
        for key in keys.certificates():
            pipeline.set(key, token)
        server, replication, *_ = await pipeline.execute()
    return _run(server, replication)


_CERTIFIED: Final = [script for script in map(Script, script_names()) if script.is_certified]


def _texts(token: str) -> list[tuple[str, str]]:
    return [script.under(token) for script in _CERTIFIED]


def _run(server: dict[str, Any], replication: dict[str, Any]) -> Run:
    return Run(str(server["run_id"]), str(replication["master_replid"]))
