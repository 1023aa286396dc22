"""Schemas and parameters of the OpenAPI document."""

from typing import Any, Final

from app.http.limits import CLAIMS_PER_PAGE, DEFAULT_RANKS, ENTRIES_PER_PAGE
from app.http.problems import WORDINGS
from app.packets.funding import DEFAULT_LIFE_MS, LONGEST_LIFE_MS, MAX_GREETING
from app.store.times import LATEST_MS
from ranking.packet_board import MAX_ROWS
from splitter.money import MAX_SHARES, MAX_TOTAL_FEN

Json = dict[str, Any]

_USER_ID: Final[Json] = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}
_PACKET_ID: Final[Json] = {"type": "string", "pattern": "^[0-9a-hjkmnp-tv-z]{20}$"}
_TEXT: Final[Json] = {"type": "string"}
_HASH: Final[Json] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_BOOLEAN: Final[Json] = {"type": "boolean"}


def _integer(least: int, largest: int | None = None, **more: Any) -> Json:
    bounds: Json = {"type": "integer", "minimum": least}
    if largest is not None:
        bounds["maximum"] = largest
    return bounds | more


def _nullable(schema: Json) -> Json:
    return {"oneOf": [schema, {"type": "null"}]}


def _object(properties: Json, *, optional: tuple[str, ...] = ()) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _list(schema: str) -> Json:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{schema}"}}


_FEN: Final = _integer(1, MAX_TOTAL_FEN)
_MS: Final = _integer(0, LATEST_MS)
_SHARES: Final = _integer(1, MAX_SHARES)
_SEQ: Final = _integer(1, MAX_SHARES)
_CURSOR: Final = _nullable({"type": "string", "pattern": "^[0-9]{1,19}$"})

_CLAIM: Final[Json] = {
    "user_id": _USER_ID,
    "seq": _SEQ,
    "amount_fen": _FEN,
    "claimed_at_ms": _MS,
}
_PACKET: Final[Json] = {
    "packet_id": _PACKET_ID,
    "sender_id": _USER_ID,
    "greeting": {"type": "string", "maxLength": MAX_GREETING},
    "kind": {"enum": ["lucky", "equal"]},
    "total_fen": _FEN,
    "shares": _SHARES,
    "min_fen": _FEN,
    "cap_fen": _nullable(_FEN),
    "state": {"enum": ["funded", "open", "closing", "settled"]},
    "commitment": _HASH,
    "split_version": _integer(1),
    "created_at_ms": _MS,
    "opens_at_ms": _MS,
    "expires_at_ms": _MS,
}
_RANK: Final[Json] = {
    "user_id": _USER_ID,
    "rank": _integer(1),
    "amount_fen": _FEN,
    "lo": _integer(1),
    "hi": _integer(1),
    "exact": _BOOLEAN,
    "tier": {"enum": ["hot", "sql"]},
    "as_of_ms": _MS,
}

_WON: Final = _object(
    {"outcome": {"enum": ["grabbed", "repeated"]}}
    | {name: _CLAIM[name] for name in ("seq", "amount_fen", "claimed_at_ms")}
)
_NOT_OPEN_YET: Final = _object({"outcome": {"const": "not_open_yet"}, "opens_at_ms": _MS})
_NOTHING: Final = _object({"outcome": {"enum": ["sold_out", "expired", "closed"]}})

