"""What the `redpacket` command tells the shell."""

from typing import Final

FINE: Final = 0
DIFFERENCE: Final = 1
COULD_NOT_RUN: Final = 2
