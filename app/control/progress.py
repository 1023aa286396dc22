"""How far a long job has come, so that a run that was cut off can be gone on with."""

from app.store.database import Database, Transaction


class Progress:
    def __init__(self, database: Database, job: str) -> None:
        self._database = database
        self._job = job

    async def read(self) -> int:
        """The last noted position; -1 where none is."""
        rows = await self._database.rows(
            "SELECT position FROM job_progress WHERE job = %s", [self._job]
        )
        return rows[0]["position"] if rows else -1

    async def note(self, position: int) -> None:
        async def write(transaction: Transaction) -> None:
            sql = _UPSERT[transaction.dialect].format(now=transaction.now())
            await transaction.run(sql, [self._job, position])

        await self._database.transaction(write)

    async def forget(self) -> None:
        await self._database.transaction(
            lambda work: work.run("DELETE FROM job_progress WHERE job = %s", [self._job])
        )


_UPSERT = {
    "mysql": "INSERT INTO job_progress (job, position, noted_at) VALUES (%s, %s, {now})"
    " ON DUPLICATE KEY UPDATE position = VALUES(position), noted_at = VALUES(noted_at)",
    "sqlite": "INSERT INTO job_progress (job, position, noted_at) VALUES (%s, %s, {now})"
    " ON CONFLICT (job) DO UPDATE SET position = excluded.position, noted_at = excluded.noted_at",
}
