"""The board of a packet: top, a user's rank, around a user."""

from typing import Any

from sanic import Blueprint, HTTPResponse, Request
from sanic.response import json

from app.http.fields import query_integer, query_text, user_in_path
from app.http.limits import DEFAULT_RANKS
from app.http.problems import Problem
from app.packets.booked_board import BookedBoard
from app.packets.reading import is_live
from app.services import Services
from app.store.models import Packet
from lua.ids import PacketId, UserId
from ranking.packet_board import MAX_ROWS, PacketBoard
from ranking.rank import Rank


def board_routes(services: Services) -> Blueprint:
    blueprint = Blueprint("boards")

    def board_of(packet: Packet) -> PacketBoard | BookedBoard:
        """The board in Redis, or that of the booked claims where Redis has or tells none."""
        if is_live(packet) and services.admission.redis_answers:
            return services.board
        return BookedBoard(services.booked_board, packet)

    async def admitted(request: Request, public_id: str) -> tuple[Packet, UserId]:
        """The packet, and who is calling."""
        caller = services.authenticator.caller(request.headers.get("authorization"))
        return await services.reader.packet(services.packet_ids.read(public_id)), caller.user_id

    @blueprint.get("/v1/packets/<public_id:str>/board")
    async def top(request: Request, public_id: str) -> HTTPResponse:
        packet, _ = await admitted(request, public_id)
        limit = query_integer(request, "limit", 1, MAX_ROWS, DEFAULT_RANKS)
        ranks = await board_of(packet).top(PacketId(packet.id), packet.shares, limit)
        return json({"ranks": _json(ranks)})

    @blueprint.get("/v1/packets/<public_id:str>/board/rank")
    async def rank(request: Request, public_id: str) -> HTTPResponse:
        packet, caller_id = await admitted(request, public_id)
        user_id = _named_user(request) or caller_id
        found = await board_of(packet).rank(PacketId(packet.id), packet.shares, user_id)
        if found is None:
            raise Problem("no_claim")
        return json(found._asdict())

    @blueprint.get("/v1/packets/<public_id:str>/board/around")
    async def around(request: Request, public_id: str) -> HTTPResponse:
        packet, caller_id = await admitted(request, public_id)
        user_id = _named_user(request) or caller_id
        limit = query_integer(request, "limit", 1, MAX_ROWS, DEFAULT_RANKS)
        ranks = await board_of(packet).around(PacketId(packet.id), packet.shares, user_id, limit)
        if ranks is None:
            raise Problem("no_claim")
        return json({"ranks": _json(ranks)})

    return blueprint


def _named_user(request: Request) -> UserId | None:
    named = query_text(request, "user_id")
    return None if named is None else user_in_path(named)


def _json(ranks: list[Rank]) -> list[dict[str, Any]]:
    return [rank._asdict() for rank in ranks]
