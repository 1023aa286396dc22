"""Connections as they are: kept alive, pipelined, closed half-way, gone before the answer."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from sanic.server.async_server import AsyncioServer

from app.config import Settings
from app.ledger.posting import user_account
from app.services import Services
from tests.deployment import Deployment, running_api
from tests.eventually import eventually

IN_TIME_S = 10.0


def grab_request(deployment: Deployment, packet_id: str, user: str, *, more: str = "") -> bytes:
    return (
        f"POST /v1/packets/{packet_id}/grab HTTP/1.1\r\nHost: test\r\n"
        f"Authorization: Bearer {deployment.token(user)}\r\n{more}\r\n"
    ).encode()


async def connect(deployment: Deployment) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(deployment.settings.host, deployment.settings.port)


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], Any]:
    async with asyncio.timeout(IN_TIME_S):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        status, *lines = head.strip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
        body = await reader.readexactly(int(headers["content-length"]))
    return int(status.split()[1]), headers, json.loads(body)


async def test_pipelined_grabs_are_answered_in_order_on_one_connection(
    deployment: Deployment,
) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=10)
    users = [f"user{number}" for number in range(5)]
    reader, writer = await connect(deployment)

    writer.write(b"".join(grab_request(deployment, packet_id, user) for user in users * 2))
    answers = [await read_answer(reader) for _ in users * 2]
    writer.close()

    outcomes = [body["outcome"] for _, _, body in answers]
    assert outcomes == ["grabbed"] * 5 + ["repeated"] * 5
    assert [body["seq"] for _, _, body in answers] == [1, 2, 3, 4, 5] * 2
    assert {headers["connection"] for _, headers, _ in answers} == {"keep-alive"}


async def test_a_connection_that_wants_to_close_is_answered_and_closed(
    deployment: Deployment,
) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=10)
    reader, writer = await connect(deployment)

    writer.write(grab_request(deployment, packet_id, "ann", more="Connection: close\r\n"))
    status, headers, body = await read_answer(reader)

    assert (status, headers["connection"], body["outcome"]) == (200, "close", "grabbed")
    assert headers["cache-control"] == "no-store"
    async with asyncio.timeout(IN_TIME_S):
        assert await reader.read() == b""
    writer.close()


async def test_bodies_on_a_grab_are_read_and_ignored(deployment: Deployment) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=10)
    reader, writer = await connect(deployment)

    sized = grab_request(deployment, packet_id, "ann", more="Content-Length: 4\r\n") + b"junk"
    chunked = grab_request(deployment, packet_id, "ann", more="Transfer-Encoding: chunked\r\n")
    writer.write(sized + chunked + b"3\r\nabc\r\n0\r\n\r\n" + sized)
    answers = [(await read_answer(reader))[2]["outcome"] for _ in range(3)]
    writer.close()

    assert answers == ["grabbed", "repeated", "repeated"]


async def test_a_client_that_waits_for_100_continue_gets_it(deployment: Deployment) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=10)
    reader, writer = await connect(deployment)

    more = "Content-Length: 2\r\nExpect: 100-continue\r\n"
    writer.write(grab_request(deployment, packet_id, "ann", more=more))
    async with asyncio.timeout(IN_TIME_S):
        interim = await reader.readuntil(b"\r\n\r\n")
    writer.write(b"{}")
    status, _, body = await read_answer(reader)
    writer.close()

    assert interim.startswith(b"HTTP/1.1 100 ")
    assert (status, body["outcome"]) == (200, "grabbed")


async def test_clients_that_vanish_lose_no_claim_and_disturb_nobody(
    deployment: Deployment,
) -> None:
    packet_id = await deployment.create("sender", total_fen=100_000, shares=400)

    async def grab_and_vanish(user: str) -> None:
        _, writer = await connect(deployment)
        writer.write(grab_request(deployment, packet_id, user))
        await writer.drain()
        writer.transport.abort()

    gone = [f"gone{number}" for number in range(200)]
    stays = [f"stays{number}" for number in range(200)]
    vanishing = asyncio.gather(*(grab_and_vanish(user) for user in gone))
    answers = await asyncio.gather(*(deployment.grab(packet_id, user) for user in stays))
    await vanishing
    again = [(await deployment.grab(packet_id, user)).body for user in gone]

    assert {answer.body["outcome"] for answer in answers} == {"grabbed"}
    assert {answer["outcome"] for answer in again} <= {"grabbed", "repeated"}
    assert len({answer["seq"] for answer in again} | {a.body["seq"] for a in answers}) == 400
    packet = await deployment.services.live.counts(deployment.services.packet_ids.read(packet_id))
    assert packet is not None
    assert packet.remaining == 0


async def test_clients_that_vanish_while_money_moves_drain_no_pool_and_leave_no_half(
    deployment: Deployment,
) -> None:
    clients = 8 * deployment.settings.mysql_connections
    await deployment.top_up("sender", 1000 * clients)

    async def vanish(path: str, token: str, key: str, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        _, writer = await connect(deployment)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\n"
            f"Idempotency-Key: {key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        writer.write(head.encode() + content)
        await writer.drain()
        await asyncio.sleep(0)
        writer.transport.abort()

    sender, root = deployment.token("sender"), deployment.token("root", admin=True)
    order = {"total_fen": 1000, "shares": 5}
    await asyncio.gather(
        *(vanish("/v1/packets", sender, f"c{n}", order) for n in range(clients)),
        *(
            vanish("/v1/admin/accounts/ann/top-ups", root, f"t{n}", {"amount_fen": 3})
            for n in range(clients)
        ),
    )

    async with asyncio.timeout(IN_TIME_S):
        for number in range(clients):  # the same keys again: what is missing is done, nothing twice
            again = await deployment.ask(
                *("POST", "/v1/packets"), user="sender", body=order, key=f"c{number}"
            )
            assert again.status == 201

    async def money(sql: str, *values: Any) -> int:
        [row] = await deployment.services.database.transaction(lambda work: work.rows(sql, values))
        return int(row["n"])

    async def settled_down() -> bool:
        in_use = deployment.services.database._running
        return not in_use

    await eventually(settled_down, what="all transactions ended")
    assert await money("SELECT COUNT(*) AS n FROM packet") == clients
    assert await money("SELECT SUM(amount_fen) AS n FROM ledger_entry") == 0
    assert await money("SELECT SUM(balance_fen) AS n FROM account") == 0
    balance = "SELECT balance_fen AS n FROM account WHERE id = %s"
    assert await money(balance, user_account("sender")) == 0  # type: ignore[arg-type]
    assert await money("SELECT COUNT(*) AS n FROM account WHERE id LIKE 'packet:%%'") == clients


async def test_no_connection_is_taken_before_the_server_is_ready_for_one(
    settings: Settings, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    early: list[str] = []
    startup: Callable[[AsyncioServer], Awaitable[None]] = AsyncioServer.startup

    async def knock_and_start(server: AsyncioServer) -> None:
        try:
            _, writer = await asyncio.open_connection(settings.host, settings.port)
            early.append("taken")
            writer.close()
        except ConnectionRefusedError:
            early.append("refused")
        await startup(server)

    monkeypatch.setattr(AsyncioServer, "startup", knock_and_start)
    async with (
        running_api(settings, services) as url,
        aiohttp.ClientSession() as session,
        session.get(f"{url}/healthz") as response,
    ):
        assert response.status == 200

    assert early == ["refused"]
