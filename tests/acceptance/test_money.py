"""What a sender pays, a packet holds and users receive; once, whatever is sent again."""

import asyncio
from typing import Any

import pytest

from tests.deployment import Answer, Deployment


async def create(deployment: Deployment, user: str, key: str | None, **body: Any) -> Answer:
    return await deployment.ask("POST", "/v1/packets", user=user, body=body, key=key)


async def balance(deployment: Deployment, user: str) -> int:
    return int((await deployment.ask("GET", "/v1/account", user=user)).body["balance_fen"])


async def count(deployment: Deployment, table: str) -> int:
    [row] = await deployment.services.database.transaction(
        lambda work: work.rows(f"SELECT COUNT(*) AS n FROM {table}")
    )
    return int(row["n"])


async def test_creating_debits_the_sender_exactly(deployment: Deployment) -> None:
    await deployment.top_up("sender", 1500)

    created = await create(deployment, "sender", "k", total_fen=1000, shares=5)

    assert created.status == 201
    assert created.headers["location"] == f"/v1/packets/{created.body['packet_id']}"
    assert await balance(deployment, "sender") == 500


async def test_too_little_money_creates_nothing(deployment: Deployment) -> None:
    await deployment.top_up("sender", 999)

    refused = await create(deployment, "sender", "k", total_fen=1000, shares=5)

    assert (refused.status, refused.code) == (409, "insufficient_funds")
    assert await balance(deployment, "sender") == 999
    assert await count(deployment, "packet") == await count(deployment, "idempotency") - 1 == 0


@pytest.mark.parametrize(
    "terms",
    [
        {"total_fen": 10, "shares": 15},
        {"total_fen": 10, "shares": 15, "kind": "equal"},
        {"total_fen": 100, "shares": 10, "cap_fen": 5},
        {"total_fen": 100, "shares": 10, "min_fen": 11},
        {"total_fen": 100, "shares": 10, "min_fen": 6, "cap_fen": 5},
    ],
)
async def test_impossible_terms_are_refused_before_anything_is_stored(
    deployment: Deployment, terms: dict[str, Any]
) -> None:
    await deployment.top_up("sender", 1000)

    refused = await create(deployment, "sender", "k", **terms)

    assert (refused.status, refused.code) == (422, "impossible_terms")
    assert "fen" in refused.body["detail"]
    assert await count(deployment, "packet") == await count(deployment, "idempotency") - 1 == 0
    assert await balance(deployment, "sender") == 1000
    again = await create(deployment, "sender", "k", total_fen=1000, shares=5)
    assert again.status == 201  # the key was not spent


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("total_fen", 0),
        ("total_fen", -1),
        ("total_fen", 10**12 + 1),
        ("total_fen", 1000.0),
        ("total_fen", True),
        ("total_fen", "1000"),
        ("total_fen", None),
        ("shares", 0),
        ("shares", 1_000_001),
        ("kind", "unfair"),
        ("greeting", "x" * 201),
        ("greeting", 7),
        ("opens_at_ms", 0),
        ("life_ms", 0),
        ("colour", "red"),
    ],
)
async def test_a_wrong_field_is_named(deployment: Deployment, field: str, value: Any) -> None:
    refused = await create(
        deployment, "sender", "k", **({"total_fen": 1000, "shares": 5} | {field: value})
    )

    assert (refused.status, refused.code) == (422, "invalid_field")
    assert refused.body["field"] == field


@pytest.mark.parametrize("funds_fen", [1_000, 10_000])
async def test_one_key_makes_one_packet_however_often_it_is_sent(
    deployment: Deployment, funds_fen: int
) -> None:
    await deployment.top_up("sender", funds_fen)

    answers = await asyncio.gather(
        *(create(deployment, "sender", "k", total_fen=1000, shares=5) for _ in range(20))
    )
    other_user = await create(deployment, "other", "k", total_fen=1000, shares=5)

    assert {answer.status for answer in answers} == {201}
    assert all(answer.body == answers[0].body for answer in answers)
    assert answers[0].body["state"] == "open"
    assert await count(deployment, "packet") == 1
    assert await balance(deployment, "sender") == funds_fen - 1_000
    assert other_user.code == "insufficient_funds"  # keys are each user's own


