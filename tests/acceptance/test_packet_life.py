"""A packet's life over HTTP: funded, grabbed, booked, ranked."""

from tests.deployment import Deployment


async def test_each_user_gets_one_share_and_the_money_adds_up(deployment: Deployment) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=5)

    won = [(await deployment.grab(packet_id, f"user{n}")).body for n in range(5)]
    late = (await deployment.grab(packet_id, "late")).body

    assert [answer["outcome"] for answer in won] == ["grabbed"] * 5
    assert sum(answer["amount_fen"] for answer in won) == 1000
    assert late == {"outcome": "sold_out"}
    packet = await deployment.booked(packet_id, claims=5)
    assert [claim["amount_fen"] for claim in packet["claims"]] == [a["amount_fen"] for a in won]
    assert (packet["claimed"], packet["remaining"]) == (5, 0)


async def test_asking_again_returns_the_same_claim(deployment: Deployment) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=5)

    first = (await deployment.grab(packet_id, "ann")).body
    again = (await deployment.grab(packet_id, "ann")).body

    assert first["outcome"] == "grabbed"
    assert again == first | {"outcome": "repeated"}
