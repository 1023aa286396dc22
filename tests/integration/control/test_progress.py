"""How far a job has come: noted, gone on with, forgotten; one job never moves another."""

from app.control.progress import Progress
from app.store.database import Database


async def test_the_last_noted_position_is_read(database: Database) -> None:
    progress = Progress(database, "reconcile")
    assert await progress.read() == -1

    for position in (0, 7, 2**63 - 1):
        await progress.note(position)
        assert await Progress(database, "reconcile").read() == position

    assert await Progress(database, "other").read() == -1


async def test_a_forgotten_job_begins_again_and_leaves_others_alone(database: Database) -> None:
    mine, other = Progress(database, "mine"), Progress(database, "other")
    await mine.note(5)
    await other.note(6)

    await mine.forget()

    assert await mine.read() == -1
    assert await other.read() == 6
