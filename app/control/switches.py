"""Switches that an operator throws: all grabs, all creations, or one packet, off."""

from typing import Any, Final

from app.store.database import Database, Transaction
from lua.ids import PacketId

GRABS: Final = "grabs"
CREATIONS: Final = "creations"
MAX_REASON: Final = 200


def packet_switch(packet_id: PacketId) -> str:
    return f"packet:{packet_id}"


class Switches:
    """What is switched off. MySQL holds it; every process looks there several times a second."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.off: frozenset[str] = frozenset()

    async def refresh(self) -> None:
        rows = await self._database.rows("SELECT name FROM switched_off", control=True)
        self.off = frozenset(row["name"] for row in rows)

    async def listed(self) -> list[dict[str, Any]]:
        return await self._database.rows(
            "SELECT name, reason, since FROM switched_off ORDER BY name"
        )

    async def turn_off(self, name: str, reason: str) -> None:
        """Off again changes the reason only."""

        async def write(transaction: Transaction) -> None:
            sql = _INSERT[transaction.dialect].format(now=transaction.now())
            await transaction.run(sql, [name, reason[:MAX_REASON]])

        await self._database.transaction(write)

    async def turn_on(self, name: str) -> None:
        await self._database.transaction(
            lambda work: work.run("DELETE FROM switched_off WHERE name = %s", [name])
        )


_INSERT = {
    "mysql": "INSERT INTO switched_off (name, reason, since) VALUES (%s, %s, {now})"
    " ON DUPLICATE KEY UPDATE reason = VALUES(reason)",
    "sqlite": "INSERT INTO switched_off (name, reason, since) VALUES (%s, %s, {now})"
    " ON CONFLICT (name) DO UPDATE SET reason = excluded.reason",
}
