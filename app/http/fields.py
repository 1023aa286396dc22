"""Reads fields strictly: a whole number is not 3.0, true or "3", and nothing is guessed."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from sanic import Request

from app.http.problems import Problem
from lua.ids import UserId, parse_user_id

_IDEMPOTENCY_KEY: Final = re.compile(r"[\x21-\x7e]{1,64}")
Choice = TypeVar("Choice", bound=str)

LONGEST_NAME_SHOWN: Final = 64
_DECIMAL: Final = re.compile(r"0|[1-9][0-9]{0,18}")


def json_object(request: Request, known: frozenset[str]) -> Mapping[str, Any]:
    """The body as an object that has no fields but `known` ones. Raises Problem."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Problem("unsupported_media_type")
    try:
        body = json.loads(request.body, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Problem("bad_request", detail="the body is not JSON") from None
    if not isinstance(body, dict):
        raise Problem("bad_request", detail="the body is not an object")
    for name in body:
        if name not in known:
            shown = name.encode("ascii", "backslashreplace").decode()[:LONGEST_NAME_SHOWN]
            raise Problem("invalid_field", detail="unknown field", field=shown)
    return body


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def integer(
    body: Mapping[str, Any], name: str, least: int, largest: int, default: int | None = None
) -> int:
    """A required whole number from `least` to `largest`, or one with a default."""
    value = body.get(name, default)
    if type(value) is not int or not least <= value <= largest:
        raise Problem(
            "invalid_field", detail=f"must be a whole number from {least} to {largest}", field=name
        )
    return value


def optional_integer(body: Mapping[str, Any], name: str, least: int, largest: int) -> int | None:
    return None if body.get(name) is None else integer(body, name, least, largest)


def text(body: Mapping[str, Any], name: str, longest: int, default: str) -> str:
    value = body.get(name, default)
    if not isinstance(value, str) or len(value) > longest:
        raise Problem(
            "invalid_field", detail=f"must be text of at most {longest} characters", field=name
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Problem("invalid_field", detail="must be valid Unicode", field=name) from None
    return value


def choice(
    body: Mapping[str, Any], name: str, choices: tuple[Choice, ...], default: Choice
) -> Choice:
    value = body.get(name, default)
    for possible in choices:
        if value == possible:
            return possible
    raise Problem("invalid_field", detail=f"must be one of {', '.join(choices)}", field=name)


def query_text(request: Request, name: str) -> str | None:
    """The value of a query parameter, which may be empty; None where it is absent."""
    values = request.get_args(keep_blank_values=True).getlist(name, [])
    if len(values) > 1:
        raise Problem("invalid_field", detail="given more than once", field=name)
    return str(values[0]) if values else None


def query_integer(request: Request, name: str, least: int, largest: int, default: int) -> int:
    value = optional_query_integer(request, name, least, largest)
    return default if value is None else value


def optional_query_integer(request: Request, name: str, least: int, largest: int) -> int | None:
    value = query_text(request, name)
    if value is None:
        return None
    if not _DECIMAL.fullmatch(value) or not least <= int(value) <= largest:
        raise Problem(
            "invalid_field", detail=f"must be a whole number from {least} to {largest}", field=name
        )
    return int(value)


def user_in_path(user_id: str) -> UserId:
    try:
        return parse_user_id(user_id)
    except ValueError as error:
        raise Problem("invalid_field", detail=str(error), field="user_id") from None


def idempotency_key(request: Request) -> str:
    key = request.headers.get("idempotency-key")
    if key is None:
        raise Problem("idempotency_key_missing")
    if not _IDEMPOTENCY_KEY.fullmatch(key):
        raise Problem(
            "invalid_field", detail="1 to 64 visible ASCII characters", field="Idempotency-Key"
        )
    return str(key)