async def test_a_key_is_not_for_two_requests(deployment: Deployment) -> None:
    await deployment.top_up("sender", 10_000)
    await create(deployment, "sender", "k", total_fen=1000, shares=5)

    other = await create(deployment, "sender", "k", total_fen=1000, shares=6)
    missing = await create(deployment, "sender", None, total_fen=1000, shares=5)
    odd = await create(deployment, "sender", "two words", total_fen=1000, shares=5)

    assert (other.status, other.code) == (422, "idempotency_key_reused")
    assert (missing.status, missing.code) == (400, "idempotency_key_missing")
    assert (odd.status, odd.code) == (422, "invalid_field")
    assert await balance(deployment, "sender") == 9_000


async def credit(deployment: Deployment, user: str, amount_fen: Any, key: str | None) -> Answer:
    return await deployment.ask(
        *("POST", f"/v1/admin/accounts/{user}/top-ups"),
        user="root",
        admin=True,
        body={"amount_fen": amount_fen},
        key=key,
    )


async def test_fifty_first_credits_at_once_add_up(deployment: Deployment) -> None:
    answers = await asyncio.gather(
        *(credit(deployment, "ann", 7, f"k{number % 50}") for number in range(100))
    )

    assert {answer.status for answer in answers} == {201}
    assert len({answer.body["journal"] for answer in answers}) == 50
    assert await balance(deployment, "ann") == 50 * 7


async def test_a_top_up_key_credits_one_user_one_amount_once(deployment: Deployment) -> None:
    first = await credit(deployment, "ann", 100, "k")
    again = await credit(deployment, "ann", 100, "k")
    other_amount = await credit(deployment, "ann", 200, "k")
    other_user = await credit(deployment, "bob", 100, "k")
    missing = await credit(deployment, "ann", 100, None)

    assert (again.status, again.body) == (201, first.body)
    assert (other_amount.status, other_amount.code) == (422, "idempotency_key_reused")
    assert (other_user.status, other_user.code) == (422, "idempotency_key_reused")
    assert (missing.status, missing.code) == (400, "idempotency_key_missing")
    assert await balance(deployment, "ann") == 100
    assert await balance(deployment, "bob") == 0


@pytest.mark.parametrize("amount_fen", [0, -1, 10**12 + 1, 3.0, True, "3", None])
async def test_a_wrong_top_up_is_refused(deployment: Deployment, amount_fen: Any) -> None:
    refused = await credit(deployment, "ann", amount_fen, "k")

    assert (refused.status, refused.body["field"]) == (422, "amount_fen")
    assert await count(deployment, "ledger_entry") == 0


async def test_every_balance_is_the_sum_of_its_entries_and_all_money_sums_to_nothing(
    deployment: Deployment,
) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=5)
    won = [(await deployment.grab(packet_id, user)).body for user in ("ann", "bob", "cem")]
    await deployment.booked(packet_id, claims=3)

    accounts = await deployment.services.database.transaction(
        lambda work: work.rows(
            "SELECT a.id, a.balance_fen, SUM(e.amount_fen) AS entries_fen"
            " FROM account a LEFT JOIN ledger_entry e ON e.account_id = a.id"
            " GROUP BY a.id, a.balance_fen"
        )
    )
    balances = {str(row["id"]): int(row["balance_fen"]) for row in accounts}
    number = deployment.services.packet_ids.read(packet_id)

    assert all(row["balance_fen"] == row["entries_fen"] for row in accounts)
    assert sum(balances.values()) == 0
    assert balances["user:sender"] == 0
    assert balances[f"packet:{number}"] == 1000 - sum(claim["amount_fen"] for claim in won)
    for user, claim in zip(("ann", "bob", "cem"), won, strict=True):
        assert await balance(deployment, user) == claim["amount_fen"] == balances[f"user:{user}"]


async def test_entries_page_over_everything_once_and_sum_to_the_balance(
    deployment: Deployment,
) -> None:
    for amount_fen in range(1, 8):
        await deployment.top_up("ann", amount_fen)
    await create(deployment, "ann", "k", total_fen=10, shares=2)

    entries: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = await deployment.ask("GET", f"/v1/account/entries?limit=3{cursor}", user="ann")
        entries += page.body["entries"]
        if page.body["next_cursor"] is None:
            break
        cursor = f"&cursor={page.body['next_cursor']}"

    assert [entry["amount_fen"] for entry in entries] == [-10, 7, 6, 5, 4, 3, 2, 1]
    assert len({entry["entry_id"] for entry in entries}) == 8
    assert await balance(deployment, "ann") == sum(entry["amount_fen"] for entry in entries) == 18
