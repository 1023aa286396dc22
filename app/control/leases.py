"""A lease keeps one process at a job at a time. It saves work; correctness never depends on it."""

from app.store.database import Database, Transaction


async def hold_lease(database: Database, name: str, owner: str, seconds: int) -> bool:
    """Take or renew the lease by the database's clock; False while somebody else holds it."""

    async def write(transaction: Transaction) -> bool:
        now, until = transaction.now(), transaction.now(plus_s=seconds)
        # One statement: an UPDATE that found no row would lock the gap that others insert into.
        await transaction.run(
            _TAKE[transaction.dialect].format(now=now, until=until), [name, owner]
        )
        rows = await transaction.rows(
            f"SELECT owner FROM lease WHERE name = %s AND until >= {now}", [name]
        )
        return bool(rows) and rows[0]["owner"] == owner

    return await database.transaction(write)


async def still_held(transaction: Transaction, name: str, owner: str) -> bool:
    """Whether `owner` has the lease, which nobody else can take before this transaction ends."""
    lock = "FOR UPDATE" if transaction.dialect == "mysql" else ""
    rows = await transaction.rows(
        f"SELECT owner FROM lease WHERE name = %s AND until >= {transaction.now()} {lock}", [name]
    )
    return bool(rows) and rows[0]["owner"] == owner


async def release_lease(database: Database, name: str, owner: str) -> None:
    await database.transaction(
        lambda work: work.run("DELETE FROM lease WHERE name = %s AND owner = %s", [name, owner])
    )


# MySQL assigns from left to right: `until` sees whether `owner` has become the one who asks.
_TAKE = {
    "mysql": "INSERT INTO lease (name, owner, until) VALUES (%s, %s, {until})"
    " ON DUPLICATE KEY UPDATE owner = IF(until < {now}, VALUES(owner), owner),"
    " until = IF(owner = VALUES(owner), VALUES(until), until)",
    "sqlite": "INSERT INTO lease (name, owner, until) VALUES (%s, %s, {until})"
    " ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until"
    " WHERE lease.owner = excluded.owner OR lease.until < {now}",
}
