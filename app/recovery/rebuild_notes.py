"""Rebuilds under way, noted in MySQL: one whose process died is found, and gone on with."""

from typing import Final

from app.store.database import Database
from lua.ids import PacketId

# Longer than any one step of a rebuild takes: each notes anew that it goes on.
STALLED_S: Final = 90
STALLED_PER_READ: Final = 100


async def note_rebuild(database: Database, packet_id: PacketId, token: str) -> None:
    """Begun, or still going on; the newest rebuild of a packet takes its note over."""
    sql = _UPSERT[database.dialect].format(now=database.now())
    await database.transaction(lambda work: work.run(sql, [packet_id, token]))


async def forget_rebuild(database: Database, packet_id: PacketId, token: str) -> None:
    """Finished. A newer rebuild's note stays."""
    await database.transaction(
        lambda work: work.run(
            "DELETE FROM rebuild WHERE packet_id = %s AND token = %s", [packet_id, token]
        )
    )


async def stalled_rebuilds(database: Database) -> list[PacketId]:
    """Those that nobody has gone on with for long, the oldest first."""
    rows = await database.rows(
        f"SELECT packet_id FROM rebuild WHERE noted_at < {database.now(plus_s=-STALLED_S)}"
        f" ORDER BY noted_at, packet_id LIMIT {STALLED_PER_READ}"
    )
    return [PacketId(row["packet_id"]) for row in rows]


_UPSERT: Final = {
    "mysql": "INSERT INTO rebuild (packet_id, token, noted_at) VALUES (%s, %s, {now})"
    " ON DUPLICATE KEY UPDATE token = VALUES(token), noted_at = VALUES(noted_at)",
    "sqlite": "INSERT INTO rebuild (packet_id, token, noted_at) VALUES (%s, %s, {now})"
    " ON CONFLICT (packet_id) DO UPDATE SET token = excluded.token, noted_at = excluded.noted_at",
}
