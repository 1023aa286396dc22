"""How many rows an answer holds: for the routes that keep to it and the contract that says so."""

from typing import Final

CLAIMS_PER_PAGE: Final = 100
ENTRIES_PER_PAGE: Final = 100
DEFAULT_RANKS: Final = 10
