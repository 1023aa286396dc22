"""The API's contract as an OpenAPI 3.1 document, served at /v1/openapi.json."""

import json
from typing import Any, Final

from sanic import Blueprint, HTTPResponse, Request

from app.http.openapi_schemas import HEADERS, PARAMETERS, SCHEMAS
from app.http.problems import WORDINGS

Json = dict[str, Any]

_ANYONE: Final[list[Json]] = []
_BEARER: Final[list[Json]] = [{"bearer": []}]
_GRABBER: Final[list[Json]] = [{"ticket": []}, {"bearer": []}]
_UNAUTHORIZED: Final = (
    "credentials_missing",
    "credentials_unsupported",
    "token_invalid",
    "token_expired",
)
_BODY: Final = ("bad_request", "invalid_field", "too_large", "unsupported_media_type")
_BUSY: Final = ("overloaded", "unavailable", "internal")
_KEYED: Final = ("idempotency_key_missing", "idempotency_key_reused")
_PACKET: Final = "/v1/packets/{packet_id}"
_OF_PACKET: Final = (*_UNAUTHORIZED, "packet_unknown")
_HEADERS_OF_STATUS: Final = {401: ("WWW-Authenticate",), 503: ("Retry-After",)}


def openapi_routes() -> Blueprint:
    blueprint = Blueprint("openapi")
    document = json.dumps(openapi_document(), ensure_ascii=False).encode()

    @blueprint.get("/v1/openapi.json")
    async def contract(_: Request) -> HTTPResponse:
        return HTTPResponse(
            document,
            content_type="application/json",
            headers={"cache-control": "public, max-age=300"},
        )

    return blueprint


def openapi_document() -> Json:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "redpacket",
            "version": "1",
            "summary": "Red packets for a flash crowd",
            "description": "Amounts are whole fen. Times are UTC milliseconds. Ids are strings.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "paths": _packet_paths() | _board_paths() | _account_paths() | _service_paths(),
        "components": {
            "schemas": SCHEMAS,
            "parameters": PARAMETERS,
            "headers": HEADERS,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
                "ticket": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "`Ticket <ticket>`, the ticket being of this packet",
                },
            },
        },
    }


def _packet_paths() -> Json:
    ignored_body = ("bad_request", "too_large")
    grab_codes = (*_OF_PACKET, *ignored_body, "ticket_invalid", "ticket_expired")
    create_codes = (
        *(*_UNAUTHORIZED, *_BODY, *_KEYED),
        *("impossible_terms", "impossible_schedule", "insufficient_funds"),
    )
    return {
        "/v1/packets": {
            "post": _operation(
                "createPacket", "Fund and open a packet", _BEARER, 201, "Packet",
                create_codes, parameters=("idempotency_key",), body="PacketOrder",
                headers=("Location",),
            )
        },
        _PACKET: {
            "get": _operation(
                "readPacket", "A packet with its booked claims, by seq", _BEARER, 200,
                "PacketView", (*_OF_PACKET, "invalid_field"),
                parameters=("packet_id", "claims_cursor", "claims_limit", "if_none_match"),
                headers=("ETag",), not_modified=True,
            )
        },
        f"{_PACKET}/grab": {
            "post": _operation(
                "grab", "Grab a share; asking again returns the same claim", _GRABBER, 200,
                "GrabOutcome", grab_codes, parameters=("packet_id",),
            )
        },
        f"{_PACKET}/ticket": {
            "post": _operation(
                "takeTicket", "Get the signed right to grab this packet", _BEARER, 201,
                "Ticket", (*_OF_PACKET, *ignored_body), parameters=("packet_id",),
            )
        },
        f"{_PACKET}/claim": {
            "get": _operation(
                "readMyClaim", "The caller's claim", _BEARER, 200, "Claim",
                (*_OF_PACKET, "no_claim"), parameters=("packet_id",),
            )
        },
        f"{_PACKET}/proof": {
            "get": _operation(
                "readProof", "The commitment, and the seed once settled", _BEARER, 200,
                "Proof", _OF_PACKET, parameters=("packet_id",),
            )
        },
    }  # fmt: skip


