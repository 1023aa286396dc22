"""What people read: packets by page, boards, their own claim, and problems in their language."""

from typing import Any

import pytest

from app.store.times import now_ms
from tests.deployment import Deployment


async def grabbed_packet(deployment: Deployment, users: int, **terms: Any) -> str:
    packet_id = await deployment.create("sender", total_fen=100 * users, shares=users + 2, **terms)
    for number in range(users):
        assert (await deployment.grab(packet_id, f"user{number}")).body["outcome"] == "grabbed"
    await deployment.booked(packet_id, claims=users)
    return packet_id


async def test_pages_show_every_claim_once_in_order_of_seq(deployment: Deployment) -> None:
    packet_id = await grabbed_packet(deployment, users=7)

    seqs, cursor = [], "0"
    while cursor is not None:
        path = f"/v1/packets/{packet_id}?limit=3&cursor={cursor}"
        page = (await deployment.ask("GET", path, user="ann")).body
        seqs.append([claim["seq"] for claim in page["claims"]])
        cursor = page["next_cursor"]

    assert seqs == [[1, 2, 3], [4, 5, 6], [7]]


async def test_an_unchanged_packet_is_not_sent_again(deployment: Deployment) -> None:
    packet_id = await grabbed_packet(deployment, users=2)
    path = f"/v1/packets/{packet_id}"
    tag = (await deployment.ask("GET", path, user="ann")).headers["etag"]

    same = await deployment.ask("GET", path, user="ann", headers={"if-none-match": tag})
    await deployment.grab(packet_id, "late")
    changed = await deployment.ask("GET", path, user="ann", headers={"if-none-match": tag})

    assert (same.status, same.body) == (304, None)
    assert changed.status == 200
    assert changed.headers["etag"] != tag


async def test_my_claim_is_what_the_grab_said(deployment: Deployment) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=5)
    won = (await deployment.grab(packet_id, "ann")).body

    mine = await deployment.ask("GET", f"/v1/packets/{packet_id}/claim", user="ann")
    none = await deployment.ask("GET", f"/v1/packets/{packet_id}/claim", user="bob")

    assert mine.body == {"user_id": "ann"} | {key: won[key] for key in won if key != "outcome"}
    assert (none.status, none.code) == (404, "no_claim")


async def test_equal_amounts_rank_in_the_order_of_their_claims(deployment: Deployment) -> None:
    packet_id = await grabbed_packet(deployment, users=4, kind="equal", min_fen=1)

    board = (await deployment.ask("GET", f"/v1/packets/{packet_id}/board", user="x")).body["ranks"]
    claims = (await deployment.ask("GET", f"/v1/packets/{packet_id}", user="x")).body["claims"]

    expected = sorted(claims, key=lambda claim: (-claim["amount_fen"], claim["seq"]))
    assert [rank["user_id"] for rank in board] == [claim["user_id"] for claim in expected]
    assert [rank["rank"] for rank in board] == [1, 2, 3, 4]
    assert all(rank["lo"] == rank["rank"] == rank["hi"] and rank["exact"] for rank in board)


async def test_rank_and_neighbours_agree_with_the_whole_board(deployment: Deployment) -> None:
    packet_id = await grabbed_packet(deployment, users=9)
    base = f"/v1/packets/{packet_id}/board"
    whole = (await deployment.ask("GET", f"{base}?limit=100", user="x")).body["ranks"]
    order = [rank["user_id"] for rank in whole]

    for place, user in enumerate(order):
        rank = (await deployment.ask("GET", f"{base}/rank", user=user)).body
        around = (await deployment.ask("GET", f"{base}/around?limit=3", user=user)).body["ranks"]
        first = max(0, min(place - 1, len(order) - 3))
        assert rank["rank"] == place + 1
        assert [row["user_id"] for row in around] == order[first : first + 3]
    other = await deployment.ask("GET", f"{base}/rank?user_id={order[0]}", user="stranger")
    assert (other.body["user_id"], other.body["rank"]) == (order[0], 1)
    for path in ("/rank", "/around"):
        assert (await deployment.ask("GET", base + path, user="stranger")).code == "no_claim"


