"""Memory may say "sold out" only when every winner is known."""

from tests.deployment import Deployment


async def test_winners_are_all_or_nothing(deployment: Deployment) -> None:
    packet_id = await deployment.create("sender", total_fen=100, shares=3)
    number = deployment.services.packet_ids.read(packet_id)
    live, redis = deployment.services.live, deployment.services.redis
    claims_key = deployment.services.keys.packet(number).claims
    for user in ("ann", "bob", "cid"):
        await deployment.grab(packet_id, user)

    assert set(await live.winners(number, 3) or {}) == {"ann", "bob", "cid"}
    assert await live.winners(number, 2) is None
    await redis.hdel(claims_key, "ann")
    assert await live.winners(number, 3) is None
    await redis.unlink(claims_key)
    assert await live.winners(number, 3) is None


async def test_a_packet_that_lost_its_claims_is_unavailable_and_never_sold_out(
    deployment: Deployment,
) -> None:
    packet_id = await deployment.create("sender", total_fen=100, shares=3)
    number = deployment.services.packet_ids.read(packet_id)
    for user in ("ann", "bob", "cid"):
        await deployment.grab(packet_id, user)
    await deployment.services.redis.unlink(deployment.services.keys.packet(number).claims)

    answer = await deployment.grab(packet_id, "ann")

    assert (answer.status, answer.code) == (503, "unavailable")
    assert answer.headers["retry-after"] == "1"
