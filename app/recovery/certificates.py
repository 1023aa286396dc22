"""The certificate in force: MySQL says which run of Redis may answer, and by which token."""

from typing import Final, NamedTuple

from app.control.leases import still_held
from app.store.database import Database, Transaction
from lua.certificate import Run

_NAME: Final = "redis"


class Published(NamedTuple):
    run: str
    token: str


class LeaseLost(Exception):
    """Another process has taken the job over; what this one found out may be old."""


class Certificates:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def published(self) -> Published | None:
        rows = await self._database.rows(
            "SELECT run, token FROM certificate WHERE name = %s", [_NAME], control=True
        )
        return Published(rows[0]["run"], rows[0]["token"]) if rows else None

    async def publish(self, run: Run, token: str, lease: str, owner: str) -> None:
        """Put a certificate into force. Raises LeaseLost unless `owner` holds `lease`."""

        async def write(transaction: Transaction) -> None:
            if not await still_held(transaction, lease, owner):
                raise LeaseLost(lease)
            sql = _UPSERT[transaction.dialect].format(now=transaction.now())
            await transaction.run(sql, [_NAME, str(run), token])

        await self._database.transaction(write)


_UPSERT: Final = {
    "mysql": "INSERT INTO certificate (name, run, token, certified_at) VALUES (%s, %s, %s, {now})"
    " ON DUPLICATE KEY UPDATE run = VALUES(run), token = VALUES(token),"
    " certified_at = VALUES(certified_at)",
    "sqlite": "INSERT INTO certificate (name, run, token, certified_at)"
    " VALUES (%s, %s, %s, {now}) ON CONFLICT (name) DO UPDATE SET run = excluded.run,"
    " token = excluded.token, certified_at = excluded.certified_at",
}