async def test_ties_rank_in_the_order_of_their_claims_everywhere(deployment: Deployment) -> None:
    packet_id = await deployment.create("sender", total_fen=60, shares=6, kind="equal")
    users = ["zoe", "ann", "mia", "bob", "yan"]  # neither order of names is that of claims
    for user in users:
        assert (await deployment.grab(packet_id, user)).body["amount_fen"] == 10
    base = f"/v1/packets/{packet_id}/board"

    async def order(query: str, user: str) -> list[str]:
        ranks = (await deployment.ask("GET", base + query, user=user)).body["ranks"]
        return [rank["user_id"] for rank in ranks]

    assert await order("", "x") == users
    assert await order("?limit=2", "x") == users[:2]
    for place, user in enumerate(users, start=1):
        assert (await deployment.ask("GET", f"{base}/rank", user=user)).body["rank"] == place
        assert await order("/around?limit=1", user) == [user]
        assert await order("/around?limit=100", user) == users
    assert await order("/around?limit=3", "zoe") == users[:3]
    assert await order("/around?limit=3", "mia") == users[1:4]
    assert await order("/around?limit=3&user_id=yan", "x") == users[2:]


@pytest.mark.parametrize("user_id", ["", "a%20b", "x" * 65, "%E7%BA%A2", "a&user_id=b"])
async def test_a_wrong_user_to_look_for_is_named(deployment: Deployment, user_id: str) -> None:
    packet_id = await deployment.create("sender", total_fen=100, shares=2)
    await deployment.grab(packet_id, "ann")

    for path in ("rank", "around"):
        url = f"/v1/packets/{packet_id}/board/{path}?user_id={user_id}"
        answer = await deployment.ask("GET", url, user="ann")
        assert (answer.status, answer.body.get("field")) == (422, "user_id")


async def test_a_cursor_past_the_end_is_an_empty_last_page(deployment: Deployment) -> None:
    packet_id = await grabbed_packet(deployment, users=2)

    page = await deployment.ask("GET", f"/v1/packets/{packet_id}?cursor=2", user="ann")
    entries = await deployment.ask("GET", "/v1/account/entries?cursor=1", user="sender")

    assert (page.body["claims"], page.body["next_cursor"], page.body["claimed"]) == ([], None, 2)
    assert entries.body == {"entries": [], "next_cursor": None}


@pytest.mark.parametrize("cursor", ["-1", "x", "1.0", "01", "", "9" * 20, "1&cursor=2"])
async def test_a_wrong_cursor_is_named(deployment: Deployment, cursor: str) -> None:
    packet_id = await deployment.create("sender", total_fen=100, shares=2)

    for path in (f"/v1/packets/{packet_id}", "/v1/account/entries"):
        answer = await deployment.ask("GET", f"{path}?cursor={cursor}", user="ann")
        assert (answer.status, answer.body.get("field")) == (422, "cursor")


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "limit=1.0", "limit=-1"])
async def test_a_wrong_limit_is_named(deployment: Deployment, query: str) -> None:
    packet_id = await deployment.create("sender", total_fen=100, shares=2)

    for path in ("", "/board"):
        answer = await deployment.ask("GET", f"/v1/packets/{packet_id}{path}?{query}", user="ann")
        assert (answer.status, answer.body["field"]) == (422, "limit")


async def test_a_packet_that_opens_later_says_when(deployment: Deployment) -> None:
    opens_at_ms = now_ms() + 3_600_000
    packet_id = await deployment.create("s", total_fen=100, shares=2, opens_at_ms=opens_at_ms)

    early = await deployment.grab(packet_id, "ann")
    ticket = await deployment.ask("POST", f"/v1/packets/{packet_id}/ticket", user="ann")

    assert early.body == {"outcome": "not_open_yet", "opens_at_ms": opens_at_ms}
    assert ticket.body["opens_at_ms"] == opens_at_ms
    assert ticket.body["now_ms"] < opens_at_ms < ticket.body["expires_at_ms"]


