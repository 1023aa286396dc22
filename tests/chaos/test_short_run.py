"""`make chaos`, but short: what the command says, exits with and writes."""

import asyncio
import json
import sys
from pathlib import Path

from tests.servers.guarded import run_to_end
from tests.servers.programs import plain_environment

SEED = "11"
MINUTES = "0.2"
DEADLINE_S = 300.0  # of a run whose faults last 12 s, and that takes some 35 s
REPOSITORY = Path(__file__).parents[2]


async def test_a_short_run_is_sound(tmp_path: Path) -> None:
    report_path = tmp_path / "report.json"
    command = [sys.executable, "-m", "tests.chaos", "--seed", SEED, "--minutes", MINUTES]
    command += ["--json", str(report_path)]

    printed = await asyncio.to_thread(
        run_to_end,
        command,
        directory=REPOSITORY,
        log=tmp_path / "chaos.log",
        environment=plain_environment(),
        deadline_s=DEADLINE_S,
    )

    report = json.loads(report_path.read_text(encoding="utf-8"))
    assert "sound: nothing lost, doubled or adrift" in printed
    assert report["is_sound"]
    assert report["faults"]
    assert report["told"] == report["claims"] == report["rows"] > 1000
