"""grab.lua: a claim is answered again, the same, whatever has happened to the packet since."""

import pytest

from lua.replies import Grab, Outcome
from tests.integration.lua.lab import FAR_AHEAD_MS, LONG_AGO_MS, Lab, users

AMOUNTS = [30, 10, 50]


async def claim_of_ann(lab: Lab) -> Grab:
    """Open a packet, let ann grab, and return what she must hear from now on."""
    await lab.open(AMOUNTS)
    reply = await lab.try_grab("ann")
    assert reply.grabs == [Grab(Outcome.GRABBED, 1, 30, reply.now_ms)]
    return reply.grabs[0]._replace(outcome=Outcome.REPEATED)


async def test_second_grab_by_same_user_returns_first_share(lab: Lab) -> None:
    claim = await claim_of_ann(lab)
    before = await lab.snapshot()
    assert await lab.grab("ann") == [claim]
    assert await lab.grab("ann", "ann") == [claim, claim]
    assert await lab.snapshot() == before


async def test_user_twice_in_one_call_gets_one_claim_and_the_same_numbers_twice(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    reply = await lab.try_grab("ann", "ann", "ann")
    claim = Grab(Outcome.GRABBED, 1, 30, reply.now_ms)
    repeat = claim._replace(outcome=Outcome.REPEATED)
    assert reply.grabs == [claim, repeat, repeat]
    assert await lab.claims() == {"ann": repeat}
    assert await lab.remaining() == ["2:10", "3:50"]
    assert [row.user for row in await lab.board()] == ["ann"]
    assert await lab.grab("ann") == [repeat]


async def test_claim_is_returned_after_the_packet_sold_out(lab: Lab) -> None:
    claim = await claim_of_ann(lab)
    await lab.grab(*users(3))
    assert await lab.grab("ann") == [claim]


async def test_claim_is_returned_after_the_packet_expired(lab: Lab) -> None:
    claim = await claim_of_ann(lab)
    await lab.set_meta(expires_at_ms=LONG_AGO_MS)
    assert await lab.grab("ann", "bob") == [claim, Grab(Outcome.EXPIRED, 0, 0, 0)]


async def test_claim_is_returned_after_the_packet_closed(lab: Lab) -> None:
    claim = await claim_of_ann(lab)
    await lab.close(claimed=1, remaining=2)
    assert await lab.grab("ann", "bob") == [claim, Grab(Outcome.CLOSED, 0, 0, 0)]


async def test_claim_is_returned_although_the_opening_was_put_off(lab: Lab) -> None:
    claim = await claim_of_ann(lab)
    await lab.set_meta(opens_at_ms=FAR_AHEAD_MS - 1)
    assert await lab.grab("bob", "ann") == [
        Grab(Outcome.NOT_OPEN_YET, 0, 0, FAR_AHEAD_MS - 1),
        claim,
    ]


@pytest.mark.parametrize("change", ["expires_at_ms", "opens_at_ms", "close"])
async def test_refused_user_who_asks_twice_in_a_call_is_refused_twice(
    lab: Lab, change: str
) -> None:
    await lab.open(AMOUNTS)
    if change == "close":
        await lab.close(claimed=0, remaining=3)
    else:
        await lab.set_meta(**{change: LONG_AGO_MS if change == "expires_at_ms" else FAR_AHEAD_MS})
    before = await lab.snapshot()
    first, second = await lab.grab("ann", "ann")
    assert first == second
    assert first.outcome in (Outcome.EXPIRED, Outcome.NOT_OPEN_YET, Outcome.CLOSED)
    assert await lab.snapshot() == before