SCHEMAS: Final[Json] = {
    "PacketOrder": _object(
        {
            "total_fen": _FEN,
            "shares": _SHARES,
            "kind": {"enum": ["lucky", "equal"], "default": "lucky"},
            "min_fen": _integer(1, MAX_TOTAL_FEN, default=1),
            "cap_fen": _nullable(_FEN),
            "greeting": {"type": "string", "maxLength": MAX_GREETING, "default": ""},
            "opens_at_ms": _nullable(_integer(1, LATEST_MS)),
            "life_ms": _integer(1, LONGEST_LIFE_MS, default=DEFAULT_LIFE_MS),
        },
        optional=("kind", "min_fen", "cap_fen", "greeting", "opens_at_ms", "life_ms"),
    ),
    "Packet": _object(_PACKET),
    "PacketView": _object(
        _PACKET
        | {
            "claimed": _integer(0, MAX_SHARES),
            "remaining": _integer(0, MAX_SHARES),
            "claims": _list("Claim"),
            "next_cursor": _CURSOR,
            "settlement": _nullable({"$ref": "#/components/schemas/Settlement"}),
        }
    ),
    "Settlement": _object(
        {
            "refund_fen": _integer(0),
            "best_luck": _nullable(
                _object({name: _CLAIM[name] for name in ("user_id", "seq", "amount_fen")})
            ),
            "settled_at_ms": _MS,
        }
    ),
    "GrabOutcome": {"oneOf": [_WON, _NOT_OPEN_YET, _NOTHING]},
    "Ticket": _object({"ticket": _TEXT, "expires_at_ms": _MS, "opens_at_ms": _MS, "now_ms": _MS}),
    "Claim": _object(_CLAIM),
    "Proof": _object(
        {
            "packet_id": _PACKET_ID,
            "commitment": _HASH,
            "terms": _TEXT,
            "revealed": _BOOLEAN,
            "seed": _nullable(_HASH),
        }
    ),
    "Rank": _object(_RANK),
    "Ranks": _object({"ranks": _list("Rank")}),
    "Account": _object({"user_id": _USER_ID, "balance_fen": _integer(0)}),
    "Entry": _object(
        {
            "entry_id": {"type": "string", "pattern": "^[0-9]{1,19}$"},
            "reference": _TEXT,
            "amount_fen": {"type": "integer"},
            "booked_at_ms": _MS,
        }
    ),
    "Entries": _object({"entries": _list("Entry"), "next_cursor": _CURSOR}),
    "TopUpOrder": _object({"amount_fen": _FEN}),
    "TopUp": _object({"journal": _TEXT, "amount_fen": _FEN}),
    "Contract": {"type": "object"},
    "Alive": _object({"status": {"const": "alive"}}),
    "Ready": _object(
        {
            "status": {"enum": ["ready", "not ready"]},
            "checks": _object({"redis": _BOOLEAN, "mysql": _BOOLEAN}),
        }
    ),
    "Problem": {
        "type": "object",
        "description": "RFC 9457; `code` is stable, `title` comes in the language asked for",
        "properties": {
            "type": {"type": "string", "format": "uri"},
            "title": _TEXT,
            "status": _integer(400, 599),
            "code": {"enum": sorted(WORDINGS)},
            "detail": _TEXT,
            "field": _TEXT,
        },
        "required": ["type", "title", "status", "code"],
    },
}


def _parameter(name: str, place: str, schema: Json, description: str) -> Json:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "schema": schema,
        "description": description,
    }


def _page(largest: int) -> Json:
    return _integer(1, largest, default=largest)


_NEXT: Final = "`next_cursor` of the page before"

PARAMETERS: Final[Json] = {
    "packet_id": _parameter("packet_id", "path", _PACKET_ID, "As createPacket returned it"),
    "user_id": _parameter("user_id", "path", _USER_ID, "Whom to credit"),
    "user_id_query": _parameter("user_id", "query", _USER_ID, "Another user than the caller"),
    "claims_cursor": _parameter("cursor", "query", _integer(0, MAX_SHARES, default=0), _NEXT),
    "entries_cursor": _parameter("cursor", "query", _integer(1, 2**63 - 1), _NEXT),
    "claims_limit": _parameter("limit", "query", _page(CLAIMS_PER_PAGE), "Claims of a page"),
    "entries_limit": _parameter("limit", "query", _page(ENTRIES_PER_PAGE), "Entries of a page"),
    "ranks_limit": _parameter(
        "limit", "query", _integer(1, MAX_ROWS, default=DEFAULT_RANKS), "Ranks to show"
    ),
    "if_none_match": _parameter("If-None-Match", "header", _TEXT, "The ETag at hand"),
    "accept_language": _parameter("Accept-Language", "header", _TEXT, "en or zh, for problems"),
    "idempotency_key": _parameter(
        *("Idempotency-Key", "header", {"type": "string", "pattern": "^[!-~]{1,64}$"}),
        "Names the request; the same key again leads to the same result",
    )
    | {"required": True},
}


def _header(schema: Json, description: str) -> Json:
    return {"required": True, "schema": schema, "description": description}


HEADERS: Final[Json] = {
    "Location": _header(_TEXT, "The path of the packet"),
    "ETag": _header({"type": "string", "pattern": '^"[0-9a-f]{32}"$'}, "For If-None-Match"),
    "Content-Language": _header({"enum": ["en", "zh"]}, "The language of `title`"),
    "Retry-After": _header(_integer(1), "Seconds to wait before asking again"),
    "WWW-Authenticate": _header({"const": "Bearer"}, "The credentials that are taken"),
}
