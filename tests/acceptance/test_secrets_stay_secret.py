"""Nobody sees a seed, another user's account, or a packet by a forged id, ticket or token."""

import base64
import time
from typing import Any

import jwt
import pytest

from app.http.openapi import openapi_document
from app.store.models import Packet
from lua.ids import UserId
from splitter.money import Fen
from splitter.proof import verify
from splitter.terms import Terms
from tests.deployment import Answer, Deployment

PER_PACKET = ("", "/claim", "/proof", "/board", "/board/rank", "/board/around")


async def stored(deployment: Deployment, packet_id: str) -> Packet:
    number = deployment.services.packet_ids.read(packet_id)
    return await deployment.services.database.read(lambda: Packet.get(id=number))


async def everything_said(deployment: Deployment, packet_id: str, user: str) -> list[bytes]:
    """Every answer of every route, byte by byte, to `user` who sends what the route takes."""
    bodies = {"createPacket": {"total_fen": 1000, "shares": 5}, "topUp": {"amount_fen": 1}}
    said = []
    for path, methods in openapi_document()["paths"].items():
        for method, operation in methods.items():
            for admin in (False, True):
                token = deployment.token(user, admin=admin)
                name = operation["operationId"]
                async with deployment.session.request(
                    method,
                    deployment.url + path.format(packet_id=packet_id, user_id=user),
                    headers={"authorization": f"Bearer {token}", "idempotency-key": name},
                    json=bodies.get(name),
                ) as response:
                    headers = [b"%b: %b" % header for header in response.raw_headers]
                    said.append(b"\n".join([*headers, await response.read()]))
    return said


def spellings(seed: bytes) -> list[bytes]:
    texts = [seed.hex(), seed.hex().upper(), str(list(seed)), str(int.from_bytes(seed))]
    texts += [encode(seed).decode() for encode in (base64.b64encode, base64.urlsafe_b64encode)]
    return [seed, *(text.rstrip("=").encode() for text in texts)]


async def test_no_answer_gives_away_the_seed(deployment: Deployment) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=2)

    said = []
    for user in ("sender", "ann", "stranger"):  # the stranger comes too late for a share
        await deployment.top_up(user, 1000)  # for a packet each, which createPacket tells of
        said += await everything_said(deployment, packet_id, user)

    packets = await deployment.services.database.read(lambda: Packet.all())
    assert len(packets) == 4
    for packet in packets:
        for spelling in spellings(bytes(packet.seed)):
            assert not [answer for answer in said if spelling in answer]
    commitment = bytes((await stored(deployment, packet_id)).commitment)
    assert [answer for answer in said if commitment.hex().encode() in answer]  # it does look


async def test_seed_is_revealed_once_settled_and_proves_every_claim(deployment: Deployment) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=5)
    for number in range(5):
        await deployment.grab(packet_id, f"user{number}")
    packet = await deployment.booked(packet_id, claims=5)
    sealed = await deployment.ask("GET", f"/v1/packets/{packet_id}/proof", user="ann")
    await deployment.services.database.transaction(
        lambda work: work.run("UPDATE packet SET state = 'settled'")
    )

    proof = (await deployment.ask("GET", f"/v1/packets/{packet_id}/proof", user="ann")).body

    assert (sealed.body["revealed"], sealed.body["seed"]) == (False, None)
    assert proof["revealed"]
    assert proof["commitment"] == sealed.body["commitment"] == packet["commitment"]
    amounts = [claim["amount_fen"] for claim in packet["claims"]]
    terms = Terms("lucky", Fen(1000), 5)
    seed, commitment = bytes.fromhex(proof["seed"]), bytes.fromhex(proof["commitment"])
    assert proof["terms"].encode() == terms.canonical()
    assert verify(seed, terms, commitment, amounts).ok


@pytest.mark.parametrize("state", ["funded", "open", "closing"])
async def test_seed_is_kept_until_settled(deployment: Deployment, state: str) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=1)
    await deployment.grab(packet_id, "ann")
    await deployment.booked(packet_id, claims=1)
    await deployment.services.database.transaction(
        lambda work: work.run("UPDATE packet SET state = %s", [state])
    )

    for user in ("sender", "ann", "stranger"):
        proof = await deployment.ask("GET", f"/v1/packets/{packet_id}/proof", user=user)
        assert (proof.body["revealed"], proof.body["seed"]) == (False, None)


async def test_account_answers_are_about_the_caller_alone(deployment: Deployment) -> None:
    await deployment.top_up("rich", 77_777)

    account = await deployment.ask("GET", "/v1/account?user_id=rich", user="poor")
    entries = await deployment.ask("GET", "/v1/account/entries?user_id=rich", user="poor")

    assert account.body == {"user_id": "poor", "balance_fen": 0}
    assert entries.body["entries"] == []


async def test_only_an_admin_may_top_up(deployment: Deployment) -> None:
    path, body = "/v1/admin/accounts/ann/top-ups", {"amount_fen": 100}

    for user, role in (("ann", None), ("ann", "Admin"), ("ann", ["admin"])):
        token = deployment.token(user, role=role)
        refused = await deployment.ask(
            "POST", path, authorization=f"Bearer {token}", body=body, key="k"
        )
        assert (refused.status, refused.code) == (403, "admin_only")
    assert (await deployment.ask("GET", "/v1/account", user="ann")).body["balance_fen"] == 0


