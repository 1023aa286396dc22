"""Counts the booked claims of a packet from outside, on a connection of its own."""

import asyncio
from urllib.parse import urlsplit

import asyncmy

from bench.stack import Stack
from lua.ids import PacketId


class RowCounter:
    """Reads the packet's own counter: one row by its key, so watching costs next to nothing."""

    def __init__(self, stack: Stack, packet_id: PacketId) -> None:
        url = urlsplit(stack.environment["REDPACKET_MYSQL_URL"])
        self._loop = asyncio.new_event_loop()
        self._connection = self._loop.run_until_complete(
            asyncmy.connect(
                host=url.hostname,
                port=url.port,
                user=url.username,
                password=url.password,
                database=url.path.lstrip("/"),
                autocommit=True,
            )
        )
        self._packet_id = packet_id

    def rows(self) -> int:
        return self._loop.run_until_complete(self._read())

    async def _read(self) -> int:
        async with self._connection.cursor() as cursor:
            await cursor.execute(
                "SELECT shares - remaining_shares FROM packet WHERE id = %s", [self._packet_id]
            )
            [row] = await cursor.fetchall()
            return int(row[0])

    def claimed_at_ms(self) -> list[int]:
        """When each booked claim was made, in order of seq."""

        async def read() -> list[int]:
            async with self._connection.cursor() as cursor:
                await cursor.execute(
                    "SELECT CAST(ROUND(1000 * TIMESTAMPDIFF(MICROSECOND, '1970-01-01', claimed_at)"
                    " / 1000000) AS SIGNED) FROM claim WHERE packet_id = %s ORDER BY seq",
                    [self._packet_id],
                )
                return [int(row[0]) for row in await cursor.fetchall()]

        return self._loop.run_until_complete(read())

    def close(self) -> None:
        self._connection.close()
        self._loop.close()
