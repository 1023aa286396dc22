"""What the scripts promise, in plain Python, for one packet."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from lua.replies import CloseStatus, GrabStatus, LoadStatus, OpenStatus, Outcome
from tests.integration.lua.lab import Share

State = Literal["loading", "open", "closed"]
Clock = Literal["before", "during", "after"]


class ModelGrab(NamedTuple):
    outcome: Outcome
    share: Share | None


NEVER_WON = {"before": Outcome.NOT_OPEN_YET, "after": Outcome.EXPIRED}


@dataclass
class PacketModel:
    """A packet that shall have `amounts`; `loaded` of them have arrived."""

    amounts: list[int]
    state: State | None = None
    clock: Clock = "during"
    loaded: int = 0
    claims: dict[str, Share] = field(default_factory=dict)
    # Per call that gave something away: what, to whom.
    messages: list[list[tuple[str, Share]]] = field(default_factory=list)

    @property
    def was_opened(self) -> bool:
        return self.state in ("open", "closed")

    @property
    def waiting(self) -> list[Share]:
        """The shares that have arrived and that nobody has claimed."""
        shares = [Share(seq, fen) for seq, fen in enumerate(self.amounts, 1)]
        return shares[len(self.claims) : self.loaded]

    @property
    def board(self) -> list[str]:
        """Highest amount first; among equals the first to claim, who has the lowest seq."""
        return sorted(
            self.claims, key=lambda user: (-self.claims[user].amount_fen, self.claims[user].seq)
        )

    def load(self, offset: int, count: int) -> tuple[LoadStatus, int]:
        if self.was_opened:
            return LoadStatus.ALREADY_OPEN, len(self.waiting)
        if offset + count <= self.loaded:
            return LoadStatus.OK, self.loaded
        if offset != self.loaded:
            return LoadStatus.GAP, self.loaded
        self.state = "loading"
        self.loaded += count
        return LoadStatus.OK, self.loaded

    def open(self, shares: int, total_fen: int, clock: Clock) -> tuple[OpenStatus, int, int]:
        loaded_fen = sum(self.amounts[: self.loaded])
        if self.was_opened:
            return OpenStatus.ALREADY_OPEN, len(self.waiting), loaded_fen
        if self.state is None or (shares, total_fen) != (self.loaded, loaded_fen):
            return OpenStatus.MISMATCH, self.loaded, loaded_fen
        self.state, self.clock = "open", clock
        return OpenStatus.OK, self.loaded, loaded_fen

    def grab(self, users: list[str]) -> tuple[GrabStatus, list[ModelGrab]]:
        if self.state is None:
            return GrabStatus.UNKNOWN, []
        if self.state == "loading":
            return GrabStatus.LOADING, []
        won: list[tuple[str, Share]] = []
        grabs = [self._grab_one(user, won) for user in users]
        if won:
            self.messages.append(won)
        return GrabStatus.OK, grabs

    def close(self) -> tuple[CloseStatus, int, int]:
        if self.state is None:
            return CloseStatus.UNKNOWN, 0, 0
        if self.state == "loading":
            return CloseStatus.LOADING, 0, 0
        if self.state == "open" and self.waiting and self.clock != "after":
            return CloseStatus.NOT_DUE, len(self.claims), len(self.waiting)
        self.state = "closed"
        return CloseStatus.OK, len(self.claims), len(self.waiting)

    def _grab_one(self, user: str, won: list[tuple[str, Share]]) -> ModelGrab:
        if user in self.claims:
            return ModelGrab(Outcome.REPEATED, self.claims[user])
        if self.state == "closed":
            return ModelGrab(Outcome.CLOSED, None)
        if self.clock != "during":
            return ModelGrab(NEVER_WON[self.clock], None)
        if not self.waiting:
            return ModelGrab(Outcome.SOLD_OUT, None)
        self.claims[user] = self.waiting[0]
        won.append((user, self.claims[user]))
        return ModelGrab(Outcome.GRABBED, self.claims[user])