def _board_paths() -> Json:
    around_codes = (*_OF_PACKET, "invalid_field", "no_claim")
    return {
        f"{_PACKET}/board": {
            "get": _operation(
                "readTop", "Who got most", _BEARER, 200, "Ranks", (*_OF_PACKET, "invalid_field"),
                parameters=("packet_id", "ranks_limit"),
            )
        },
        f"{_PACKET}/board/rank": {
            "get": _operation(
                "readRank", "A user's rank, the caller's by default", _BEARER, 200, "Rank",
                around_codes, parameters=("packet_id", "user_id_query"),
            )
        },
        f"{_PACKET}/board/around": {
            "get": _operation(
                "readAround", "The ranks around a user", _BEARER, 200, "Ranks",
                around_codes, parameters=("packet_id", "user_id_query", "ranks_limit"),
            )
        },
    }  # fmt: skip


def _account_paths() -> Json:
    top_up_codes = (*_UNAUTHORIZED, *_BODY, *_KEYED, "admin_only")
    return {
        "/v1/account": {
            "get": _operation(
                "readAccount", "The caller's balance", _BEARER, 200, "Account", _UNAUTHORIZED
            )
        },
        "/v1/account/entries": {
            "get": _operation(
                "readEntries", "The caller's entries, newest first", _BEARER, 200, "Entries",
                (*_UNAUTHORIZED, "invalid_field"),
                parameters=("entries_cursor", "entries_limit"),
            )
        },
        "/v1/admin/accounts/{user_id}/top-ups": {
            "post": _operation(
                "topUp", "Credit a user; needs the role admin", _BEARER, 201, "TopUp",
                top_up_codes, parameters=("user_id", "idempotency_key"), body="TopUpOrder",
            )
        },
    }  # fmt: skip


def _service_paths() -> Json:
    return {
        "/v1/openapi.json": {
            "get": _operation("readContract", "This document", _ANYONE, 200, "Contract", ())
        },
        "/healthz": {
            "get": _operation("readAlive", "The process turns", _ANYONE, 200, "Alive", ())
        },
        "/readyz": {
            "get": _operation("readReady", "A grab would be answered", _ANYONE, 200, "Ready", ())
            | {"responses": {str(code): _success("Ready") for code in (200, 503)}}
        },
    }  # fmt: skip


def _operation(
    operation_id: str,
    summary: str,
    security: list[Json],
    status: int,
    schema: str,
    codes: tuple[str, ...],
    *,
    parameters: tuple[str, ...] = (),
    body: str | None = None,
    headers: tuple[str, ...] = (),
    not_modified: bool = False,
) -> Json:
    responses: Json = {str(status): _success(schema) | _headers(*headers)}
    if not_modified:
        unchanged = {"description": "Not modified since the ETag given"}
        responses["304"] = unchanged | _headers(*headers)
    if security:
        codes = (*codes, *_BUSY)
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(WORDINGS[code].status, []).append(code)
    for of_status, of_codes in sorted(by_status.items()):
        responses[str(of_status)] = _problem(of_status, of_codes)
    names = (*parameters, "accept_language") if security else parameters
    operation: Json = {
        "operationId": operation_id,
        "summary": summary,
        "security": security,
        "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in names],
        "responses": responses,
    }
    if body is not None:
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{body}"}}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _success(schema: str) -> Json:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": schema, "content": content}


def _headers(*names: str) -> Json:
    references = {name: {"$ref": f"#/components/headers/{name}"} for name in names}
    return {"headers": references} if names else {}


def _problem(status: int, codes: list[str]) -> Json:
    narrowed = {"properties": {"code": {"enum": codes}}}
    schema = {"allOf": [{"$ref": "#/components/schemas/Problem"}, narrowed]}
    return {
        "description": "; ".join(WORDINGS[code].english for code in codes),
        "content": {"application/problem+json": {"schema": schema}},
    } | _headers("Content-Language", *_HEADERS_OF_STATUS.get(status, ()))
