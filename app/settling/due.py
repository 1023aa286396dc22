"""Which packets still have open books, and which of them are due: expired, or sold out."""

from typing import Final

from app.store.database import Database
from lua.ids import PacketId

DUE_PER_READ: Final = 100


async def due_packets(
    database: Database, after: tuple[str, PacketId] | None = None
) -> list[tuple[str, PacketId]]:
    """The next due packets with the time they were due at, by the database's clock."""
    since, after_id = after or ("1970-01-01 00:00:00", PacketId(-1))
    rows = await database.rows(
        "SELECT packet_id, due_at FROM unsettled"
        f" WHERE due_at <= {database.now()} AND (due_at > %s OR (due_at = %s AND packet_id > %s))"
        f" ORDER BY due_at, packet_id LIMIT {DUE_PER_READ}",
        [since, since, after_id],
    )
    return [(str(row["due_at"]), PacketId(row["packet_id"])) for row in rows]


async def unsettled_packets(database: Database, after_id: PacketId, limit: int) -> list[PacketId]:
    """A page of the packets whose books are open, or of whose end Redis may not know yet."""
    rows = await database.rows(
        f"SELECT packet_id FROM unsettled WHERE packet_id > %s ORDER BY packet_id LIMIT {limit}",
        [after_id],
    )
    return [PacketId(row["packet_id"]) for row in rows]
