"""What goes wrong around a script: nothing is ever left half done."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from redis.exceptions import OutOfMemoryError, ResponseError

from lua.ids import UserId
from lua.replies import GrabStatus, Outcome, RestoredShare
from lua.script import Script
from splitter.money import Fen
from tests.integration.lua.lab import (
    FAR_AHEAD_MS,
    KEYS_OF,
    LONG_AGO_MS,
    PACKET,
    TOKEN,
    VERBS,
    WRONG_TYPE_VALUE,
    Lab,
    fen,
)

AMOUNTS = [30, 10, 50]
REBUILD = "r1"
RESTORED = [
    RestoredShare(1, 30, LONG_AGO_MS, UserId("ann")),
    RestoredShare(2, 10),
    RestoredShare(3, 50),
]


async def prepare(lab: Lab, verb: str) -> None:
    """Bring the packet to where the verb would do its work."""
    if verb == "load":
        await lab.scripts.load(PACKET, 3, 0, fen(AMOUNTS[:2]))
    elif verb == "open":
        await lab.load(AMOUNTS)
    else:
        await lab.open(AMOUNTS)
        await lab.grab("ann")
    if verb == "close":
        await lab.expire()
    if verb in ("restore", "resume"):
        await lab.scripts.suspend(PACKET, REBUILD)
    if verb == "resume":
        await lab.scripts.restore(PACKET, REBUILD, 3, 0, RESTORED)


def call(lab: Lab, verb: str) -> Callable[[], Awaitable[object]]:
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "load": lambda: lab.scripts.load(PACKET, 3, 2, fen(AMOUNTS[2:])),
        "open": lambda: lab.scripts.open(
            PACKET,
            shares=3,
            total_fen=Fen(90),
            opens_at_ms=LONG_AGO_MS,
            expires_at_ms=FAR_AHEAD_MS,
        ),
        "grab": lambda: lab.try_grab("ann", "bob"),
        "close": lambda: lab.scripts.close(PACKET),
        "suspend": lambda: lab.scripts.suspend(PACKET, REBUILD),
        "restore": lambda: lab.scripts.restore(PACKET, REBUILD, 3, 0, RESTORED),
        "resume": lambda: lab.scripts.resume(
            PACKET,
            REBUILD,
            shares=3,
            total_fen=Fen(90),
            opens_at_ms=LONG_AGO_MS,
            expires_at_ms=FAR_AHEAD_MS,
            closed=False,
        ),
        "resend": lambda: lab.scripts.resend(PACKET, [UserId("ann")]),
        "retire": lambda: lab.scripts.retire(PACKET, 60_000),
    }
    return calls[verb]


async def succeeds(lab: Lab, verb: str) -> None:
    before = await lab.snapshot()
    answer = await call(lab, verb)()
    assert isinstance(answer, tuple)
    assert answer[0] == 0
    assert await lab.snapshot() != before


# Rebuilding and retiring discard what is there whatever it is, and sending again looks whether the
# packet is there.
ANY_TYPE_WILL_DO = {
    *[(verb, "certificate") for verb in VERBS],  # a string, as the wrong value is
    *[("restore", key) for key in ("shares", "claims", "board")],
    *[("retire", key) for key in ("shares", "claims", "board")],
    ("resend", "meta"),
    ("suspend", "meta"),
    ("retire", "meta"),
}
TYPED = [
    (verb, key) for verb in VERBS for key in KEYS_OF[verb] if (verb, key) not in ANY_TYPE_WILL_DO
]


@pytest.mark.parametrize(("verb", "key"), TYPED)
async def test_key_of_the_wrong_type_stops_a_script_before_it_writes(
    lab: Lab, verb: str, key: str
) -> None:
    await prepare(lab, verb)
    name = lab.of()._asdict()[key]
    kept = await lab.dump(name)
    await lab.run("SET", name, WRONG_TYPE_VALUE)
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await lab.answers_or_changes_nothing(call(lab, verb))
    await lab.restore(name, kept)
    await succeeds(lab, verb)


@pytest.fixture
async def limit_memory(lab: Lab) -> AsyncIterator[Callable[[int], Awaitable[object]]]:
    """Set the server's memory limit; it has none again after the test."""
    yield lambda limit: lab.run("CONFIG SET", "maxmemory", limit)
    await lab.run("CONFIG SET", "maxmemory", 0)


@pytest.mark.parametrize("verb", VERBS)
async def test_server_without_memory_refuses_a_script_before_it_writes(
    lab: Lab, verb: str, limit_memory: Callable[[int], Awaitable[object]]
) -> None:
    assert await lab.run("CONFIG GET", "maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    await prepare(lab, verb)
    await limit_memory(1)
    with pytest.raises(OutOfMemoryError):
        await lab.answers_or_changes_nothing(call(lab, verb))
    await limit_memory(0)
    await succeeds(lab, verb)


CERTIFIED = [verb for verb in VERBS if Script(verb).is_certified]
PLAIN = [verb for verb in VERBS if not Script(verb).is_certified]


@pytest.mark.parametrize("verb", PLAIN)
async def test_server_that_lost_its_scripts_gets_them_with_the_next_call(
    lab: Lab, verb: str
) -> None:
    await prepare(lab, verb)
    await lab.run("SCRIPT FLUSH")
    sha = Script(verb).sha
    assert await lab.run("SCRIPT EXISTS", sha) == [False]
    await succeeds(lab, verb)
    assert await lab.run("SCRIPT EXISTS", sha) == [True]


async def uncertified(lab: Lab, verb: str) -> None:
    """The call says so, and changes nothing."""
    before = await lab.snapshot()
    answer = await call(lab, verb)()
    assert isinstance(answer, tuple)
    assert answer[0].name == "UNCERTIFIED"
    assert await lab.snapshot() == before


@pytest.mark.parametrize("verb", CERTIFIED)
async def test_server_that_lost_its_scripts_is_uncertified_until_it_is_certified_again(
    lab: Lab, verb: str
) -> None:
    await prepare(lab, verb)
    await lab.run("SCRIPT FLUSH")
    await uncertified(lab, verb)
    await uncertified(lab, verb)
    await lab.certify()
    await succeeds(lab, verb)


@pytest.mark.parametrize("token", [None, "lab.other", ""])
@pytest.mark.parametrize("verb", CERTIFIED)
async def test_data_without_the_certificate_in_force_is_uncertified(
    lab: Lab, verb: str, token: str | None
) -> None:
    await prepare(lab, verb)
    key = lab.of().certificate
    await (lab.run("DEL", key) if token is None else lab.run("SET", key, token))
    await uncertified(lab, verb)
    await lab.certify()
    await succeeds(lab, verb)


@pytest.mark.parametrize("verb", CERTIFIED)
async def test_a_process_without_a_certificate_calls_nothing(lab: Lab, verb: str) -> None:
    await prepare(lab, verb)
    lab.certificate.token = None
    await uncertified(lab, verb)
    lab.certificate.token = TOKEN
    await succeeds(lab, verb)


async def test_grabs_go_on_across_script_flushes_once_certified(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    outcomes = []
    for user in ["ann", "bob", "ann", "cy", "dan"]:
        await lab.run("SCRIPT FLUSH")
        assert await lab.grab_status(user) is GrabStatus.UNCERTIFIED
        await lab.certify()
        outcomes += [grab.outcome for grab in await lab.grab(user)]
    assert outcomes == [
        Outcome.GRABBED,
        Outcome.GRABBED,
        Outcome.REPEATED,
        Outcome.GRABBED,
        Outcome.SOLD_OUT,
    ]
