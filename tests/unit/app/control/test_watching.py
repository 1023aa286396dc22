"""Looking again and again: at once, in spite of failures, each on its own, and no longer."""

import asyncio
import logging

import pytest

from app.control import watching as module
from app.control.watching import watching


class Looks:
    """A look that does as it is told and tells when it is called."""

    def __init__(self) -> None:
        self.calls = 0
        self.error: Exception | None = None
        self._called = asyncio.Event()

    async def __call__(self) -> None:
        self.calls += 1
        self._called.set()
        if self.error is not None:
            raise self.error

    async def again(self) -> None:
        self._called.clear()
        async with asyncio.timeout(5):
            await self._called.wait()


async def test_it_looks_at_once_and_again_until_the_block_ends() -> None:
    look = Looks()
    async with watching(("it", look, 0.001)):
        await look.again()
        await look.again()

    assert len(asyncio.all_tasks()) == 1


async def test_failures_are_told_once_and_so_is_their_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    look = Looks()
    look.error = ValueError("gone")
    async with watching(("it", look, 0.001)):
        for _ in range(3):
            await look.again()
        look.error = None
        for _ in range(3):
            await look.again()

    assert [record.getMessage() for record in caplog.records] == [
        "it: ValueError('gone'); what was known before holds",
        "it: known again",
    ]


async def test_a_look_that_never_ends_is_given_up_and_holds_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "LOOK_TIMEOUT_S", 0.01)
    stuck, fine = Looks(), Looks()

    async def never() -> None:
        await stuck()
        await asyncio.Event().wait()

    async with watching(("stuck", never, 0.001), ("fine", fine, 0.001)):
        await stuck.again()
        await fine.again()
        await stuck.again()

    assert "stuck: TimeoutError()" in caplog.text


async def test_a_long_pause_does_not_hold_up_the_end() -> None:
    look = Looks()
    async with asyncio.timeout(5), watching(("it", look, 3600.0)):
        await look.again()

    assert look.calls == 1
