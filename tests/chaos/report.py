"""What a chaos run found, as text and as JSON."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

FAILURES_SHOWN: Final = 20


@dataclass(slots=True)
class Report:
    """`failures` is empty when the service kept every promise."""

    seed: int
    minutes: float
    processes: list[str] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    packets: int = 0
    answered_grabs: int = 0
    answered_a_second: float = 0.0
    outcomes: dict[str, int] = field(default_factory=dict)
    troubles: dict[str, int] = field(default_factory=dict)
    told: int = 0
    claims: int = 0
    rows: int = 0
    lost: int = 0
    doubled: int = 0
    fen_adrift: int = 0
    conflicts: int = 0
    dead_letters: int = 0
    unforeseen_exceptions: int = 0
    refused_starts: int = 0
    worst_recovery_s: float = 0.0
    worst_recovery_after: str = ""
    longest_silence_s: float = 0.0
    slowest_answer_s: float = 0.0
    longest_wait_s: float = 0.0
    slowest_creation_s: float = 0.0
    drained_after_s: float = 0.0
    failures: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return not self.failures

    def json(self) -> str:
        return json.dumps(asdict(self) | {"is_sound": self.is_sound}, indent=2) + "\n"

    def text(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for name, value in asdict(self).items():
            if name != "failures":
                yield f"{name:22} {_shown(value)}"
        for failure in self.failures[:FAILURES_SHOWN]:
            yield f"FAILURE: {failure}"
        if len(self.failures) > FAILURES_SHOWN:
            yield f"and {len(self.failures) - FAILURES_SHOWN} failures more"
        if self.is_sound:
            yield "sound: nothing lost, doubled or adrift"
        else:
            yield (
                f"FAILED with {len(self.failures)} failures;"
                f" replay: make chaos SEED={self.seed} MINUTES={self.minutes:g}"
            )


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {one}" for key, one in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:.2f}" if isinstance(value, float) else str(value)
