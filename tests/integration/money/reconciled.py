"""Packets to break, and what reconciling says of them."""

from collections.abc import Awaitable, Callable

from app.reconciling.findings import Finding, Kind
from app.reconciling.reconciling import ReconcileReport, Scope
from lua.ids import PacketId
from tests.eventually import eventually
from tests.integration.money.lab import MoneyLab, users

ALL = Scope("all")
Break = Callable[[MoneyLab, PacketId], Awaitable[None]]


async def booked(lab: MoneyLab, packet_id: PacketId, claims: int) -> None:
    async def probe() -> bool:
        return len(await lab.claims(packet_id)) >= claims

    await eventually(probe, what=f"{claims} booked claims")


async def reconcile(
    lab: MoneyLab, *, repair: bool = False, scope: Scope = ALL, resume: bool = False
) -> ReconcileReport:
    return await lab.services.reconciling.run(scope, repair=repair, resume=resume)


def kinds(findings: list[Finding]) -> set[Kind]:
    return {finding.kind for finding in findings}


async def open_packet(lab: MoneyLab, first_user: int = 1) -> PacketId:
    """Ten shares, four of them claimed and booked."""
    packet_id = await lab.packet(10)
    await lab.wins(packet_id, *users(4, first=first_user))
    await booked(lab, packet_id, 4)
    return packet_id


async def settled_packet(lab: MoneyLab) -> PacketId:
    packet_id = await open_packet(lab)
    await lab.expire(packet_id)
    await lab.settle(packet_id)
    return packet_id


async def sql(lab: MoneyLab, statement: str, *values: object) -> None:
    assert await lab.run(statement, *values) > 0
