"""Each trouble the proxy can make, and that it makes no other."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from tests.chaos.proxy import Proxy
from tests.eventually import eventually
from tests.servers.ports import LOOPBACK

ANSWER_S = 5.0
SILENCE_S = 0.2


@dataclass
class EchoServer:
    """Answers each line with the same line, and remembers it."""

    heard: list[bytes] = field(default_factory=list)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while line := await reader.readline():
                self.heard.append(line)
                writer.write(line)
                await writer.drain()
        writer.close()


@dataclass
class Client:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, line: bytes) -> bytes:
        self.writer.write(line)
        return await self.answer()

    async def answer(self) -> bytes:
        async with asyncio.timeout(ANSWER_S):
            return await self.reader.readline()

    async def hears_nothing(self) -> bool:
        try:
            async with asyncio.timeout(SILENCE_S):
                await self.reader.readline()
        except TimeoutError:
            return True
        return False

    async def is_cut(self) -> bool:
        try:
            return await self.answer() == b""
        except ConnectionError:
            return True


@dataclass
class Link:
    echo: EchoServer
    proxy: Proxy

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        reader, writer = await asyncio.open_connection(LOOPBACK, self.proxy.port)
        try:
            yield Client(reader, writer)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def has_heard(self, line: bytes) -> None:
        async def probe() -> bool:
            return line in self.echo.heard

        await eventually(probe, what=f"the server hears {line!r}")


@pytest.fixture
async def link() -> AsyncIterator[Link]:
    echo = EchoServer()
    server = await asyncio.start_server(echo.answer, LOOPBACK, 0)
    proxy = Proxy(server.sockets[0].getsockname()[1])
    await proxy.open()
    link = Link(echo, proxy)
    yield link
    proxy.close()
    server.close()

    async def all_gone() -> bool:
        return proxy.connections == 0

    await eventually(all_gone, what="no connection left")


async def test_it_passes_on_what_both_sides_say(link: Link) -> None:
    big = b"x" * 60_000 + b"\n"
    async with link.client() as one, link.client() as other:
        assert await one.ask(b"one\n") == b"one\n"
        assert await other.ask(b"other\n") == b"other\n"
        assert await one.ask(big) == big


async def test_the_end_of_a_client_is_passed_on(link: Link) -> None:
    async with link.client() as client:
        assert await client.ask(b"hello\n") == b"hello\n"

    async def gone() -> bool:
        return link.proxy.connections == 0

    await eventually(gone, what="the connection is gone")


async def test_a_dead_server_is_a_cut_connection(link: Link) -> None:
    nobody = Proxy(link.proxy.port)
    link.proxy.refuse()
    await nobody.open()
    try:
        reader, writer = await asyncio.open_connection(LOOPBACK, nobody.port)
        assert await Client(reader, writer).is_cut()
        writer.close()
    finally:
        nobody.close()


async def test_a_cut_ends_every_connection_and_takes_new_ones(link: Link) -> None:
    async with link.client() as one, link.client() as other:
        await one.ask(b"one\n")
        await other.ask(b"other\n")
        link.proxy.cut()
        assert await one.is_cut()
        assert await other.is_cut()
    async with link.client() as client:
        assert await client.ask(b"again\n") == b"again\n"


async def test_refused_is_refused_on_the_same_port_until_it_accepts(link: Link) -> None:
    async with link.client() as client:
        await client.ask(b"before\n")
        link.proxy.refuse()
        assert await client.is_cut()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(LOOPBACK, link.proxy.port)
    await link.proxy.accept()
    async with link.client() as client:
        assert await client.ask(b"after\n") == b"after\n"


async def test_delayed_answers_are_late_and_complete(link: Link) -> None:
    async with link.client() as client:
        with link.proxy.delayed(0.1):
            began_s = time.monotonic()
            assert await client.ask(b"late\n") == b"late\n"
            assert time.monotonic() - began_s >= 0.2  # there and back
        assert await client.ask(b"soon\n") == b"soon\n"


async def test_nothing_moves_while_stalled_and_all_arrives_afterwards(link: Link) -> None:
    async with link.client() as client:
        await client.ask(b"before\n")
        with link.proxy.stalled():
            client.writer.write(b"stuck\n")
            assert await client.hears_nothing()
            assert link.echo.heard == [b"before\n"]
        assert await client.answer() == b"stuck\n"


async def test_a_connection_made_while_stalled_works_afterwards(link: Link) -> None:
    with ExitStack() as stall:
        stall.enter_context(link.proxy.stalled())
        async with link.client() as client:
            client.writer.write(b"early\n")
            assert await client.hears_nothing()
            stall.close()
            assert await client.answer() == b"early\n"


async def test_a_lost_reply_was_heard_by_the_server_and_ends_the_connection(link: Link) -> None:
    async with link.client() as client, link.client() as silent:
        await client.ask(b"before\n")
        await silent.ask(b"silent\n")
        with link.proxy.losing_replies():
            client.writer.write(b"lost\n")
            await link.has_heard(b"lost\n")
            assert await client.hears_nothing()
        assert await client.is_cut()
        # Nothing of this one was lost, so it may go on.
        assert await silent.ask(b"after\n") == b"after\n"
