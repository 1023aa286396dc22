"""The reckoning finds nothing where all is well, and each lie where one is told."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from app.services import Services
from lua.ids import PacketId
from tests.chaos.reckoning import Reckoning, reckon
from tests.chaos.senders import TOP_UP_FEN, Created
from tests.chaos.told import Told
from tests.deployment import Deployment

SENDER = "sender0"
SHARES = 5
USERS = [f"u{number}" for number in range(4)]
TERMS = {"total_fen": 1000, "shares": SHARES}
FIRST_CLAIM = "WHERE packet_id = {packet} AND seq = 1"


@dataclass
class Truth:
    """A packet with four claims, all of them booked, and what its clients were told."""

    services: Services
    told: Told
    packet: Created
    claims: dict[str, dict[str, Any]]

    async def reckon(self) -> Reckoning:
        return await reckon(self.services, self.told, [self.packet])

    def tell(self, user: str, **otherwise: Any) -> None:
        claim = self.claims[USERS[0]] | otherwise
        self.told.claim(
            self.packet.packet_id, user, claim["seq"], claim["amount_fen"], claim["claimed_at_ms"]
        )


@pytest.fixture
async def truth(deployment: Deployment, tmp_path: Path) -> AsyncIterator[Truth]:
    await deployment.top_up(SENDER, TOP_UP_FEN)
    created = await deployment.ask("POST", "/v1/packets", user=SENDER, body=TERMS, key="one")
    public_id = created.body["packet_id"]
    packet_id = deployment.services.packet_ids.read(public_id)
    told = Told(tmp_path / "told.sqlite3")
    claims = {}
    for user in USERS:
        claims[user] = (await deployment.grab(public_id, user)).body
    packet = Created(packet_id, SENDER, TERMS["total_fen"], SHARES)
    truth = Truth(deployment.services, told, packet, claims)
    for user in USERS:
        truth.tell(user, **claims[user])
    await deployment.booked(public_id, len(USERS))
    yield truth
    told.close()


async def test_where_all_is_well_nothing_is_found(truth: Truth) -> None:
    truth.told.refusal(truth.packet.packet_id, "late")

    found = await truth.reckon()

    assert found.failures == []
    assert (found.told, found.claims, found.rows) == (4, 4, 4)
    assert found.lost == found.doubled == found.conflicts == found.fen_adrift == 0


@pytest.mark.parametrize(
    ("lie", "lost", "doubled", "conflicts"),
    [
        (lambda truth: truth.tell("nobody", seq=5), 1, 0, 0),
        (lambda truth: truth.tell("nobody"), 1, 1, 0),
        (lambda truth: truth.tell(USERS[0], amount_fen=1001), 1, 1, 1),
        (lambda truth: truth.tell(USERS[0], claimed_at_ms=1), 1, 1, 1),
        (lambda truth: truth.told.refusal(truth.packet.packet_id, USERS[0]), 0, 0, 1),
    ],
    ids=["no row", "share of another", "two amounts", "two times", "refused as well"],
)
async def test_a_lie_to_a_client_is_found(
    truth: Truth, lie: Callable[[Truth], None], lost: int, doubled: int, conflicts: int
) -> None:
    lie(truth)

    found = await truth.reckon()

    assert (found.lost, found.doubled, found.conflicts) == (lost, doubled, conflicts)
    assert found.failures


@pytest.mark.parametrize(
    ("statement", "fen_adrift"),
    [
        (f"DELETE FROM claim {FIRST_CLAIM}", None),
        (f"UPDATE claim SET amount_fen = amount_fen + 1 {FIRST_CLAIM}", 2),
        (f"UPDATE claim SET user_id = 'thief' {FIRST_CLAIM}", 0),
        ("UPDATE packet SET remaining_fen = remaining_fen + 1", 1),
        ("UPDATE packet SET state = 'funded'", 0),
        ("UPDATE account SET balance_fen = balance_fen + 1 WHERE id = 'user:u0'", 2),
        ("UPDATE ledger_entry SET amount_fen = amount_fen + 1 WHERE account_id = 'user:u0'", 2),
        ("DELETE FROM account WHERE id = 'user:u0'", None),
    ],
)
async def test_a_book_that_was_altered_is_found(
    truth: Truth, statement: str, fen_adrift: int | None
) -> None:
    altering = statement.format(packet=truth.packet.packet_id)
    await truth.services.database.transaction(lambda work: work.run(altering))

    found = await truth.reckon()

    assert found.failures
    assert fen_adrift is None or found.fen_adrift == fen_adrift


async def test_a_packet_nobody_asked_for_and_one_that_is_not_there_are_found(truth: Truth) -> None:
    truth.packet = replace(truth.packet, packet_id=PacketId(1))

    found = await truth.reckon()

    assert any("packets that were not answered" in failure for failure in found.failures)


async def test_a_packet_that_cost_something_else_is_found(truth: Truth) -> None:
    truth.packet = replace(truth.packet, total_fen=999)

    found = await truth.reckon()

    assert found.fen_adrift == 1
    assert any("is not what" in failure for failure in found.failures)


async def test_claims_that_redis_has_lost_are_found(truth: Truth) -> None:
    await truth.services.redis.delete(truth.services.keys.packet(truth.packet.packet_id).claims)

    found = await truth.reckon()

    assert any("Redis does not hold" in failure for failure in found.failures)
