"""What a reader sees as a packet opens, fills, and leaves Redis."""

from typing import Any

import pytest

from app.store.times import now_ms
from tests.deployment import Answer, Deployment


async def test_a_packet_that_was_too_early_is_grabbed_once_it_is_open(
    deployment: Deployment,
) -> None:
    opens_at_ms = now_ms() + 3_600_000
    packet_id = await deployment.create("s", total_fen=100, shares=2, opens_at_ms=opens_at_ms)
    number = deployment.services.packet_ids.read(packet_id)
    meta = deployment.services.keys.packet(number).meta
    early = (await deployment.grab(packet_id, "ann")).body

    await deployment.services.redis.hset(meta, "opens_at_ms", str(now_ms() - 1))
    late = (await deployment.grab(packet_id, "ann")).body

    assert (early["outcome"], late["outcome"]) == ("not_open_yet", "grabbed")
    packet = await deployment.booked(packet_id, claims=1)
    assert [claim["user_id"] for claim in packet["claims"]] == ["ann"]


async def test_packet_and_claim_are_read_from_the_books_once_redis_has_let_them_go(
    deployment: Deployment,
) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=5)
    won = (await deployment.grab(packet_id, "ann")).body
    before = await deployment.booked(packet_id, claims=1)
    number = deployment.services.packet_ids.read(packet_id)
    keys = deployment.services.keys.packet(number)

    await deployment.services.redis.unlink(keys.meta, keys.claims, keys.shares, keys.board)
    after = (await deployment.ask("GET", f"/v1/packets/{packet_id}", user="bob")).body
    mine = (await deployment.ask("GET", f"/v1/packets/{packet_id}/claim", user="ann")).body
    asked = await deployment.grab(packet_id, "bob")

    assert after == before
    assert mine == {"user_id": "ann"} | {key: won[key] for key in won if key != "outcome"}
    assert (asked.status, asked.code) == (503, "unavailable")  # unknown is never sold out


async def read(deployment: Deployment, packet_id: str, **headers: Any) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await deployment.ask("GET", f"/v1/packets/{packet_id}", user="ann", headers=named)


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', '{}, "other"', "*", " * "])
async def test_every_way_to_name_the_current_state_is_not_modified(
    deployment: Deployment, form: str
) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=5)
    tag = (await read(deployment, packet_id)).headers["etag"]

    same = await read(deployment, packet_id, if_none_match=form.format(tag))

    assert (same.status, same.body) == (304, None)
    assert same.headers["etag"] == tag


@pytest.mark.parametrize("form", ["", '""', '"other"', "{}", "other, *"])
async def test_naming_another_state_gets_the_packet(deployment: Deployment, form: str) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=5)
    tag = (await read(deployment, packet_id)).headers["etag"]

    answer = await read(deployment, packet_id, if_none_match=form.format(tag.strip('"')))

    assert (answer.status, answer.headers["etag"]) == (200, tag)
    assert answer.headers["cache-control"] == "private, no-cache"


async def test_each_page_has_a_tag_of_its_own(deployment: Deployment) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=5)
    for user in ("ann", "bob"):
        await deployment.grab(packet_id, user)
    await deployment.booked(packet_id, claims=2)

    tags = set()
    for cursor in (0, 1, 2):
        path = f"/v1/packets/{packet_id}?limit=1&cursor={cursor}"
        tags.add((await deployment.ask("GET", path, user="ann")).headers["etag"])

    assert len(tags) == 3
