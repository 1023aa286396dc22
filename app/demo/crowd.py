"""A crowd of HTTP clients in a process of its own: tickets first, then everybody grabs at once.

Reads one JSON object from standard input, writes progress and at last the result as JSON lines.
"""

import asyncio
import json
import random
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import aiohttp

CONNECTIONS: Final = 400
REQUEST_TIMEOUT_S: Final = 20.0
RETRIES: Final = 20
RETRY_PAUSE_S: Final = 0.2
PROGRESS_EVERY: Final = 250


@dataclass(frozen=True, slots=True)
class CrowdOrder:
    """`tokens` by user id; each user grabs once, and every `repeat_every`-th one a second time."""

    url: str
    packet_id: str
    opens_at_ms: int
    tokens: dict[str, str]
    repeat_every: int


@dataclass(slots=True)
class CrowdResult:
    """`told[user]` lists the [seq, amount_fen] of each answer that named a claim."""

    told: dict[str, list[list[int]]] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    latencies_ms: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


class Crowd:
    def __init__(self, session: aiohttp.ClientSession, order: CrowdOrder) -> None:
        self._session = session
        self._order = order
        self._outcomes: Counter[str] = Counter()
        self._tickets: dict[str, str] = {}
        self.result = CrowdResult()

    async def run(self) -> None:
        users = list(self._order.tokens)
        await _each("tickets", [self._take_ticket(user) for user in users])
        await asyncio.sleep(max(0.0, self._order.opens_at_ms / 1000 - time.time()))
        random.shuffle(users)
        await _each("users answered", [self._grab_as(user, at) for at, user in enumerate(users)])
        self.result.outcomes = dict(self._outcomes)

    async def _take_ticket(self, user: str) -> None:
        headers = {"authorization": f"Bearer {self._order.tokens[user]}"}
        answer = await self._post("ticket", headers)
        self._tickets[user] = answer["ticket"]

    async def _grab_as(self, user: str, at: int) -> None:
        taps = 2 if at % self._order.repeat_every == 0 else 1
        for _ in range(taps):
            began_s = time.perf_counter()
            answer = await self._post("grab", {"authorization": f"Ticket {self._tickets[user]}"})
            self.result.latencies_ms.append(round((time.perf_counter() - began_s) * 1000, 3))
            self._outcomes[answer["outcome"]] += 1
            if answer["outcome"] in ("grabbed", "repeated"):
                claim = [answer["seq"], answer["amount_fen"]]
                self.result.told.setdefault(user, []).append(claim)

    async def _post(self, verb: str, headers: dict[str, str]) -> dict[str, Any]:
        """Post until there is an answer: as a phone would, for asking again is always safe."""
        url = f"{self._order.url}/v1/packets/{self._order.packet_id}/{verb}"
        reason = "no answer"
        for _ in range(RETRIES):
            try:
                async with self._session.post(url, headers=headers) as response:
                    if response.status < 300:
                        answer: dict[str, Any] = await response.json()
                        return answer
                    reason = f"{response.status} {await response.text()}"
            except (aiohttp.ClientError, TimeoutError) as error:
                reason = repr(error)
            await asyncio.sleep(RETRY_PAUSE_S)
        self.result.failures.append(f"{verb}: {reason}")
        raise RuntimeError(f"{verb}: {reason}")


async def _each(label: str, works: list[Any]) -> None:
    for done, work in enumerate(asyncio.as_completed(works), start=1):
        await work
        if done % PROGRESS_EVERY == 0 or done == len(works):
            print(json.dumps({"progress": label, "done": done, "of": len(works)}), flush=True)


async def main() -> None:
    order = CrowdOrder(**json.loads(sys.stdin.readline()))
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        crowd = Crowd(session, order)
        await crowd.run()
    print(json.dumps({"result": asdict(crowd.result)}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
