"""A Lua file of this folder: its text, its keys, its calls."""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha1
from importlib.resources import files
from operator import itemgetter
from typing import Any, Final, Protocol, cast

from redis.exceptions import NoScriptError

from lua.keys import PacketKeys

_KEYS_LINE: Final = "-- KEYS: "
_TOKEN_MARK: Final = "@certificate@"


class CommandRunner(Protocol):
    """What a Redis, Redis Cluster or Valkey client offers to run one command."""

    async def execute_command(self, *args: Any, **options: Any) -> Any: ...


class Script:
    """A Lua file by name, run on the keys of a packet that its header names.

    A script that works for grabs is certified: its text carries the token of a certificate. It is
    loaded by whoever certifies a server and by nobody else.
    """

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.source: Final = files("lua").joinpath(f"{name}.lua").read_text(encoding="utf-8")
        self.is_certified: Final = _TOKEN_MARK in self.source
        self.sha: Final = _sha(self.source)
        line = next(line for line in self.source.splitlines() if line.startswith(_KEYS_LINE))
        self.key_names: Final = line.removeprefix(_KEYS_LINE).split()
        places = [PacketKeys._fields.index(key_name) for key_name in self.key_names]
        self._pick = itemgetter(*places) if len(places) > 1 else lambda keys: (keys[places[0]],)
        self.under = lru_cache(maxsize=4)(self._under)

    def _under(self, token: str) -> tuple[str, str]:
        """Hash and text of the script as certified by `token`."""
        source = self.source.replace(_TOKEN_MARK, token)
        return _sha(source), source

    def command(self, token: str, keys: PacketKeys, args: Sequence[Any]) -> tuple[Any, ...]:
        """The EVALSHA of a certified script."""
        picked = self._pick(keys)
        return ("EVALSHA", self.under(token)[0], len(picked), *picked, *args)

    async def run(self, redis: CommandRunner, keys: PacketKeys, args: Sequence[Any]) -> list[int]:
        """Run a script that needs no certificate, in full where the server does not know it."""
        picked = self._pick(keys)
        try:
            reply = await redis.execute_command("EVALSHA", self.sha, len(picked), *picked, *args)
        except NoScriptError:
            reply = await redis.execute_command("EVAL", self.source, len(picked), *picked, *args)
        return cast(list[int], reply)


def script_names() -> list[str]:
    """The atomic operations there are: the files of this folder."""
    names = [file.name for file in files("lua").iterdir()]
    return sorted(name.removesuffix(".lua") for name in names if name.endswith(".lua"))


def _sha(source: str) -> str:
    return sha1(source.encode(), usedforsecurity=False).hexdigest()
