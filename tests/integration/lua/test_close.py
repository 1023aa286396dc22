"""close.lua: the last word on what was claimed."""

from lua.replies import Closed, CloseStatus, Outcome
from tests.integration.lua.lab import PACKET, Lab, users

AMOUNTS = [30, 10, 50]


async def refused(lab: Lab) -> Closed:
    """The answer of a closing that must leave everything as it is."""
    before = await lab.snapshot()
    closed = await lab.scripts.close(PACKET)
    assert await lab.snapshot() == before
    return closed


async def test_close_tells_what_was_claimed_and_what_remains(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    await lab.grab("ann", "bob")
    await lab.expire()
    assert await lab.scripts.close(PACKET) == Closed(CloseStatus.OK, 2, 1)
    assert await lab.state() == "closed"
    assert await lab.remaining() == ["3:50"]


async def test_closing_again_tells_the_same(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    await lab.grab("ann")
    await lab.close(claimed=1, remaining=2)
    [late] = await lab.grab("bob")
    assert late.outcome == Outcome.CLOSED
    assert await refused(lab) == Closed(CloseStatus.OK, 1, 2)


async def test_sold_out_packet_closes_with_nothing_remaining(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    await lab.grab(*users(5))
    assert await lab.scripts.close(PACKET) == Closed(CloseStatus.OK, 3, 0)


async def test_untouched_packet_closes_with_everything_remaining(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    await lab.expire()
    assert await lab.scripts.close(PACKET) == Closed(CloseStatus.OK, 0, 3)


async def test_packet_that_can_still_be_grabbed_is_not_closed(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    await lab.grab("ann", "bob")
    assert await refused(lab) == Closed(CloseStatus.NOT_DUE, 2, 1)
    [cy] = await lab.grab("cy")
    assert cy.outcome == Outcome.GRABBED
    assert await lab.scripts.close(PACKET) == Closed(CloseStatus.OK, 3, 0)


async def test_packet_that_is_being_rebuilt_is_not_closed(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    await lab.expire()
    await lab.scripts.suspend(PACKET, "r1")
    assert await refused(lab) == Closed(CloseStatus.LOADING, 0, 0)


async def test_unknown_packet_is_not_closed(lab: Lab) -> None:
    assert await refused(lab) == Closed(CloseStatus.UNKNOWN, 0, 0)
    assert await lab.snapshot() == {}


async def test_loading_packet_is_not_closed(lab: Lab) -> None:
    await lab.load(AMOUNTS)
    assert await refused(lab) == Closed(CloseStatus.LOADING, 0, 0)
    await lab.open(AMOUNTS)


async def test_packet_that_lost_its_shares_is_not_closed(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    await lab.grab("ann")
    await lab.run("DEL", lab.of().shares)
    assert await refused(lab) == Closed(CloseStatus.INCONSISTENT, 1, 0)
    assert await lab.state() == "open"


async def test_packet_that_lost_its_claims_is_not_closed(lab: Lab) -> None:
    await lab.open(AMOUNTS)
    await lab.grab("ann")
    await lab.run("DEL", lab.of().claims)
    assert await refused(lab) == Closed(CloseStatus.INCONSISTENT, 0, 2)
    assert await lab.state() == "open"
