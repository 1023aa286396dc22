"""Turns what went wrong into a problem answer: one place, one table."""

import logging
from collections.abc import Callable
from typing import Any, Final

from asyncmy.errors import MySQLError
from redis.exceptions import RedisError
from sanic import HTTPResponse, Request, Sanic
from sanic.exceptions import MethodNotAllowed, RequestCancelled, SanicException
from sanic.handlers import ErrorHandler
from tortoise.exceptions import BaseORMException

from app.auth.packet_ids import ForgedPacketId
from app.auth.refusals import Forbidden, Unauthorized
from app.grabbing.admission import SwitchedOff
from app.grabbing.coalescer import GrabUnavailable, Overloaded
from app.http.problems import Problem, problem_response
from app.ledger.idempotency import IdempotencyKeyReused
from app.ledger.posting import InsufficientFunds
from app.packets.funding import ImpossibleSchedule
from app.packets.opening import NotCertified, OpeningFailed
from app.packets.reading import PacketUnknown
from app.packets.splitting import SplittingBusy, UnrankableShares
from app.store.database import DatabaseBusy
from splitter.terms import ImpossibleTerms

log = logging.getLogger(__name__)

_OF_STATUS: Final = {
    400: "bad_request",
    404: "not_found",
    405: "method_not_allowed",
    408: "bad_request",
    413: "too_large",
    415: "unsupported_media_type",
    417: "bad_request",
    503: "unavailable",
}

_PROBLEMS: Final[dict[type[BaseException], Callable[[BaseException], Problem]]] = {
    Unauthorized: lambda error: Problem(str(error)),
    Forbidden: lambda error: Problem(str(error)),
    ForgedPacketId: lambda _: Problem("packet_unknown"),
    PacketUnknown: lambda _: Problem("packet_unknown"),
    SwitchedOff: lambda _: Problem("switched_off"),
    Overloaded: lambda _: Problem("overloaded"),
    DatabaseBusy: lambda _: Problem("overloaded"),
    SplittingBusy: lambda _: Problem("overloaded"),
    RequestCancelled: lambda _: Problem("unavailable"),  # the client is gone: nobody reads this
    GrabUnavailable: lambda error: Problem("unavailable", detail=str(error)),
    InsufficientFunds: lambda _: Problem("insufficient_funds"),
    IdempotencyKeyReused: lambda _: Problem("idempotency_key_reused"),
    ImpossibleTerms: lambda error: Problem(
        "impossible_terms", detail=str(error), field=getattr(error, "code", None)
    ),
    UnrankableShares: lambda error: Problem("impossible_terms", detail=str(error)),
    ImpossibleSchedule: lambda error: Problem("impossible_schedule", detail=str(error)),
}

# The store behind is in trouble; asking again later is right. The log has the details.
_TROUBLE: Final = (
    RedisError,
    BaseORMException,
    MySQLError,
    OpeningFailed,
    NotCertified,
    ConnectionError,
    TimeoutError,
)


class ProblemHandler(ErrorHandler):
    """Answers every exception as a problem; what nobody foresaw is logged with its traceback."""

    def default(self, request: Request, exception: Exception) -> HTTPResponse:
        response = problem_response(request, as_problem(exception))
        if isinstance(exception, MethodNotAllowed):
            response.headers.update(exception.headers)  # Allow: what would be allowed
        return response

    def response(self, request: Request, exception: Exception) -> HTTPResponse:
        return self.default(request, exception)


def as_problem(error: BaseException) -> Problem:
    if isinstance(error, Problem):
        return error
    make = _PROBLEMS.get(type(error))
    if make is not None:
        return make(error)
    if isinstance(error, _TROUBLE):
        log.warning("unavailable: %r", error)
        return Problem("unavailable")
    if isinstance(error, SanicException):
        code = _OF_STATUS.get(error.status_code)
        if code is not None:
            return Problem(code)
    log.error("unforeseen: %r", error, exc_info=error)
    return Problem("internal")


def install_error_handler(app: Sanic[Any, Any]) -> None:
    app.error_handler = ProblemHandler()
