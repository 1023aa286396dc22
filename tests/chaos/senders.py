"""Senders that keep a set of packets open: what sold out or expired is replaced by a new one."""

import asyncio
import time
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import aiohttp
import jwt

from app.auth.packet_ids import PacketIds
from app.auth.tokens import TokenSettings
from lua.ids import PacketId
from splitter.money import MAX_TOTAL_FEN
from tests.chaos.load import RETRY_PAUSE_S, Crowd, LivePacket

SENDERS: Final = 4
TOP_UP_FEN: Final = MAX_TOTAL_FEN
# The first two are slow to sell out, so that there is a share to grab at any time.
SLOTS: Final = ((20_000,), (5_000, 10_000), (10, 50, 200), (100, 1000), (500, 2000), (10, 3000))
SHORT_LIVES: Final = 0.3  # of the packets of the later slots expire before they sell out
SHORTEST_LIFE_MS: Final = 300
LONGEST_SHORT_LIFE_MS: Final = 6000
RICHEST_SHARE_FEN: Final = 300
STEADY_SLOTS: Final = 2
CREATE_AGAIN: Final = 0.2  # of the creations are sent once more, later, with the same key
TOKEN_S: Final = 24 * 3600


@dataclass(frozen=True, slots=True)
class Created:
    """A packet whose creation was answered."""

    packet_id: PacketId
    sender_id: str
    total_fen: int
    shares: int


@dataclass(slots=True)
class Senders:
    crowd: Crowd
    session: aiohttp.ClientSession
    packet_ids: PacketIds
    tokens: TokenSettings
    rng: Random
    created: list[Created] = field(default_factory=list)
    slowest_creation_s: float = 0.0
    _keys: int = 0

    async def top_up(self) -> None:
        for number in range(SENDERS):
            path = f"/v1/admin/accounts/{_sender(number)}/top-ups"
            body = {"amount_fen": TOP_UP_FEN}
            await self._post_until_created(path, "root", self._new_key(), body)

    async def send_until(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as slots:
            for slot in range(len(SLOTS)):
                slots.create_task(self._fill(slot, stop))

    async def _fill(self, slot: int, stop: asyncio.Event) -> None:
        while not stop.is_set():
            packet = await self._create(slot)
            self.crowd.packets.append(packet)
            await _first_of(packet.is_over, stop)
            self.crowd.packets.remove(packet)

    async def _create(self, slot: int) -> LivePacket:
        sender_id, key = _sender(self.rng.randrange(SENDERS)), self._new_key()
        body = self._terms(slot)
        answer = await self._post_until_created("/v1/packets", sender_id, key, body)
        if self.rng.random() < CREATE_AGAIN:
            again = await self._post_until_created("/v1/packets", sender_id, key, body)
            if _lasting(again) != _lasting(answer):
                self.crowd.figures.note_wrong(f"created twice: {answer} and {again}")
        public_id = answer["packet_id"]
        packet_id = self.packet_ids.read(public_id)
        self.created.append(Created(packet_id, sender_id, body["total_fen"], body["shares"]))
        return LivePacket(packet_id, public_id, body["shares"])

    def _terms(self, slot: int) -> dict[str, Any]:
        shares = self.rng.choice(SLOTS[slot])
        fen_each = self.rng.randint(1, RICHEST_SHARE_FEN)
        terms: dict[str, Any] = {"shares": shares, "total_fen": shares * fen_each}
        if self.rng.random() < 0.2:
            terms["kind"] = "equal"
        else:
            terms["total_fen"] += self.rng.randrange(shares)
        if slot >= STEADY_SLOTS and self.rng.random() < SHORT_LIVES:
            terms["life_ms"] = self.rng.randint(SHORTEST_LIFE_MS, LONGEST_SHORT_LIFE_MS)
        return terms

    async def _post_until_created(
        self, path: str, user_id: str, key: str, body: dict[str, Any]
    ) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {self._token(user_id)}", "idempotency-key": key}
        began_s = time.monotonic()
        while True:
            answer = await self._post(path, headers, body)
            if answer is not None:
                took_s = time.monotonic() - began_s
                self.slowest_creation_s = max(self.slowest_creation_s, took_s)
                return answer
            await asyncio.sleep(RETRY_PAUSE_S)

    async def _post(
        self, path: str, headers: dict[str, str], body: dict[str, Any]
    ) -> dict[str, Any] | None:
        url = f"{self.rng.choice(self.crowd.api_urls)}{path}"
        try:
            async with self.session.post(url, headers=headers, json=body) as got:
                if got.status == 201:
                    answer: dict[str, Any] = await got.json()
                    return answer
                self.crowd.figures.note_status(path, got.status, await got.text())
        except (aiohttp.ClientError, TimeoutError) as error:
            self.crowd.figures.troubles[type(error).__name__] += 1
        return None

    def _token(self, user_id: str) -> str:
        payload: dict[str, Any] = {"sub": user_id, "exp": int(time.time()) + TOKEN_S}
        if user_id == "root":
            payload["role"] = "admin"
        return jwt.encode(payload, self.tokens.key, algorithm="HS256")

    def _new_key(self) -> str:
        self._keys += 1
        return f"key-{self._keys}"


async def _first_of(*events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()


def _sender(number: int) -> str:
    return f"sender{number}"


def _lasting(answer: dict[str, Any]) -> dict[str, Any]:
    """What of a packet never changes."""
    return {name: value for name, value in answer.items() if name != "state"}
