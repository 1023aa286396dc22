"""Every error that a command foresees ends it with "could not run", never with "a difference"."""

import importlib
import pkgutil

import pytest

import app
from app import cli
from app.exit_codes import CANNOT_RUN, COULD_NOT_RUN

# Where commands reach: their errors, and not those that an HTTP request or a worker answers.
REACHED = ("app.recovery", "app.store", "app.packets.reading", "app.packets.splitting")


def foreseen_errors() -> list[type[Exception]]:
    modules = [module.name for module in pkgutil.walk_packages(app.__path__, "app.")]
    return [
        error
        for name in modules
        if name.startswith(REACHED) and ".migrations." not in name
        for error in vars(importlib.import_module(name)).values()
        if isinstance(error, type) and issubclass(error, Exception) and error.__module__ == name
    ]


def test_there_are_some() -> None:
    assert len(foreseen_errors()) >= 10


@pytest.mark.parametrize("error", foreseen_errors(), ids=lambda error: error.__name__)
def test_it_is_said_in_a_line(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> int:
        raise error("that is why")

    monkeypatch.setattr(cli, "_recover", fail)

    assert issubclass(error, CANNOT_RUN)
    assert cli.main(["recover"]) == COULD_NOT_RUN
    assert capsys.readouterr().err == "redpacket: that is why\n"
