"""A TCP proxy on loopback that carries one link, and spoils it on request."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.servers.ports import LOOPBACK, free_port

CHUNK_BYTES: Final = 64 * 1024
BIND_TRIES: Final = 20


class _Connection:
    """A client's connection and the one we opened to the server for it."""

    def __init__(self, *writers: asyncio.StreamWriter) -> None:
        self.writers = list(writers)
        self.has_lost = False  # bytes; what came after them would be nonsense to the client

    def abort(self) -> None:
        for writer in self.writers:
            writer.transport.abort()

    def close(self) -> None:
        for writer in self.writers:
            writer.close()


class Proxy:
    """Passes everything on, until told otherwise. At most one kind of trouble at a time."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._holder = _hold_a_port()
        self.port: Final[int] = self._holder.getsockname()[1]
        self._listener: asyncio.AbstractServer | None = None
        self._connections: set[_Connection] = set()
        self._moving = asyncio.Event()
        self._hearing = asyncio.Event()
        self._delay_s = 0.0

    @property
    def connections(self) -> int:
        return len(self._connections)

    async def open(self) -> None:
        self._moving.set()
        self._hearing.set()
        await self._listen()

    def close(self) -> None:
        self._stop_listening()
        self.cut()
        self._holder.close()

    def cut(self) -> None:
        """Reset every connection. New ones are taken as before."""
        for connection in list(self._connections):
            connection.abort()

    def refuse(self) -> None:
        """Cut everything and refuse new connections, as if nothing listened; until `accept`."""
        self._stop_listening()
        self.cut()

    def lead_to(self, target_port: int) -> None:
        """Move the address: what is open is cut, and what comes is carried elsewhere."""
        self._target_port = target_port
        self.cut()

    async def accept(self) -> None:
        await self._listen()

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """Nothing moves; connections stay open and new ones are taken."""
        self._moving.clear()
        try:
            yield
        finally:
            self._moving.set()

    @contextmanager
    def delayed(self, seconds: float) -> Iterator[None]:
        """Everything arrives late, in either direction."""
        self._delay_s = seconds
        try:
            yield
        finally:
            self._delay_s = 0.0

    @contextmanager
    def losing_replies(self) -> Iterator[None]:
        """The server gets every request, and no answer of it arrives.

        Connections that lost bytes are cut at the end: TCP never goes on behind a gap.
        """
        self._hearing.clear()
        try:
            yield
        finally:
            for connection in list(self._connections):
                if connection.has_lost:
                    connection.abort()
            self._hearing.set()

    async def _listen(self) -> None:
        self._listener = await asyncio.start_server(
            self._carry, LOOPBACK, self.port, reuse_port=True
        )

    def _stop_listening(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    async def _carry(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        connection = _Connection(to_client)
        self._connections.add(connection)
        try:
            await self._moving.wait()
            server, to_server = await asyncio.open_connection(LOOPBACK, self._target_port)
            connection.writers.append(to_server)
            await self._until_one_ends(
                asyncio.create_task(self._pass_requests(client, to_server)),
                asyncio.create_task(self._pass_replies(server, to_client, connection)),
            )
            connection.close()
        except (OSError, RuntimeError):  # the latter is uvloop's word for a transport that is gone
            connection.abort()
        finally:
            self._connections.discard(connection)

    async def _until_one_ends(self, *pumps: asyncio.Task[None]) -> None:
        try:
            ended, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in ended:
                pump.result()
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pass_requests(
        self, client: asyncio.StreamReader, to_server: asyncio.StreamWriter
    ) -> None:
        while chunk := await client.read(CHUNK_BYTES):
            await self._wait_on_the_way()
            to_server.write(chunk)
            await to_server.drain()
        await self._wait_on_the_way()

    async def _pass_replies(
        self,
        server: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        connection: _Connection,
    ) -> None:
        while chunk := await server.read(CHUNK_BYTES):
            await self._wait_on_the_way()
            if not self._hearing.is_set():
                connection.has_lost = True
            if not connection.has_lost:
                to_client.write(chunk)
                await to_client.drain()
        await self._wait_on_the_way()
        await self._hearing.wait()  # a farewell is lost as well

    async def _wait_on_the_way(self) -> None:
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        await self._moving.wait()


def _hold_a_port() -> socket.socket:
    """A bound socket that never listens: the port stays ours even while connections are refused."""
    for _ in range(BIND_TRIES):
        holder = socket.socket()
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            holder.bind((LOOPBACK, free_port()))
        except OSError:
            holder.close()
            continue
        return holder
    raise OSError(f"no free port in {BIND_TRIES} tries")
