"""grab.lua: when nobody gets anything, why, and that nothing is written then."""

import time
from collections.abc import Callable

import pytest
from redis.exceptions import ResponseError

from lua.replies import Grab, GrabStatus, Outcome
from tests.integration.lua.lab import FAR_AHEAD_MS, LONG_AGO_MS, Lab, users

AMOUNTS = [30, 10, 50]
BOUNDARY_AHEAD_MS = 40
BOUNDARY_DEADLINE_S = 20.0


async def refused(lab: Lab, *names: str) -> list[Grab]:
    before = await lab.snapshot()
    grabs = await lab.grab(*names)
    assert await lab.snapshot() == before
    return grabs


async def uncertain(lab: Lab, *names: str) -> GrabStatus:
    """The status of a call that was refused as a whole."""
    before = await lab.snapshot()
    status = await lab.grab_status(*names)
    assert await lab.snapshot() == before
    return status


async def test_grab_before_the_opening_is_told_when_it_is(lab: Lab) -> None:
    await lab.open(AMOUNTS, opens_at_ms=FAR_AHEAD_MS - 1)
    assert await refused(lab, "ann") == [Grab(Outcome.NOT_OPEN_YET, 0, 0, FAR_AHEAD_MS - 1)]


async def test_grab_after_the_expiry_is_told_so(lab: Lab) -> None:
    await lab.open(AMOUNTS, expires_at_ms=LONG_AGO_MS + 1)
    assert await refused(lab, "ann") == [Grab(Outcome.EXPIRED, 0, 0, 0)]


async def test_grab_from_a_closed_packet_is_told_so(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    await lab.close(claimed=0, remaining=3)
    assert await refused(lab, "ann") == [Grab(Outcome.CLOSED, 0, 0, 0)]


async def test_closed_packet_stays_closed_after_its_expiry(lab: Lab) -> None:
    await lab.open(AMOUNTS, expires_at_ms=LONG_AGO_MS + 1)
    await lab.close(claimed=0, remaining=3)
    assert await refused(lab, "ann") == [Grab(Outcome.CLOSED, 0, 0, 0)]


async def test_grab_from_an_empty_packet_is_sold_out(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    await lab.grab(*users(3))
    assert await refused(lab, "ann") == [Grab(Outcome.SOLD_OUT, 0, 0, 0)]


async def crossing(lab: Lab, field: str, expected: Callable[[int, int], Outcome]) -> None:
    """Grab from a sold-out packet across a boundary; the reply's own clock decides what is due."""
    await lab.open([10])
    await lab.grab("winner")
    give_up_at = time.monotonic() + BOUNDARY_DEADLINE_S
    seen: set[int] = set()
    while len(seen) < 2:  # a slow machine may find itself beyond a boundary it has just set
        assert time.monotonic() < give_up_at
        now_ms = (await lab.try_grab("ann")).now_ms
        boundary_ms = now_ms + BOUNDARY_AHEAD_MS
        await lab.set_meta(**{field: boundary_ms})
        seen.clear()
        while now_ms < boundary_ms:
            now_ms, [grab] = (await lab.try_grab("ann"))[1:]
            assert grab.outcome == expected(now_ms, boundary_ms)
            seen.add(grab.outcome)


async def test_grabs_begin_in_the_very_millisecond_of_the_opening(lab: Lab) -> None:
    await crossing(
        lab,
        "opens_at_ms",
        lambda now, opens: Outcome.SOLD_OUT if now >= opens else Outcome.NOT_OPEN_YET,
    )


async def test_grabs_end_in_the_very_millisecond_of_the_expiry(lab: Lab) -> None:
    await crossing(
        lab,
        "expires_at_ms",
        lambda now, expires: Outcome.EXPIRED if now >= expires else Outcome.SOLD_OUT,
    )


async def test_packet_that_redis_does_not_hold_is_unknown_and_not_sold_out(lab: Lab) -> None:
    assert await uncertain(lab, "ann", "bob") is GrabStatus.UNKNOWN
    await lab.open(AMOUNTS)
    await lab.grab("ann")
    await lab.run("DEL", lab.of().meta)
    assert await uncertain(lab, "ann", "bob") is GrabStatus.UNKNOWN


async def test_packet_whose_shares_vanished_is_inconsistent_and_not_sold_out(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    await lab.run("DEL", lab.of().shares)
    assert await uncertain(lab, "ann") is GrabStatus.INCONSISTENT


async def test_packet_whose_last_shares_vanished_is_inconsistent(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    await lab.grab("ann", "bob")
    await lab.run("DEL", lab.of().shares)
    assert await uncertain(lab, "ann", "cy") is GrabStatus.INCONSISTENT


async def test_packet_whose_claims_vanished_gives_nobody_a_second_share(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    await lab.grab("ann")
    await lab.run("DEL", lab.of().claims)
    assert await uncertain(lab, "ann") is GrabStatus.INCONSISTENT


async def test_share_too_many_is_inconsistent(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    await lab.run("LPUSH", lab.of().shares, "1:30")
    assert await uncertain(lab, "ann") is GrabStatus.INCONSISTENT


@pytest.mark.parametrize(
    "share", ["", "2", "2:", ":10", "2:-1", "2:1.5", "2:10:3", "x:10", "nan:1"]
)
async def test_share_that_is_no_share_is_not_given_away(lab: Lab, share: str) -> None:
    await lab.open(AMOUNTS)
    await lab.run("LSET", lab.of().shares, 1, share)
    assert await uncertain(lab, "ann", "bob") is GrabStatus.INCONSISTENT


@pytest.mark.parametrize("claim", ["", "1", "1:30", "1:30:", "1:-30:5", "1:30:5:6", "x:30:5"])
async def test_claim_that_is_no_claim_is_neither_answered_nor_built_upon(
    lab: Lab, claim: str
) -> None:
    await lab.open(AMOUNTS)
    await lab.grab("ann")
    await lab.run("HSET", lab.of().claims, "ann", claim)
    assert await uncertain(lab, "ann") is GrabStatus.INCONSISTENT
    assert await uncertain(lab, "bob", "ann") is GrabStatus.INCONSISTENT


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a:b", "a b", "a,b", "é"])
async def test_user_id_that_would_break_the_message_gets_nothing(lab: Lab, name: str) -> None:
    await lab.open(AMOUNTS)
    assert await uncertain(lab, "ann", name) is GrabStatus.INCONSISTENT


@pytest.mark.parametrize("field", ["opens_at_ms", "expires_at_ms", "tie_factor"])
async def test_packet_without_one_of_its_terms_gives_nothing(lab: Lab, field: str) -> None:
    await lab.open(AMOUNTS)
    await lab.run("HDEL", lab.of().meta, field)
    with pytest.raises(ResponseError, match="nil"):
        await lab.answers_or_changes_nothing(lambda: lab.try_grab("ann"))


async def test_packet_without_its_count_is_inconsistent(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    await lab.run("HDEL", lab.of().meta, "shares")
    assert await uncertain(lab, "ann") is GrabStatus.INCONSISTENT
