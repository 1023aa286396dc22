"""Bodies far over the limit, really sent: the refusal arrives, whatever is still on its way."""

import asyncio

import pytest

from app.http.application import REQUEST_MAX_BYTES
from tests.deployment import Deployment

IN_TIME_S = 10.0
SIZES = [REQUEST_MAX_BYTES + 1, 20 * REQUEST_MAX_BYTES, 400 * REQUEST_MAX_BYTES]
PATHS = ["/v1/packets/{}/grab", "/v1/packets/{}/ticket", "/v1/packets"]


def chunked(size: int) -> bytes:
    chunk = b"%x\r\n%b\r\n" % (1000, b"x" * 1000)
    return chunk * (size // 1000 + 1) + b"0\r\n\r\n"


async def send(deployment: Deployment, path: str, header: str, body: bytes) -> bytes:
    """All that the server says; the body is pushed for as long as the server takes it."""
    host, port = deployment.settings.host, deployment.settings.port
    reader, writer = await asyncio.open_connection(host, port)
    head = f"POST {path} HTTP/1.1\r\nHost: test\r\n{header}\r\n"
    head += f"Authorization: Bearer {deployment.token('ann')}\r\n\r\n"
    writer.write(head.encode() + body)
    try:
        async with asyncio.timeout(IN_TIME_S):
            return await reader.readuntil(b"}")
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("path", PATHS)
async def test_a_body_that_is_too_large_is_refused_clearly_while_it_is_sent(
    deployment: Deployment, path: str
) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=5)

    for size in SIZES:
        for header, body in (
            (f"Content-Length: {size}", b"x" * size),
            ("Transfer-Encoding: chunked", chunked(size)),
        ):
            said = await send(deployment, path.format(packet_id), header, body)
            assert said.startswith(b"HTTP/1.1 413 "), (size, header)
            assert b'"code": "too_large"' in said
            assert b"connection: close" in said.lower()

    claim = await deployment.ask("GET", f"/v1/packets/{packet_id}/claim", user="ann")
    assert claim.code == "no_claim"  # what was refused was not done either
    assert (await deployment.grab(packet_id, "ann")).body["outcome"] == "grabbed"


async def test_a_body_at_the_limit_is_taken(deployment: Deployment) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=5)
    size = REQUEST_MAX_BYTES
    path, header = f"/v1/packets/{packet_id}/grab", f"Content-Length: {size}"

    assert (await send(deployment, path, header, b"x" * size)).startswith(b"HTTP/1.1 200 ")
