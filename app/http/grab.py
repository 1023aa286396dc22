"""POST /v1/packets/{id}/grab, the hot path: outcomes are values, no answer is an error."""

from typing import Final

from sanic import Blueprint, HTTPResponse, Request

from app.auth.authenticator import Authenticator
from app.auth.packet_ids import PacketIds
from app.grabbing.grab import Grabbing
from app.http.prepared_response import PreparedResponse
from lua.replies import Grab, Outcome

_WON: Final[dict[int, bytes]] = {
    Outcome.GRABBED: b'{"outcome":"grabbed","seq":%d,"amount_fen":%d,"claimed_at_ms":%d}',
    Outcome.REPEATED: b'{"outcome":"repeated","seq":%d,"amount_fen":%d,"claimed_at_ms":%d}',
}
_REFUSED: Final = {
    Outcome.SOLD_OUT: b'{"outcome":"sold_out"}',
    Outcome.EXPIRED: b'{"outcome":"expired"}',
    Outcome.CLOSED: b'{"outcome":"closed"}',
}
_NOT_OPEN_YET: Final = b'{"outcome":"not_open_yet","opens_at_ms":%d}'


def grab_routes(
    packet_ids: PacketIds, authenticator: Authenticator, grabbing: Grabbing
) -> Blueprint:
    blueprint = Blueprint("grab")

    @blueprint.post("/v1/packets/<public_id:str>/grab")
    async def grab(request: Request, public_id: str) -> HTTPResponse:
        packet_id = packet_ids.read(public_id)
        user_id = authenticator.grabber(request.headers.get("authorization"), packet_id)
        return PreparedResponse(grab_body(await grabbing.grab(packet_id, user_id)))

    return blueprint


def grab_body(grab: Grab) -> bytes:
    won = _WON.get(grab.outcome)
    if won is not None:
        return won % grab[1:]
    if grab.outcome == Outcome.NOT_OPEN_YET:
        return _NOT_OPEN_YET % grab.at_ms
    return _REFUSED[Outcome(grab.outcome)]
