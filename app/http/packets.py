"""Packets: create, read with claims, my claim, proof, ticket."""

from hashlib import sha256
from typing import Any, Final

from sanic import Blueprint, HTTPResponse, Request
from sanic.response import json

from app.grabbing.mysql_grabs import MAX_SHARES as MAX_SHARES_ON_MYSQL
from app.http.fields import (
    choice,
    idempotency_key,
    integer,
    json_object,
    optional_integer,
    query_integer,
    text,
)
from app.http.limits import CLAIMS_PER_PAGE
from app.http.problems import Problem
from app.packets.funding import DEFAULT_LIFE_MS, LONGEST_LIFE_MS, MAX_GREETING, PacketOrder
from app.packets.reading import PacketView, Settlement
from app.packets.terms import terms_of
from app.services import Services
from app.store.models import Packet
from app.store.times import LATEST_MS, now_ms, to_ms
from lua.ids import PacketId
from splitter.money import MAX_SHARES, MAX_TOTAL_FEN, Fen
from splitter.terms import KINDS, Terms

_CREATE_FIELDS: Final = frozenset(
    ("kind", "total_fen", "shares", "min_fen", "cap_fen", "greeting", "opens_at_ms", "life_ms")
)
_TICKET_GRACE_MS: Final = 60_000


def packet_routes(services: Services) -> Blueprint:
    blueprint = Blueprint("packets")
    _add_packet(blueprint, services)
    _add_rights(blueprint, services)
    return blueprint


def _add_packet(blueprint: Blueprint, services: Services) -> None:
    """The packet itself: create, read, my claim."""
    reader = services.reader

    @blueprint.post("/v1/packets")
    async def create(request: Request) -> HTTPResponse:
        caller = services.authenticator.caller(request.headers.get("authorization"))
        key = idempotency_key(request)
        services.admission.check_creation()
        order = _order(request, caller.user_id)
        on_mysql = not services.admission.redis_answers
        if on_mysql and order.terms.shares > MAX_SHARES_ON_MYSQL:
            raise Problem("unavailable", detail="only small packets can be sent right now")
        packet = await services.funding.fund(order, key, on_mysql=on_mysql)
        await services.opener.open(packet)
        public_id = services.packet_ids.write(PacketId(packet.id))
        return json(
            _packet_json(packet, public_id),
            status=201,
            headers={"location": f"/v1/packets/{public_id}"},
        )

    @blueprint.get("/v1/packets/<public_id:str>")
    async def read(request: Request, public_id: str) -> HTTPResponse:
        services.authenticator.caller(request.headers.get("authorization"))
        packet = await reader.packet(services.packet_ids.read(public_id))
        after_seq = query_integer(request, "cursor", 0, MAX_SHARES, 0)
        limit = query_integer(request, "limit", 1, CLAIMS_PER_PAGE, CLAIMS_PER_PAGE)
        view = await reader.view(packet, after_seq, limit)
        return _with_etag(request, _view_json(view, public_id))

    @blueprint.get("/v1/packets/<public_id:str>/claim")
    async def my_claim(request: Request, public_id: str) -> HTTPResponse:
        caller = services.authenticator.caller(request.headers.get("authorization"))
        packet_id = services.packet_ids.read(public_id)
        claim = await reader.claim_of(packet_id, caller.user_id)
        if claim is None:
            raise Problem("no_claim")
        return json(_claim_json(caller.user_id, claim.seq, claim.amount_fen, claim.at_ms))


