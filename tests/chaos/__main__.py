"""python -m tests.chaos --seed N --minutes M [--json PATH] [--keep DIRECTORY]"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import uvloop

from tests.chaos.run import run_chaos


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long faults are made")
    parser.add_argument("--json", type=Path, help="where the report goes as JSON")
    parser.add_argument("--keep", type=Path, help="where logs and data stay, to be looked at")
    wanted = parser.parse_args()
    directory = wanted.keep or Path(tempfile.mkdtemp(prefix="redpacket-chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    report = uvloop.run(run_chaos(wanted.seed, wanted.minutes, directory))
    print(report.text())
    if not report.is_sound:
        print(f"logs and data are kept in {directory}")
    elif wanted.keep is None:
        shutil.rmtree(directory)
    if wanted.json is not None:
        wanted.json.write_text(report.json(), encoding="utf-8")
    return 0 if report.is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
