"""One process of the service in a chaos run."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from tests.chaos import skewed_cli
from tests.chaos.kinds import Kind
from tests.durability.program import Program

# What no process may ever log: an exception that nobody foresaw.
ALARMS: Final = re.compile(r"unforeseen|Traceback|never retrieved|Fatal Python error")
CONTEXT_LINES: Final = 25


class Member(Program):
    """`skew_s` is how wrong its clock will be from the next start on."""

    def __init__(
        self,
        name: str,
        kind: Kind,
        directory: Path,
        environment: Mapping[str, str],
        port: int | None = None,
    ) -> None:
        instance = () if port is not None else ("--instance", name)
        arguments = (*kind.arguments, *instance)
        super().__init__(directory / name, arguments, environment, port)
        self.name = name
        self.kind = kind
        self.skew_s = 0.0

    def command(self) -> Sequence[str]:
        if not self.skew_s:
            return super().command()
        # -P: the files beside the script must not be taken for modules of other names.
        return [sys.executable, "-P", skewed_cli.__file__, str(self.skew_s), *self._arguments]

    def alarms(self) -> Iterator[str]:
        """Each alarm in the log, with the lines behind it."""
        if not self.log.exists():
            return
        with self.log.open(encoding="utf-8", errors="replace") as log:
            for line in log:
                if ALARMS.search(line):
                    yield f"{self.name}: {line}{''.join(islice(log, CONTEXT_LINES))}"
