"""A user's own account, and top-ups by an admin."""

from sanic import Blueprint, HTTPResponse, Request
from sanic.response import json

from app.http.fields import (
    idempotency_key,
    integer,
    json_object,
    optional_query_integer,
    query_integer,
    user_in_path,
)
from app.http.limits import ENTRIES_PER_PAGE
from app.services import Services
from app.store.times import to_ms
from splitter.money import MAX_TOTAL_FEN, Fen


def account_routes(services: Services) -> Blueprint:
    blueprint = Blueprint("accounts")
    accounts, authenticator = services.accounts, services.authenticator

    @blueprint.get("/v1/account")
    async def account(request: Request) -> HTTPResponse:
        caller = authenticator.caller(request.headers.get("authorization"))
        balance_fen = await accounts.balance(caller.user_id)
        return json({"user_id": caller.user_id, "balance_fen": balance_fen})

    @blueprint.get("/v1/account/entries")
    async def entries(request: Request) -> HTTPResponse:
        caller = authenticator.caller(request.headers.get("authorization"))
        before_id = optional_query_integer(request, "cursor", 1, 2**63 - 1)
        limit = query_integer(request, "limit", 1, ENTRIES_PER_PAGE, ENTRIES_PER_PAGE)
        found = await accounts.entries(caller.user_id, before_id, limit + 1)
        page = found[:limit]
        return json(
            {
                "entries": [
                    {
                        "entry_id": str(entry.id),
                        "reference": entry.reference,
                        "amount_fen": entry.amount_fen,
                        "booked_at_ms": to_ms(entry.booked_at),
                    }
                    for entry in page
                ],
                "next_cursor": str(page[-1].id) if len(found) > limit else None,
            }
        )

    @blueprint.post("/v1/admin/accounts/<user_id:str>/top-ups")
    async def top_up(request: Request, user_id: str) -> HTTPResponse:
        admin = authenticator.admin(request.headers.get("authorization"))
        key = idempotency_key(request)
        body = json_object(request, frozenset(("amount_fen",)))
        amount_fen = Fen(integer(body, "amount_fen", 1, MAX_TOTAL_FEN))
        journal = await accounts.top_up(admin.user_id, user_in_path(user_id), amount_fen, key)
        return json({"journal": journal, "amount_fen": amount_fen}, status=201)

    return blueprint
