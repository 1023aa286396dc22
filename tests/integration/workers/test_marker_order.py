"""A marker is booked after every claim that was sent before it, whatever befalls the consumers."""

import pytest

from app.control.markers import is_marker_booked, marker_body
from app.store.models import Packet
from tests.eventually import eventually
from tests.integration.workers.lab import HookedHandler, Lab, message_of, running
from workers.consumer import PREFETCH

CLAIMS = 3 * PREFETCH
MARKER = "sent-after-them"
TROUBLED_CALLS = (1, 3, 4)


async def claims_and_a_marker(lab: Lab) -> Packet:
    await lab.broker.declare()
    packet = await lab.packet(CLAIMS)
    for number in range(CLAIMS):
        [grab] = await lab.grab(packet, f"user{number}")
        await lab.broker.publish(message_of(packet, f"user{number}", grab))
    await lab.broker.publish(marker_body(MARKER).encode())
    return packet


@pytest.mark.parametrize("trouble", ["connections lost", "database fails"])
async def test_a_marker_comes_after_the_claims_before_it(lab: Lab, trouble: str) -> None:
    """Two consumers, of which RabbitMQ lets one work; what it held goes to the other."""
    packet = await claims_and_a_marker(lab)
    calls = 0
    booked_with_the_marker: list[int] = []

    async def make_trouble() -> None:
        nonlocal calls
        calls += 1
        if calls not in TROUBLED_CALLS:
            return
        if trouble == "database fails":
            raise ConnectionError("the database is gone")
        lab.broker.server.ctl("close_all_connections", "test")

    async def look() -> None:
        if await is_marker_booked(lab.services.database, MARKER):
            booked_with_the_marker.append(len(await lab.rows(packet)))

    consumers = [
        lab.consumer(HookedHandler(lab, before=make_trouble, after=look)) for _ in range(2)
    ]
    async with running(*consumers):

        async def arrived() -> bool:
            return bool(booked_with_the_marker)

        await eventually(arrived, what="a booked marker")

    assert calls > max(TROUBLED_CALLS)
    assert booked_with_the_marker[0] == CLAIMS
