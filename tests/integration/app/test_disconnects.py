"""Clients that send and hang up at once: what they began is whole or absent, nobody else waits."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest

from app.ledger.posting import packet_account
from app.store.database import Transaction
from lua.ids import PacketId, UserId
from lua.replies import Grab
from tests.deployment import Deployment
from tests.eventually import eventually

IN_TIME_S = 10.0
HangUp = Literal["close", "abort"]


async def send_and_hang_up(deployment: Deployment, message: bytes, how: HangUp) -> None:
    _, writer = await asyncio.open_connection(deployment.settings.host, deployment.settings.port)
    writer.write(message)
    await writer.drain()
    if how == "close":
        writer.close()  # says goodbye
    else:
        writer.transport.abort()


async def hang_up_amid(deployment: Deployment, messages: Sequence[bytes], how: HangUp) -> None:
    """Send all of them, and hang up as soon as the first packet is funded."""
    where = deployment.settings.host, deployment.settings.port
    writers = [(await asyncio.open_connection(*where))[1] for _ in messages]
    for writer, message in zip(writers, messages, strict=True):
        writer.write(message)
    await eventually(lambda: rows(deployment, "SELECT id FROM packet"), what="a funded packet")
    for writer in writers:
        writer.close() if how == "close" else writer.transport.abort()


def post(token: str, path: str, body: Mapping[str, Any] | None = None, key: str = "") -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: test", f"Authorization: Bearer {token}"]
    if body is not None:
        lines += [f"Idempotency-Key: {key}", "Content-Type: application/json"]
        lines += [f"Content-Length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content


async def all_is_quiet(deployment: Deployment) -> None:
    """Wait until nothing that was begun is still under way."""

    async def quiet() -> bool:
        await deployment.services.grabbing.drain()
        return not deployment.services.database._running

    await eventually(quiet, what="an end of everything begun")


async def rows(deployment: Deployment, sql: str) -> list[dict[str, Any]]:
    return await deployment.services.database.transaction(lambda work: work.rows(sql))


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_claims_of_clients_that_hung_up_are_kept_for_them(
    deployment: Deployment, how: HangUp
) -> None:
    packet_id = await deployment.create("sender", total_fen=100_000, shares=1000)
    number = deployment.services.packet_ids.read(packet_id)
    gone = [f"gone{number}" for number in range(200)]
    path = f"/v1/packets/{packet_id}/grab"

    vanishing = [
        asyncio.create_task(send_and_hang_up(deployment, post(deployment.token(user), path), how))
        for user in gone
    ]
    async with asyncio.timeout(IN_TIME_S):
        neighbours = await asyncio.gather(
            *(deployment.grab(packet_id, f"stays{number}") for number in range(200))
        )
        await asyncio.gather(*vanishing)
    assert {answer.body["outcome"] for answer in neighbours} == {"grabbed"}
    await all_is_quiet(deployment)

    async def claim_of(user: str) -> Grab | None:
        return await deployment.services.live.claim_of(number, UserId(user))

    kept = {user: claim for user in gone if (claim := await claim_of(user)) is not None}
    again = {user: (await deployment.grab(packet_id, user)).body for user in gone}

    for user, claim in kept.items():
        assert again[user]["outcome"] == "repeated"
        assert (again[user]["seq"], again[user]["amount_fen"]) == (claim.seq, claim.amount_fen)
    assert {again[user]["outcome"] for user in gone if user not in kept} <= {"grabbed"}
    told = [answer.body for answer in neighbours] + list(again.values())
    assert sorted(body["seq"] for body in told) == list(range(1, 401))
    booked = await eventually(lambda: booked_claims(deployment, number), what="400 booked claims")
    assert booked == {body["seq"]: body["amount_fen"] for body in told}


async def booked_claims(deployment: Deployment, number: PacketId) -> dict[int, int]:
    found = await rows(deployment, f"SELECT seq, amount_fen FROM claim WHERE packet_id = {number}")
    return {row["seq"]: row["amount_fen"] for row in found} if len(found) >= 400 else {}


async def test_a_grab_that_was_sent_to_redis_is_made_although_its_client_is_gone(
    deployment: Deployment,
) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=10)
    number = deployment.services.packet_ids.read(packet_id)
    path = f"/v1/packets/{packet_id}/grab"
    waiting = asyncio.Event()
    submit = deployment.services.redis_grabs.coalescer.submit

    def noting(*args: Any) -> Any:
        waiting.set()
        return submit(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deployment.services.redis_grabs.coalescer, "submit", noting)
        _, writer = await asyncio.open_connection(
            deployment.settings.host, deployment.settings.port
        )
        writer.write(post(deployment.token("ann"), path))
        async with asyncio.timeout(IN_TIME_S):
            await waiting.wait()
        writer.transport.abort()

    async def claimed() -> bool:
        counts = await deployment.services.live.counts(number)
        return counts is not None and counts.claimed == 1

    await eventually(claimed, what="the claim of a client that is gone")
    assert (await deployment.grab(packet_id, "ann")).body["outcome"] == "repeated"


async def test_requests_that_never_end_disturb_nobody(deployment: Deployment) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=10)
    token = deployment.token("sender")
    whole = post(token, "/v1/packets", {"total_fen": 1000, "shares": 10}, "never")
    for end in range(1, len(whole), 7):
        await send_and_hang_up(deployment, whole[:end], "close" if end % 2 else "abort")

    async with asyncio.timeout(IN_TIME_S):
        assert (await deployment.grab(packet_id, "ann")).body["outcome"] == "grabbed"
    await all_is_quiet(deployment)
    assert len(await rows(deployment, "SELECT id FROM packet")) == 1


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_money_moved_for_clients_that_hung_up_is_moved_whole_or_not_at_all(
    deployment: Deployment, how: HangUp
) -> None:
    clients = 8 * deployment.settings.mysql_connections
    await deployment.top_up("sender", 1000 * clients)
    sender, root = deployment.token("sender"), deployment.token("root", admin=True)
    order, gift = {"total_fen": 1000, "shares": 5}, {"amount_fen": 3}
    top_ups = "/v1/admin/accounts/ann/top-ups"

    messages = [post(sender, "/v1/packets", order, f"c{n}") for n in range(clients)]
    messages += [post(root, top_ups, gift, f"t{n}") for n in range(clients)]

    async with asyncio.timeout(IN_TIME_S):
        await asyncio.gather(
            *(send_and_hang_up(deployment, message, how) for message in messages[0::2]),
            hang_up_amid(deployment, messages[1::2], how),
        )
        # No connection is lost to those who are gone: everybody else is served, all at once.
        others = [f"other{n}" for n in range(2 * deployment.settings.mysql_connections)]
        packets = await asyncio.gather(
            *(deployment.create(user, total_fen=500, shares=5) for user in others)
        )
        grabs = await asyncio.gather(*(deployment.grab(packet, "zoe") for packet in packets))
    assert {grab.body["outcome"] for grab in grabs} == {"grabbed"}
    await all_is_quiet(deployment)

    found, accounts, entries = await deployment.services.database.transaction(the_books)
    assert len(others) < len(found) <= len(others) + clients  # of those who hung up, some got on
    packets_paid = {packet_account(PacketId(row["id"])): row["total_fen"] for row in found}
    balances = {row["id"]: row["balance_fen"] for row in accounts}
    assert {name for name in balances if name.startswith("packet:")} == packets_paid.keys()
    funded = sum(row["total_fen"] for row in found if row["sender_id"] == "sender")
    assert balances["user:sender"] == 1000 * clients - funded
    assert balances.get("user:ann", 0) in range(0, 3 * clients + 1, 3)
    assert sum(balances.values()) == 0
    assert sum(row["amount_fen"] for row in entries) == 0
    received = [
        (row["account_id"], row["amount_fen"])
        for row in entries
        if row["account_id"] in packets_paid and row["amount_fen"] > 0
    ]
    assert sorted(received) == sorted(packets_paid.items())


async def the_books(work: Transaction) -> tuple[list[dict[str, Any]], ...]:
    """All of them as of one moment."""
    return (
        await work.rows("SELECT id, sender_id, total_fen FROM packet"),
        await work.rows("SELECT id, balance_fen FROM account"),
        await work.rows("SELECT account_id, amount_fen FROM ledger_entry"),
    )