def _add_rights(blueprint: Blueprint, services: Services) -> None:
    """What a user may check or show of a packet: proof, ticket."""
    reader = services.reader

    @blueprint.get("/v1/packets/<public_id:str>/proof")
    async def proof(request: Request, public_id: str) -> HTTPResponse:
        services.authenticator.caller(request.headers.get("authorization"))
        packet = await reader.packet(services.packet_ids.read(public_id))
        terms = terms_of(packet)
        # The seed gives away what is still to be grabbed: it is told only once nothing is.
        revealed = packet.state == "settled"
        return json(
            {
                "packet_id": public_id,
                "commitment": bytes(packet.commitment).hex(),
                "terms": terms.canonical().decode("ascii"),
                "revealed": revealed,
                "seed": bytes(packet.seed).hex() if revealed else None,
            }
        )

    @blueprint.post("/v1/packets/<public_id:str>/ticket")
    async def ticket(request: Request, public_id: str) -> HTTPResponse:
        caller = services.authenticator.caller(request.headers.get("authorization"))
        packet = await reader.packet(services.packet_ids.read(public_id))
        expires_at_ms = max(to_ms(packet.expires_at), now_ms()) + _TICKET_GRACE_MS
        issued = services.tickets.issue(PacketId(packet.id), caller.user_id, expires_at_ms // 1000)
        return json(
            {
                "ticket": issued.text,
                "expires_at_ms": issued.expires_at_ms,
                "opens_at_ms": to_ms(packet.opens_at),
                "now_ms": now_ms(),
            },
            status=201,
            headers={"cache-control": "no-store"},
        )


def _order(request: Request, sender_id: Any) -> PacketOrder:
    body = json_object(request, _CREATE_FIELDS)
    cap_fen = optional_integer(body, "cap_fen", 1, MAX_TOTAL_FEN)
    return PacketOrder(
        sender_id=sender_id,
        terms=Terms(
            kind=choice(body, "kind", KINDS, "lucky"),
            total_fen=Fen(integer(body, "total_fen", 1, MAX_TOTAL_FEN)),
            shares=integer(body, "shares", 1, MAX_SHARES),
            min_fen=Fen(integer(body, "min_fen", 1, MAX_TOTAL_FEN, default=1)),
            cap_fen=None if cap_fen is None else Fen(cap_fen),
        ),
        greeting=text(body, "greeting", MAX_GREETING, ""),
        opens_at_ms=optional_integer(body, "opens_at_ms", 1, LATEST_MS),
        life_ms=integer(body, "life_ms", 1, LONGEST_LIFE_MS, default=DEFAULT_LIFE_MS),
    )


def _packet_json(packet: Packet, public_id: str) -> dict[str, Any]:
    return {
        "packet_id": public_id,
        "sender_id": packet.sender_id,
        "greeting": packet.greeting,
        "kind": packet.kind,
        "total_fen": packet.total_fen,
        "shares": packet.shares,
        "min_fen": packet.min_fen,
        "cap_fen": packet.cap_fen,
        "state": packet.state,
        "commitment": bytes(packet.commitment).hex(),
        "split_version": packet.split_version,
        "created_at_ms": to_ms(packet.created_at),
        "opens_at_ms": to_ms(packet.opens_at),
        "expires_at_ms": to_ms(packet.expires_at),
    }


def _view_json(view: PacketView, public_id: str) -> dict[str, Any]:
    return _packet_json(view.packet, public_id) | {
        "claimed": view.claimed,
        "remaining": view.remaining,
        "claims": [
            _claim_json(claim.user_id, claim.seq, claim.amount_fen, to_ms(claim.claimed_at))
            for claim in view.claims
        ],
        "next_cursor": None if view.next_seq is None else str(view.next_seq),
        "settlement": None if view.settlement is None else _settlement_json(view.settlement),
    }


def _settlement_json(settlement: Settlement) -> dict[str, Any]:
    best = settlement.best_luck
    return {
        "refund_fen": settlement.refund_fen,
        "best_luck": None if best is None else best._asdict(),
        "settled_at_ms": settlement.settled_at_ms,
    }


def _claim_json(user_id: str, seq: int, amount_fen: int, claimed_at_ms: int) -> dict[str, Any]:
    return {
        "user_id": user_id,
        "seq": seq,
        "amount_fen": amount_fen,
        "claimed_at_ms": claimed_at_ms,
    }


def _with_etag(request: Request, body: dict[str, Any]) -> HTTPResponse:
    response = json(body)
    tag = f'"{sha256(response.body or b"").hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": "private, no-cache"}
    wanted = request.headers.get("if-none-match", "").strip()
    if wanted == "*" or tag in wanted:
        return HTTPResponse(status=304, headers=headers)
    response.headers.update(headers)
    return response
