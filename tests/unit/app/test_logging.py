"""What the log of a process looks like to those who search it for tracebacks."""

import logging

import pytest

from app.cli import configure_logging


@pytest.mark.parametrize(("level", "is_traced"), [(logging.WARNING, False), (logging.ERROR, True)])
def test_a_lost_broker_is_a_warning_without_a_traceback(
    caplog: pytest.LogCaptureFixture, level: int, is_traced: bool
) -> None:
    configure_logging()

    try:
        raise ConnectionError("the broker is gone")
    except ConnectionError:
        logging.getLogger("aiormq.connection").log(level, "reader exited", exc_info=True)

    [record] = caplog.records
    assert (record.exc_info is not None) is is_traced
