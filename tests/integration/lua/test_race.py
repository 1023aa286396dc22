"""Fifty shares, four hundred grabs, a hundred and fifty users, all at once."""

import asyncio
import random
from collections import Counter, deque
from dataclasses import dataclass, field

import pytest

from lua.ids import UserId
from lua.replies import Grab, GrabStatus, Outcome
from lua.scripts import Scripts
from tests.integration.lua.lab import PACKET, Lab, users

SHARES = 50
USERS = 150
CONNECTIONS = 20
LARGEST_BATCH = 12


@dataclass
class Storm:
    """Who grabs how often is such that every total is forced, whoever wins.

    Every user taps twice at once, whatever the answers: 300 grabs. A user who hears of a claim taps
    once more (50 grabs), and so does every second one who hears that nothing is left (50 grabs).
    Hence 50 users win once and repeat twice, 100 get nothing twice and 50 of them a third time.
    """

    chance: random.Random
    waiting: deque[str] = field(default_factory=deque)
    heard: dict[str, list[Grab]] = field(default_factory=dict)
    losers: int = 0

    def __post_init__(self) -> None:
        taps = users(USERS) * 2
        self.chance.shuffle(taps)
        self.waiting.extend(taps)

    def next_batch(self) -> list[str]:
        size = min(self.chance.randint(1, LARGEST_BATCH), len(self.waiting))
        return [self.waiting.popleft() for _ in range(size)]

    def hear(self, user: str, grab: Grab) -> None:
        answers = self.heard.setdefault(user, [])
        answers.append(grab)
        if len(answers) > 1:
            return
        if grab.outcome == Outcome.SOLD_OUT:
            self.losers += 1
            if self.losers % 2 == 0:
                return
        self.waiting.append(user)

    async def tap(self, scripts: Scripts) -> None:
        while batch := self.next_batch():
            reply = await scripts.grab(PACKET, [UserId(user) for user in batch])
            assert reply.status is GrabStatus.OK
            for user, grab in zip(batch, reply.grabs, strict=True):
                self.hear(user, grab)


async def run_storm(lab: Lab, storm: Storm) -> None:
    clients = [lab.place.connect() for _ in range(CONNECTIONS)]
    try:
        async with asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(storm.tap(Scripts(client, lab.keys, lab.certificate)))
    finally:
        for client in clients:
            await client.aclose()


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_fifty_shares_meet_four_hundred_grabs_of_a_hundred_and_fifty_users(
    lab: Lab, seed: int
) -> None:
    chance = random.Random(seed)
    amounts = [chance.randint(1, 40) for _ in range(SHARES)]
    await lab.open(amounts)
    storm = Storm(chance)
    await run_storm(lab, storm)

    answers = [grab for grabs in storm.heard.values() for grab in grabs]
    assert Counter(grab.outcome for grab in answers) == {
        Outcome.GRABBED: 50,
        Outcome.REPEATED: 100,
        Outcome.SOLD_OUT: 250,
    }
    won = {
        user: [grab for grab in grabs if grab.outcome != Outcome.SOLD_OUT]
        for user, grabs in storm.heard.items()
        if grabs[0].outcome != Outcome.SOLD_OUT
    }
    for grabs in won.values():
        assert sorted(grab.outcome for grab in grabs) == [1, 2, 2]
        assert len({grab[1:] for grab in grabs}) == 1
    claims = await lab.claims()
    assert claims == {user: grabs[0]._replace(outcome=2) for user, grabs in won.items()}
    assert {claim.seq: claim.amount_fen for claim in claims.values()} == dict(enumerate(amounts, 1))
    assert sum(claim.amount_fen for claim in claims.values()) == sum(amounts)
    assert await lab.remaining() == []

    published = [
        (user, Grab(Outcome.REPEATED, seq, amount_fen, entry["claimed_at_ms"]))
        for entry in await lab.outbox()
        for seq, amount_fen, user in entry["claims"]
    ]
    assert len(published) == SHARES
    assert dict(published) == claims
    best_first = sorted(claims, key=lambda user: (-claims[user].amount_fen, claims[user].seq))
    assert [row.user for row in await lab.board()] == best_first
