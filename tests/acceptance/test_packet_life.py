"""A packet's life over HTTP: funded, grabbed, booked, ranked."""

import asyncio
from hashlib import sha256

from app.packets.terms import terms_of
from app.services import Services
from splitter.split import split
from tests.deployment import Deployment
from tests.eventually import eventually
from workers.settler import Settler


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


async def settled(deployment: Deployment, packet_id: str) -> dict[str, object]:
    async def probe() -> dict[str, object]:
        body = (await deployment.ask("GET", f"/v1/packets/{packet_id}", user="reader")).body
        return dict(body) if body["state"] == "settled" else {}

    return await eventually(probe, what="a settled packet")


async def test_a_packet_that_expires_is_settled_with_refund_best_luck_and_seed(
    deployment: Deployment, services: Services
) -> None:
    stop = asyncio.Event()
    settler = Settler(services.database, services.settling, "test")
    settling = asyncio.create_task(settler.run(stop))
    packet_id = await deployment.create("sender", total_fen=1000, shares=5, life_ms=1500)
    hidden = await deployment.ask("GET", f"/v1/packets/{packet_id}/proof", user="ann")
    won = {
        user: (await deployment.grab(packet_id, user)).body["amount_fen"] for user in ("ann", "bob")
    }

    packet = await settled(deployment, packet_id)
    stop.set()
    await settling

    account = await deployment.ask("GET", "/v1/account", user="sender")
    proof = await deployment.ask("GET", f"/v1/packets/{packet_id}/proof", user="ann")
    late = await deployment.grab(packet_id, "late")
    again = await deployment.grab(packet_id, "ann")
    settlement = packet["settlement"]
    assert isinstance(settlement, dict)
    assert settlement["refund_fen"] == account.body["balance_fen"] == 1000 - sum(won.values())
    best = max(won, key=lambda user: won[user])
    assert settlement["best_luck"]["user_id"] == best
    assert settlement["best_luck"]["amount_fen"] == won[best]
    assert (hidden.body["revealed"], hidden.body["seed"]) == (False, None)
    seed, terms = bytes.fromhex(proof.body["seed"]), proof.body["terms"]
    assert sha256(seed + terms.encode()).hexdigest() == hidden.body["commitment"]
    number = services.packet_ids.read(packet_id)
    amounts = split(terms_of(await services.reader.packet(number)), seed)
    assert list(won.values()) == amounts[:2]
    assert (late.body["outcome"], again.body["outcome"]) == ("closed", "repeated")
