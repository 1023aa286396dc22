"""scripts.py: one typed call a script, the declared keys, and a second try in full."""

import inspect
from collections.abc import Sequence
from typing import Any, get_type_hints

import pytest
from redis.exceptions import NoScriptError, ResponseError

from lua.certificate import Certificate
from lua.ids import PacketId, UserId
from lua.keys import KeySpace
from lua.replies import RestoredShare
from lua.script import Script, script_names
from lua.scripts import Scripts, tie_factor
from splitter.money import MAX_SHARES, Fen
from tests.unit.lua.script_text import read_script

PACKET = PacketId(77)
REPLIES = {
    "load": [0, 1],
    "open": [0, 1, 10],
    "grab": [0, 5, 1, 1, 10, 5],
    "close": [0, 1, 0],
    "suspend": [0],
    "restore": [0, 1],
    "resume": [0, 1, 10],
    "resend": [0, 1],
    "retire": [0],
}
TOKEN = "unit.token"
CERTIFIED = [name for name in script_names() if Script(name).is_certified]
PLAIN = [name for name in script_names() if not Script(name).is_certified]


class Recorder:
    """Notes the commands it is given and answers them in turn."""

    def __init__(self, *answers: list[int] | Exception) -> None:
        self.commands: list[tuple[Any, ...]] = []
        self._answers = list(answers)

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        self.commands.append(args)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def call(scripts: Scripts, name: str) -> Sequence[object]:
    if name == "load":
        return await scripts.load(PACKET, 1, 0, [Fen(10)])
    if name == "open":
        return await scripts.open(
            PACKET, shares=1, total_fen=Fen(10), opens_at_ms=1, expires_at_ms=2
        )
    if name == "grab":
        return await scripts.grab(PACKET, [UserId("ann")])
    if name == "suspend":
        return await scripts.suspend(PACKET, "r1")
    if name == "restore":
        return await scripts.restore(PACKET, "r1", 1, 0, [RestoredShare(1, 10)])
    if name == "resume":
        times = {"opens_at_ms": 1, "expires_at_ms": 2}
        return await scripts.resume(PACKET, "r1", shares=1, total_fen=Fen(10), closed=True, **times)
    if name == "resend":
        return await scripts.resend(PACKET, [UserId("ann")])
    if name == "retire":
        return await scripts.retire(PACKET, 1000)
    return await scripts.close(PACKET)


def scripts_of(redis: Recorder) -> Scripts:
    return Scripts(redis, KeySpace(), Certificate(TOKEN))


def test_every_script_has_one_typed_call() -> None:
    calls = {
        name: method
        for name, method in inspect.getmembers(Scripts, inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    assert sorted(calls) == script_names()
    for method in calls.values():
        hints = get_type_hints(method)
        assert set(hints) == {*inspect.signature(method).parameters, "return"} - {"self"}
        assert hints["return"]._fields[0] == "status"


@pytest.mark.parametrize("name", script_names())
async def test_call_sends_the_keys_and_arguments_that_the_header_names(name: str) -> None:
    redis, keys = Recorder(REPLIES[name]), KeySpace()
    await call(scripts_of(redis), name)
    [(command, sha, count, *rest)] = redis.commands
    text = read_script(name)
    script = Script(name)
    assert command == "EVALSHA"
    assert sha == (script.under(TOKEN)[0] if script.is_certified else script.sha)
    assert rest[:count] == [keys.packet(PACKET)._asdict()[key] for key in text.declared("KEYS")]
    more = 1 if text.takes_more_arguments else 0
    assert len(rest) - count == len(text.fixed_arguments) + more


@pytest.mark.parametrize("name", CERTIFIED)
async def test_certified_script_that_the_server_does_not_know_is_never_sent_in_full(
    name: str,
) -> None:
    redis = Recorder(NoScriptError())
    [status, *_] = await call(scripts_of(redis), name)
    assert getattr(status, "name", None) == "UNCERTIFIED"
    assert len(redis.commands) == 1


@pytest.mark.parametrize("name", CERTIFIED)
def test_scripts_of_two_certificates_have_nothing_in_common(name: str) -> None:
    (one, text), (other, _) = Script(name).under("a.1"), Script(name).under("a.2")
    assert one != other
    assert "@certificate@" not in text


@pytest.mark.parametrize("name", PLAIN)
async def test_script_that_the_server_lost_is_sent_in_full(name: str) -> None:
    redis = Recorder(NoScriptError(), REPLIES[name])
    await call(scripts_of(redis), name)
    by_hash, in_full = redis.commands
    assert in_full == ("EVAL", Script(name).source, *by_hash[2:])


@pytest.mark.parametrize("name", script_names())
async def test_other_errors_are_not_tried_again(name: str) -> None:
    redis = Recorder(ResponseError("WRONGTYPE"))
    with pytest.raises(ResponseError):
        await call(scripts_of(redis), name)
    assert len(redis.commands) == 1


async def test_grab_refuses_a_reply_that_breaks_off() -> None:
    redis = Recorder([0, 5, 1, 1])
    with pytest.raises(TypeError):
        await scripts_of(redis).grab(PACKET, [UserId("ann")])


@pytest.mark.parametrize("shares", [1, 2, 3, 4, 1023, 1024, MAX_SHARES])
def test_tie_factor_is_the_least_power_of_two_above_the_shares(shares: int) -> None:
    factor = tie_factor(shares)
    assert factor.bit_count() == 1
    assert factor // 2 <= shares < factor
