"""Clients that grab at a steady rate, remember every answer and ask again, as phones do."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import aiohttp

from app.auth.tickets import Tickets
from lua.ids import PacketId, UserId
from tests.chaos.told import Told

CLIENTS: Final = 192
REQUEST_TIMEOUT_S: Final = 5.0
RETRY_PAUSE_S: Final = 0.2
LONGEST_BURST_S: Final = 0.5  # what a rate may catch up on after everything stood still
ASK_AGAIN: Final = 0.1  # of all grabs are of winners who ask again, some of them much later
WINNERS_KEPT: Final = 5000
TICKET_S: Final = 24 * 3600
REFUSALS_TO_THE_END: Final = 40  # so many late-comers does a packet still answer
WRONG_KEPT: Final = 50  # different ones
FINAL_REFUSALS: Final = ("sold_out", "expired", "closed")
# What a client may hear instead of an answer: the service's "ask again", or a broken connection.
RETRIED_STATUSES: Final = (503,)


@dataclass(slots=True)
class LivePacket:
    """A packet that is being grabbed; `is_over` once that leads to nothing any more."""

    packet_id: PacketId
    public_id: str
    shares: int
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    _users: int = 0
    _refusals: int = 0

    def next_user(self) -> UserId:
        self._users += 1
        return UserId(f"u{self._users}")

    def note_refusal(self) -> None:
        self._refusals += 1
        if self._refusals >= REFUSALS_TO_THE_END:
            self.is_over.set()


@dataclass(slots=True)
class Figures:
    """What the clients saw. `wrong` counts answers that no client may ever get."""

    outcomes: Counter[str] = field(default_factory=Counter)
    troubles: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    slowest_answer_s: float = 0.0
    longest_wait_s: float = 0.0  # of a user, from the first request to an answer
    longest_silence_s: float = 0.0  # between two grabbed shares of whomever

    @property
    def answered(self) -> int:
        return self.outcomes.total()

    def note_status(self, request: str, status: int, text: str) -> None:
        self.troubles[str(status)] += 1
        if status not in RETRIED_STATUSES:
            self.note_wrong(f"{request} was answered {status}: {text:.300}")

    def note_wrong(self, what: str) -> None:
        if what in self.wrong or len(self.wrong) < WRONG_KEPT:
            self.wrong[what] += 1


@dataclass(slots=True)
class Crowd:
    """`packets` is what can be grabbed now; `on_grabbed` hears of each grabbed share."""

    api_urls: Sequence[str]
    tickets: Tickets
    told: Told
    rng: Random
    rate: float
    session: aiohttp.ClientSession
    packets: list[LivePacket] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)
    on_grabbed: Callable[[], None] = lambda: None
    _winners: list[tuple[LivePacket, UserId]] = field(default_factory=list)
    _next_grab_s: float = 0.0
    _last_grabbed_s: float = 0.0

    async def grab_until(self, stop: asyncio.Event) -> None:
        """Grab until `stop`, and then until everybody who has asked is answered."""
        self._last_grabbed_s = time.monotonic()
        async with asyncio.TaskGroup() as clients:
            for _ in range(CLIENTS):
                clients.create_task(self._client(stop))

    async def _client(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await self._wait_for_turn()
            if self._winners and self.rng.random() < ASK_AGAIN:
                packet, user_id = self.rng.choice(self._winners)
                await self._ask_until_answered(packet, user_id, has_won=True)
            elif self.packets:
                packet = self.rng.choice(self.packets)
                await self._ask_until_answered(packet, packet.next_user(), has_won=False)

    async def _wait_for_turn(self) -> None:
        now_s = time.monotonic()
        turn_s = max(self._next_grab_s, now_s - LONGEST_BURST_S)
        self._next_grab_s = turn_s + 1 / self.rate
        await asyncio.sleep(max(0.0, turn_s - now_s))

    async def _ask_until_answered(self, packet: LivePacket, user_id: UserId, has_won: bool) -> None:
        began_s = time.monotonic()
        expires_at_s = int(time.time()) + TICKET_S
        ticket = self.tickets.issue(packet.packet_id, user_id, expires_at_s).text
        while True:
            answer = await self._ask(packet, ticket)
            if answer is not None:
                break
            await asyncio.sleep(RETRY_PAUSE_S)
        waited_s = time.monotonic() - began_s
        self.figures.longest_wait_s = max(self.figures.longest_wait_s, waited_s)
        self._remember(packet, user_id, answer, has_won)

    async def _ask(self, packet: LivePacket, ticket: str) -> dict[str, Any] | None:
        url = f"{self.rng.choice(self.api_urls)}/v1/packets/{packet.public_id}/grab"
        began_s = time.monotonic()
        try:
            async with self.session.post(url, headers={"authorization": f"Ticket {ticket}"}) as got:
                if got.status == 200:
                    answer: dict[str, Any] = await got.json()
                    took_s = time.monotonic() - began_s
                    self.figures.slowest_answer_s = max(self.figures.slowest_answer_s, took_s)
                    return answer
                self.figures.note_status("grab", got.status, await got.text())
        except (aiohttp.ClientError, TimeoutError) as error:
            self.figures.troubles[type(error).__name__] += 1
        return None

    def _remember(
        self, packet: LivePacket, user_id: UserId, answer: dict[str, Any], has_won: bool
    ) -> None:
        outcome = answer["outcome"]
        self.figures.outcomes[outcome] += 1
        if outcome in ("grabbed", "repeated"):
            self.told.claim(
                packet.packet_id,
                user_id,
                answer["seq"],
                answer["amount_fen"],
                answer["claimed_at_ms"],
            )
            if not has_won:
                self._keep_winner(packet, user_id)
        elif has_won:
            self.figures.note_wrong(f"a winner of {packet.packet_id} was told {outcome}")
        else:
            packet.note_refusal()
            if outcome in FINAL_REFUSALS:
                self.told.refusal(packet.packet_id, user_id)
        if outcome == "grabbed":
            self._note_grabbed(has_won, packet)

    def _note_grabbed(self, has_won: bool, packet: LivePacket) -> None:
        if has_won:
            self.figures.note_wrong(f"a winner of {packet.packet_id} grabbed once more")
        now_s = time.monotonic()
        silence_s = now_s - self._last_grabbed_s
        self.figures.longest_silence_s = max(self.figures.longest_silence_s, silence_s)
        self._last_grabbed_s = now_s
        self.on_grabbed()

    def _keep_winner(self, packet: LivePacket, user_id: UserId) -> None:
        if len(self._winners) < WINNERS_KEPT:
            self._winners.append((packet, user_id))
        else:
            self._winners[self.rng.randrange(WINNERS_KEPT)] = (packet, user_id)
