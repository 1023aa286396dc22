"""How long a Redis that lost everything refuses grabs: many open packets, rebuilt from MySQL."""

import asyncio
import secrets
import time
from typing import Any, Final

from app.grabbing.coalescer import GrabUnavailable
from app.packets.funding import PacketOrder
from app.services import Services
from bench.stack import SENDER, Stack
from lua.ids import PacketId, UserId
from lua.replies import Outcome
from splitter.money import Fen
from splitter.terms import Terms

PACKETS: Final = 1000
SHARES: Final = 1000  # of each
CLAIMED: Final = 200  # of each, booked before everything is lost
AT_ONCE: Final = 8
GIVE_UP_S: Final = 600.0
ASK_EVERY_S: Final = 0.02


def bench_recovery(stack: Stack) -> dict[str, Any]:
    """Seconds from FLUSHALL to the next answered grab, recoverer and workers being at work."""
    with stack.workers("recover"):
        return stack.with_services(_lose_and_recover)


async def _lose_and_recover(services: Services) -> dict[str, Any]:
    packets = await _open_packets(services)
    before = await _claims(services, packets)
    await services.in_flight.arrived()
    await services.redis.flushall()
    began_s = time.monotonic()
    refused, wrong = 0, 0
    user = UserId("claimed-0")
    while True:
        try:
            grab = await services.grabbing.grab(packets[-1], user)
        except GrabUnavailable:
            refused += 1
            if time.monotonic() - began_s > GIVE_UP_S:
                raise
            await asyncio.sleep(ASK_EVERY_S)
            continue
        break
    recovered_s = time.monotonic() - began_s
    wrong += grab.outcome != Outcome.REPEATED
    wrong += await _differing(services, packets, before)
    return {
        "recovery_s": round(recovered_s, 2),
        "recovery_shares_per_s": round(PACKETS * SHARES / recovered_s),
        "recovery_refused_grabs": refused,
        "recovery_wrong": wrong,
    }


async def _open_packets(services: Services) -> list[PacketId]:
    total_fen = Fen(SHARES * 100)
    await services.accounts.top_up(SENDER, SENDER, Fen(PACKETS * total_fen), secrets.token_hex(8))
    packets = []
    for _ in range(PACKETS):
        order = PacketOrder(SENDER, Terms("lucky", total_fen, SHARES))
        packet = await services.funding.fund(order, secrets.token_hex(8))
        await services.opener.open(packet)
        packets.append(PacketId(packet.id))
    return packets


async def _claims(services: Services, packets: list[PacketId]) -> list[int]:
    """Claim some shares of each; returns how many each packet has left."""
    users = [UserId(f"claimed-{number}") for number in range(CLAIMED)]
    for first in range(0, len(packets), AT_ONCE):
        part = packets[first : first + AT_ONCE]
        await asyncio.gather(*(services.scripts.grab(packet_id, users) for packet_id in part))
    return [SHARES - CLAIMED] * len(packets)


async def _differing(services: Services, packets: list[PacketId], left: list[int]) -> int:
    counts = [await services.live.counts(packet_id) for packet_id in packets]
    return sum(
        found is None or found.remaining != expected
        for found, expected in zip(counts, left, strict=True)
    )
