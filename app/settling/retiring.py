"""How long Redis keeps a packet whose books are closed."""

from typing import Final

KEEP_MS: Final = 24 * 3600 * 1000  # repeats are answered fast as long, and from MySQL after
