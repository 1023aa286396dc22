"""`make bench`: runs the parts, prints a table, writes bench/results/latest.json."""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.drain import bench_drain
from bench.grab import bench_grab
from bench.lag import bench_lag
from bench.recovery import bench_recovery
from bench.script import bench_script
from bench.split import bench_split
from bench.stack import Stack, running_stack

RESULTS: Final = Path(__file__).with_name("results") / "latest.json"
PARTS: Final[dict[str, Callable[[Stack], dict[str, Any]]]] = {
    "split": lambda _: bench_split(),
    "grab": bench_grab,
    "drain": bench_drain,
    "lag": bench_lag,
    "script": bench_script,
    "recovery": bench_recovery,
}
# What the service sets out to reach: at least, or at most where the sign is "<=".
MARKS: Final = {
    "grab_over_hello": (">=", 0.75),
    "grab_jwt_over_hello": (">=", 0.40),
    "sold_out_over_hello": (">=", 0.90),
    "drain_over_grab": (">=", 1.0),
    "split_million_s": ("<=", 1.0),
    "script_cost_1m_over_1k": ("<=", 1.3),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--only", choices=PARTS)
    only = parser.parse_args().only
    console = Console(width=100)
    figures: dict[str, Any] = {}
    # Durations of parts differ a lot; a line for each says that the run is alive.
    with tempfile.TemporaryDirectory(prefix="redpacket-bench-") as directory:
        if only == "split":
            figures |= bench_split()
        else:
            with running_stack(Path(directory)) as stack:
                for name in [only] if only else PARTS:
                    began_s = time.monotonic()
                    figures |= PARTS[name](stack)
                    console.print(f"{name}: {time.monotonic() - began_s:.0f} s")
    _print(console, figures)
    if only is None:
        document = {"machine": machine(), "figures": figures}
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    cpu = "unknown"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.system(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _print(console: Console, figures: dict[str, Any]) -> None:
    table = Table(title="redpacket bench", title_justify="left")
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("mark", justify="right")
    for name, value in figures.items():
        sign, mark = MARKS.get(name, ("", ""))
        reached = not sign or (value >= mark if sign == ">=" else value <= mark)
        table.add_row(name, f"{value}", f"{sign} {mark}{'' if reached else '  MISSED'}")
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
