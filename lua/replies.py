"""What the scripts answer: a status each, and what comes with it."""

from enum import IntEnum
from typing import NamedTuple

from lua.ids import UserId
from splitter.money import Fen


class LoadStatus(IntEnum):
    OK = 0
    ALREADY_OPEN = 1
    GAP = 2
    UNRANKABLE = 3
    UNCERTIFIED = 4


class OpenStatus(IntEnum):
    OK = 0
    ALREADY_OPEN = 1
    MISMATCH = 2
    UNCERTIFIED = 3


class GrabStatus(IntEnum):
    OK = 0
    UNKNOWN = 1
    LOADING = 2
    INCONSISTENT = 3
    UNCERTIFIED = 4


class CloseStatus(IntEnum):
    OK = 0
    UNKNOWN = 1
    LOADING = 2
    INCONSISTENT = 3
    UNCERTIFIED = 4
    NOT_DUE = 5


class SuspendStatus(IntEnum):
    OK = 0


class RestoreStatus(IntEnum):
    OK = 0
    SUPERSEDED = 1
    GAP = 2
    UNREADABLE = 3


class ResumeStatus(IntEnum):
    OK = 0
    SUPERSEDED = 1
    MISMATCH = 2


class ResendStatus(IntEnum):
    OK = 0
    UNKNOWN = 1
    INCONSISTENT = 2


class RetireStatus(IntEnum):
    OK = 0
    UNKNOWN = 1


class Outcome(IntEnum):
    GRABBED = 1
    REPEATED = 2
    SOLD_OUT = 3
    NOT_OPEN_YET = 4
    EXPIRED = 5
    CLOSED = 6


class Grab(NamedTuple):
    """What one user got. `at_ms`: when it was claimed, or for NOT_OPEN_YET when grabs begin."""

    outcome: int  # an Outcome; a plain integer because the hot path compares millions of them
    seq: int
    amount_fen: int
    at_ms: int


class GrabReply(NamedTuple):
    status: GrabStatus
    now_ms: int
    grabs: list[Grab]


class Loaded(NamedTuple):
    status: LoadStatus
    loaded: int


class Opened(NamedTuple):
    status: OpenStatus
    loaded: int
    loaded_fen: Fen


class Closed(NamedTuple):
    status: CloseStatus
    claimed: int
    remaining: int


class Suspended(NamedTuple):
    status: SuspendStatus


class Restored(NamedTuple):
    status: RestoreStatus
    restored: int


class Resumed(NamedTuple):
    status: ResumeStatus
    restored: int
    restored_fen: Fen


class Resent(NamedTuple):
    status: ResendStatus
    resent: int


class Retired(NamedTuple):
    status: RetireStatus


class RestoredShare(NamedTuple):
    """A share as a rebuilt packet gets it: claimed by `user_id` at a time, or left."""

    seq: int
    amount_fen: int
    claimed_at_ms: int = 0
    user_id: UserId | None = None

    def argument(self) -> str:
        share = f"{self.seq}:{self.amount_fen}"
        return share if self.user_id is None else f"{share}:{self.claimed_at_ms}:{self.user_id}"
