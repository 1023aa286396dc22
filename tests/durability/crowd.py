"""Clients that remember every answer and ask again until they have one, as phones do."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

CONNECTIONS: Final = 250
REQUEST_TIMEOUT_S: Final = 15.0  # longer than any answer may take, so that it is seen to be late
RETRY_PAUSE_S: Final = 0.1
USER_DEADLINE_S: Final = 60.0
WINS: Final = ("grabbed", "repeated")


@dataclass(slots=True)
class Crowd:
    """`tickets` maps users to Authorization headers. `told[user]` lists every claim they heard."""

    url: str
    packet_id: str
    tickets: Mapping[str, str]
    told: defaultdict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    outcomes: Counter[str] = field(default_factory=Counter)
    troubles: Counter[str] = field(default_factory=Counter)
    first_words: Counter[str] = field(default_factory=Counter)  # of users told a claim
    slowest_s: float = 0.0
    longest_silence_s: float = 0.0
    _last_answer_s: float = 0.0
    _milestones: dict[int, asyncio.Event] = field(default_factory=dict)

    @property
    def answers(self) -> int:
        return self.outcomes.total()

    async def reached(self, answers: int) -> None:
        """Return once there are so many answers."""
        if self.answers >= answers:
            return
        event = self._milestones.setdefault(answers, asyncio.Event())
        async with asyncio.timeout(USER_DEADLINE_S):
            await event.wait()

    async def everybody(self, users: Sequence[str]) -> None:
        """Each of `users` asks until answered, over CONNECTIONS connections."""
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S)
        connector = aiohttp.TCPConnector(limit=CONNECTIONS)
        self._last_answer_s = time.monotonic()
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            waiting = iter(users)
            async with asyncio.TaskGroup() as clients:
                for _ in range(CONNECTIONS):
                    clients.create_task(self._client(session, waiting))

    async def _client(self, session: aiohttp.ClientSession, waiting: Iterator[str]) -> None:
        for user in waiting:
            async with asyncio.timeout(USER_DEADLINE_S):
                while True:
                    if await self._ask(session, user):
                        break
                    await asyncio.sleep(RETRY_PAUSE_S)

    async def _ask(self, session: aiohttp.ClientSession, user: str) -> bool:
        began_s = time.monotonic()
        answer: dict[str, Any] | None = None
        try:
            async with session.post(
                f"{self.url}/v1/packets/{self.packet_id}/grab",
                headers={"authorization": self.tickets[user]},
            ) as response:
                if response.status == 200:
                    answer = await response.json()
                else:
                    self.troubles[str(response.status)] += 1
        except (aiohttp.ClientError, TimeoutError) as error:
            self.troubles[type(error).__name__] += 1
        now_s = time.monotonic()
        self.slowest_s = max(self.slowest_s, now_s - began_s)
        if answer is None:
            return False
        self._remember(user, answer, now_s)
        return True

    def _remember(self, user: str, answer: dict[str, Any], now_s: float) -> None:
        self.longest_silence_s = max(self.longest_silence_s, now_s - self._last_answer_s)
        self._last_answer_s = now_s
        outcome = answer["outcome"]
        self.outcomes[outcome] += 1
        if outcome in WINS:
            if user not in self.told:
                self.first_words[outcome] += 1
            self.told[user].append((answer["seq"], answer["amount_fen"]))
        milestone = self._milestones.get(self.answers)
        if milestone is not None:
            milestone.set()
