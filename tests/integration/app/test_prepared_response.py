"""The prepared answer of a grab, as bytes on a socket, next to Sanic's ordinary answers."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.deployment import Deployment

IN_TIME_S = 10.0
TOO_MUCH = 16 * 1024 + 1


@dataclass(frozen=True, slots=True)
class RawAnswer:
    version: str
    status: int
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def answer(self) -> RawAnswer:
        async with asyncio.timeout(IN_TIME_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("ascii")
            [first, *lines] = head.removesuffix("\r\n\r\n").split("\r\n")
            pairs = [(name.lower(), value) for name, value in (at.split(": ", 1) for at in lines)]
            headers = dict(pairs)
            assert len(headers) == len(pairs), f"a header twice: {head}"
            body = await self.reader.readexactly(int(headers["content-length"]))
        version, status, _ = first.split(" ", 2)
        return RawAnswer(version, int(status), headers, json.loads(body))

    async def is_closed_by_the_server(self) -> bool:
        async with asyncio.timeout(IN_TIME_S):
            try:
                return await self.reader.read() == b""
            except ConnectionResetError:
                return True


@asynccontextmanager
async def connected(deployment: Deployment) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection(
        deployment.settings.host, deployment.settings.port
    )
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()


@pytest.fixture
async def packet_id(deployment: Deployment) -> str:
    return await deployment.create("sender", total_fen=1000, shares=10)


def request(
    deployment: Deployment,
    path: str,
    *headers: str,
    method: str = "POST",
    version: str = "HTTP/1.1",
    user: str = "ann",
) -> bytes:
    lines = [f"{method} {path} {version}", "Host: test"]
    lines += [f"Authorization: Bearer {deployment.token(user)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def grab(deployment: Deployment, packet_id: str, *headers: str, **how: str) -> bytes:
    return request(deployment, f"/v1/packets/{packet_id}/grab", *headers, **how)


async def test_two_grabs_one_after_the_other_share_a_connection(
    deployment: Deployment, packet_id: str
) -> None:
    async with connected(deployment) as connection:
        connection.writer.write(grab(deployment, packet_id, user="ann"))
        first = await connection.answer()
        connection.writer.write(grab(deployment, packet_id, user="bob"))
        second = await connection.answer()

    assert (first.body["seq"], second.body["seq"]) == (1, 2)
    for answer in (first, second):
        assert (answer.version, answer.status) == ("HTTP/1.1", 200)
        assert answer.headers == {
            "content-length": answer.headers["content-length"],
            "connection": "keep-alive",
            "content-type": "application/json",
            "cache-control": "no-store",
        }


async def test_prepared_and_ordinary_answers_carry_the_same_headers(
    deployment: Deployment, packet_id: str
) -> None:
    async with connected(deployment) as connection:
        connection.writer.write(grab(deployment, packet_id))
        prepared = await connection.answer()
        connection.writer.write(grab(deployment, packet_id, "Connection: close"))
        ordinary = await connection.answer()

    assert ordinary.headers["connection"] == "close"
    for name in ("content-type", "cache-control"):
        assert prepared.headers[name] == ordinary.headers[name]
    assert prepared.headers.keys() == ordinary.headers.keys()
    assert prepared.body | {"outcome": "repeated"} == ordinary.body


async def test_pipelined_grabs_reads_and_problems_are_answered_in_their_order(
    deployment: Deployment, packet_id: str
) -> None:
    reading = f"/v1/packets/{packet_id}/claim"
    sent = [
        request(deployment, reading, method="GET"),
        grab(deployment, packet_id),
        request(deployment, reading, method="GET"),
        grab(deployment, "no-such-packet"),
        grab(deployment, packet_id),
        request(deployment, "/nowhere", method="GET"),
        grab(deployment, packet_id, user="bob"),
    ]
    async with connected(deployment) as connection:
        connection.writer.write(b"".join(sent))
        answers = [await connection.answer() for _ in sent]

    assert [answer.status for answer in answers] == [404, 200, 200, 404, 200, 404, 200]
    assert [answer.body.get("outcome") for answer in answers[1:5:3]] == ["grabbed", "repeated"]
    assert [answers[at].body["code"] for at in (0, 3)] == ["no_claim", "packet_unknown"]
    assert answers[2].body["amount_fen"] == answers[1].body["amount_fen"]
    assert (answers[5].body["code"], answers[6].body["seq"]) == ("not_found", 2)


async def test_a_request_that_arrives_byte_by_byte_is_answered(
    deployment: Deployment, packet_id: str
) -> None:
    async with connected(deployment) as connection:
        for byte in grab(deployment, packet_id, "Content-Length: 2") + b"{}":
            connection.writer.write(bytes([byte]))
            await asyncio.sleep(0)
        answer = await connection.answer()

    assert answer.body["outcome"] == "grabbed"


async def test_http_1_0_is_answered_and_closed_unless_it_asks_to_stay(
    deployment: Deployment, packet_id: str
) -> None:
    async with connected(deployment) as connection:
        staying = grab(deployment, packet_id, "Connection: keep-alive", version="HTTP/1.0")
        connection.writer.write(staying)
        first = await connection.answer()
        connection.writer.write(grab(deployment, packet_id, version="HTTP/1.0"))
        second = await connection.answer()

        assert await connection.is_closed_by_the_server()
    assert (first.body["outcome"], first.headers["connection"]) == ("grabbed", "keep-alive")
    assert (second.body["outcome"], second.headers["connection"]) == ("repeated", "close")


async def test_an_impatient_client_that_expects_100_continue_is_answered_once(
    deployment: Deployment, packet_id: str
) -> None:
    more = ("Content-Length: 2", "Expect: 100-continue")
    async with connected(deployment) as connection:
        connection.writer.write(grab(deployment, packet_id, *more) + b"{}")
        async with asyncio.timeout(IN_TIME_S):
            interim = await connection.reader.readuntil(b"\r\n\r\n")
        answer = await connection.answer()
        connection.writer.write(grab(deployment, packet_id))
        after = await connection.answer()

    assert interim == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert (answer.body["outcome"], after.body["outcome"]) == ("grabbed", "repeated")


async def test_an_expectation_nobody_knows_is_a_problem(
    deployment: Deployment, packet_id: str
) -> None:
    more = ("Content-Length: 2", "Expect: a-miracle")
    async with connected(deployment) as connection:
        connection.writer.write(grab(deployment, packet_id, *more) + b"{}")
        answer = await connection.answer()

    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.body["code"] == "bad_request"


@pytest.mark.parametrize("route", ["/v1/packets/{}/grab", "/v1/packets"])
async def test_body_over_the_limit_is_too_large_and_ends_the_connection(
    deployment: Deployment, packet_id: str, route: str
) -> None:
    path = route.format(packet_id)
    async with connected(deployment) as connection:
        # The head alone: what the server refuses unread cannot reset the answer on its way.
        connection.writer.write(request(deployment, path, f"Content-Length: {TOO_MUCH}"))
        answer = await connection.answer()

        assert await connection.is_closed_by_the_server()
    assert (answer.status, answer.body["code"]) == (413, "too_large")
    assert answer.headers["connection"] == "close"


async def test_chunked_body_over_the_limit_is_too_large_and_ends_the_connection(
    deployment: Deployment, packet_id: str
) -> None:
    async with connected(deployment) as connection:
        connection.writer.write(grab(deployment, packet_id, "Transfer-Encoding: chunked"))
        connection.writer.write(b"%x\r\n" % TOO_MUCH)
        answer = await connection.answer()

        assert await connection.is_closed_by_the_server()
    assert (answer.status, answer.body["code"]) == (413, "too_large")


async def test_body_just_within_the_limit_is_ignored_by_a_grab(
    deployment: Deployment, packet_id: str
) -> None:
    async with connected(deployment) as connection:
        size = TOO_MUCH - 1
        connection.writer.write(grab(deployment, packet_id, f"Content-Length: {size}"))
        connection.writer.write(b"x" * size + grab(deployment, packet_id))
        answers = [await connection.answer(), await connection.answer()]

    assert [answer.body["outcome"] for answer in answers] == ["grabbed", "repeated"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nowhere", 404, "not_found"),
        ("POST", "/", 404, "not_found"),
        ("GET", "/v1/packets/{}/grab", 405, "method_not_allowed"),
        ("DELETE", "/v1/packets", 405, "method_not_allowed"),
        ("POST", "/v1/packets/{}/grab/more", 404, "not_found"),
    ],
)
async def test_wrong_paths_and_methods_are_problems_and_keep_the_connection(
    deployment: Deployment, packet_id: str, method: str, path: str, status: int, code: str
) -> None:
    async with connected(deployment) as connection:
        connection.writer.write(request(deployment, path.format(packet_id), method=method))
        refused = await connection.answer()
        connection.writer.write(grab(deployment, packet_id))
        answer = await connection.answer()

    assert (refused.status, refused.body["code"]) == (status, code)
    assert refused.headers["content-type"] == "application/problem+json"
    assert ("allow" in refused.headers) == (status == 405)
    assert answer.body["outcome"] == "grabbed"


@pytest.mark.parametrize(
    "junk",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        b"X" * (TOO_MUCH + 64),
    ],
)
async def test_what_is_not_http_is_a_problem_and_ends_the_connection(
    deployment: Deployment, junk: bytes
) -> None:
    async with connected(deployment) as connection:
        connection.writer.write(junk)
        answer = await connection.answer()

        assert await connection.is_closed_by_the_server()
    assert answer.body["code"] in {"bad_request", "too_large"}