async def test_an_expired_packet_still_shows_a_winner_the_claim(deployment: Deployment) -> None:
    packet_id = await deployment.create("sender", total_fen=100, shares=2)
    won = (await deployment.grab(packet_id, "ann")).body
    number = deployment.services.packet_ids.read(packet_id)
    meta = deployment.services.keys.packet(number).meta
    await deployment.services.redis.hset(meta, "expires_at_ms", str(now_ms() - 1))

    assert (await deployment.grab(packet_id, "bob")).body == {"outcome": "expired"}
    assert (await deployment.grab(packet_id, "ann")).body == won | {"outcome": "repeated"}


@pytest.mark.parametrize("life_ms", [0, 8 * 24 * 3600 * 1000])
async def test_an_impossible_life_is_refused(deployment: Deployment, life_ms: int) -> None:
    body = {"total_fen": 100, "shares": 2, "life_ms": life_ms}
    answer = await deployment.ask("POST", "/v1/packets", user="ann", body=body, key="k")
    assert (answer.status, answer.body["field"]) == (422, "life_ms")


@pytest.mark.parametrize("opens_in_ms", [-60_000, 31 * 24 * 3600 * 1000])
async def test_an_impossible_opening_is_refused(deployment: Deployment, opens_in_ms: int) -> None:
    await deployment.top_up("ann", 100)
    body = {"total_fen": 100, "shares": 2, "opens_at_ms": now_ms() + opens_in_ms}
    answer = await deployment.ask("POST", "/v1/packets", user="ann", body=body, key="k")
    assert (answer.status, answer.code) == (422, "impossible_schedule")


@pytest.mark.parametrize(
    ("header", "language", "title"),
    [
        ("", "en", "There is nothing here"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh", "页面不存在"),
        ("en-GB,zh;q=0.5", "en", "There is nothing here"),
        ("fr, zh;q=0.1", "zh", "页面不存在"),
        ("zh;q=x, en;q=0.1", "en", "There is nothing here"),
    ],
)
async def test_problems_come_in_the_language_asked_for(
    deployment: Deployment, header: str, language: str, title: str
) -> None:
    answer = await deployment.ask("GET", "/nothing", headers={"accept-language": header})

    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["content-language"] == language
    assert (answer.status, answer.body["title"]) == (404, title)


@pytest.mark.parametrize(
    ("content_type", "content", "code"),
    [
        ("text/plain", b"{}", "unsupported_media_type"),
        ("application/json", b"", "bad_request"),
        ("application/json", b"{", "bad_request"),
        ("application/json", b"[]", "bad_request"),
        ("application/json", b"\xff", "bad_request"),
        ("application/json", b'{"total_fen": NaN}', "bad_request"),
        ("application/json", b"[" * 10_000, "bad_request"),
        (
            "application/json",
            b'{"greeting": "\\ud800", "total_fen": 9, "shares": 1}',
            "invalid_field",
        ),
        ("application/json", b'{"\\ud800":1}', "invalid_field"),
        ("application/json", b" " * 20_000, "too_large"),
    ],
)
async def test_an_unreadable_body_gets_a_clear_error(
    deployment: Deployment, content_type: str, content: bytes, code: str
) -> None:
    headers = {
        "authorization": f"Bearer {deployment.token('ann')}",
        "idempotency-key": "k",
        "content-type": content_type,
    }
    url = f"{deployment.url}/v1/packets"
    async with deployment.session.post(url, headers=headers, data=content) as response:
        assert (await response.json(content_type=None))["code"] == code


async def test_a_wrong_method_is_refused(deployment: Deployment) -> None:
    answer = await deployment.ask("DELETE", "/v1/account", user="ann")
    assert (answer.status, answer.code) == (405, "method_not_allowed")
