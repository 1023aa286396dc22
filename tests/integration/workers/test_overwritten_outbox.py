"""An outbox that somebody wrote something else over is put aside, and stops nobody for long."""

import asyncio
import logging

import pytest

from app.grabbing.coalescer import GrabUnavailable
from app.reconciling.reconciling import Scope
from app.services import Services
from lua.replies import Outcome
from tests.eventually import eventually
from tests.integration.money.lab import MoneyLab, told


async def test_grabs_and_relay_go_on_and_what_was_lost_is_sent_again(
    services: Services, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "redpacket.alarm")
    lab = MoneyLab(services)
    packet_id = await lab.packet(5)
    had = told(await lab.wins(packet_id, "ann"))
    outbox = services.keys.packet(packet_id).outbox
    await lab.redis("SET", outbox, "not a stream")
    with pytest.raises(GrabUnavailable):
        await lab.grab(packet_id, "bob")

    stop = asyncio.Event()
    relays = [asyncio.create_task(lab.relay().run(stop)) for _ in range(2)]

    async def is_stream() -> bool:
        return bool(await lab.redis("TYPE", outbox) == b"stream")

    await eventually(is_stream, what="an outbox")
    had |= told(await lab.wins(packet_id, "bob"))
    [again] = await lab.grab(packet_id, "ann")
    assert (again.outcome, again[1:3]) == (Outcome.REPEATED, had["ann"])

    async def bob_is_booked() -> bool:
        return "bob" in await lab.claims(packet_id)

    await eventually(bob_is_booked, what="bob's claim")
    assert "ann" not in await lab.claims(packet_id)
    report = await services.reconciling.run(Scope("all"), repair=True)
    assert [finding.kind for finding in report.found] == ["claim_not_booked"]
    assert (report.left, await lab.claims(packet_id)) == ([], had)
    stop.set()
    await asyncio.gather(*relays)
    [aside] = await lab.redis("KEYS", f"{outbox}:put-aside:*")
    assert await lab.redis("GET", aside) == b"not a stream"
    assert caplog.text.count("ALARM outbox overwritten") == 1
    await lab.balanced()