async def test_forged_packet_id_is_unknown_everywhere(deployment: Deployment) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=5)
    forged = ("0" if packet_id[0] != "0" else "1") + packet_id[1:]

    for path in PER_PACKET:
        answer = await deployment.ask("GET", f"/v1/packets/{forged}{path}", user="ann")
        assert (answer.status, answer.code) == (404, "packet_unknown")
    for verb in ("grab", "ticket"):
        answer = await deployment.ask("POST", f"/v1/packets/{forged}/{verb}", user="ann")
        assert (answer.status, answer.code) == (404, "packet_unknown")


async def test_signed_id_of_no_packet_is_unknown_or_without_claims(deployment: Deployment) -> None:
    ids = deployment.services.packet_ids
    nowhere = ids.write(ids.new())

    for path in ("", "/proof", "/board", "/board/rank", "/board/around"):
        answer = await deployment.ask("GET", f"/v1/packets/{nowhere}{path}", user="ann")
        assert (answer.status, answer.code) == (404, "packet_unknown")
    ticket = await deployment.ask("POST", f"/v1/packets/{nowhere}/ticket", user="ann")
    claim = await deployment.ask("GET", f"/v1/packets/{nowhere}/claim", user="ann")
    grab = await deployment.grab(nowhere, "ann")

    assert (ticket.status, ticket.code) == (404, "packet_unknown")
    assert (claim.status, claim.code) == (404, "no_claim")
    assert (grab.status, grab.code) == (404, "packet_unknown")


async def test_ticket_grabs_for_its_user_and_its_packet_only(deployment: Deployment) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=5)
    other_id = await deployment.create("sender", total_fen=1000, shares=5)
    taken = await deployment.ask("POST", f"/v1/packets/{packet_id}/ticket", user="ann")
    ticket = taken.body["ticket"]
    number = deployment.services.packet_ids.read(packet_id)
    expired = deployment.services.tickets.issue(number, UserId("ann"), int(time.time()) - 1).text

    async def grab(of_packet: str, text: str) -> Answer:
        path = f"/v1/packets/{of_packet}/grab"
        return await deployment.ask("POST", path, authorization=f"Ticket {text}")

    assert (await grab(other_id, ticket)).code == "ticket_invalid"
    assert (await grab(packet_id, ticket.replace("ann", "bob"))).code == "ticket_invalid"
    assert (await grab(packet_id, expired)).code == "ticket_expired"
    assert (await grab(packet_id, "")).code in ("ticket_invalid", "credentials_unsupported")
    assert (await grab(packet_id, ticket)).body["outcome"] == "grabbed"
    claim = await deployment.ask("GET", f"/v1/packets/{packet_id}/claim", user="ann")
    assert claim.body["user_id"] == "ann"
    elsewhere = await deployment.ask("GET", "/v1/account", authorization=f"Ticket {ticket}")
    assert (elsewhere.status, elsewhere.code) == (401, "credentials_unsupported")


def bad_tokens(deployment: Deployment) -> dict[str, str | None]:
    key = deployment.settings.tokens.key
    good: dict[str, Any] = {"sub": "ann", "exp": int(time.time()) + 60}
    unsigned = jwt.encode(good, "", algorithm="none")
    head, payload, tag = deployment.token("ann").split(".")
    swapped = deployment.token("bob").split(".")[1]
    return {
        "credentials_missing": None,
        "credentials_unsupported": "Basic YW5uOmFubg==",
        "token_expired": f"Bearer {deployment.token('ann', exp=int(time.time()) - 1)}",
        "token_invalid": f"Bearer {head}.{swapped}.{tag}",
        "token_invalid, no signature": f"Bearer {unsigned}",
        "token_invalid, other algorithm": f"Bearer {jwt.encode(good, key, algorithm='HS512')}",
        "token_invalid, cut short": f"Bearer {head}.{payload}",
    }


GUARDED = [
    (method.upper(), path)
    for path, methods in openapi_document()["paths"].items()
    for method, operation in methods.items()
    if operation["security"]
]


@pytest.mark.parametrize(("method", "path"), GUARDED)
async def test_no_route_lets_a_bad_token_in(deployment: Deployment, method: str, path: str) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=5)
    full_path = path.format(packet_id=packet_id, user_id="ann")

    for code, authorization in bad_tokens(deployment).items():
        answer = await deployment.ask(
            *(method, full_path), authorization=authorization, body={"amount_fen": 1}, key="k"
        )
        assert (answer.status, answer.code) == (401, code.partition(",")[0]), code
        assert answer.headers["www-authenticate"] == "Bearer"


def test_only_health_and_the_contract_itself_are_open_to_anyone() -> None:
    everything = {
        (method.upper(), path)
        for path, methods in openapi_document()["paths"].items()
        for method in methods
    }
    assert {path for _, path in everything - set(GUARDED)} == {
        *("/healthz", "/readyz", "/v1/openapi.json")
    }
