"""`redpacket` on a machine whose clock is wrong: skewed_cli.py SECONDS ARGUMENTS...

The clocks are replaced before anything of the service is imported, so that no module can have
taken a right one. Pauses and time-outs follow the monotonic clock, which no skew moves.
"""

import sys
import time


def skew_clocks(seconds: float) -> None:
    right_time, right_time_ns = time.time, time.time_ns
    skew_ns = int(seconds * 1_000_000_000)
    time.time = lambda: right_time() + seconds
    time.time_ns = lambda: right_time_ns() + skew_ns


if __name__ == "__main__":
    skew_clocks(float(sys.argv[1]))

    from app.cli import main

    sys.exit(main(sys.argv[2:]))
