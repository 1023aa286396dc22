"""Fields are read strictly: what is not exactly what was asked for is refused by name."""

import re
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sanic import Request
from sanic.request import RequestParameters

from app.http.fields import (
    choice,
    idempotency_key,
    integer,
    json_object,
    optional_integer,
    optional_query_integer,
    query_integer,
    text,
    user_in_path,
)
from app.http.problems import Problem

KNOWN = frozenset(("shares", "greeting"))


@dataclass
class FakeRequest:
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, list[str]] = field(default_factory=dict)

    def get_args(self, *, keep_blank_values: bool) -> RequestParameters:
        assert keep_blank_values  # an empty value is a wrong one, not an absent one
        return RequestParameters(self.query)


def sent(body: bytes, media_type: str = "application/json") -> Request:
    return cast(Request, FakeRequest(body, {"content-type": media_type}))


def asked(**query: str | list[str]) -> Request:
    lists = {name: [value] if isinstance(value, str) else value for name, value in query.items()}
    return cast(Request, FakeRequest(query=lists))


def with_key(key: str | None) -> Request:
    return cast(Request, FakeRequest(headers={} if key is None else {"idempotency-key": key}))


def refusal(problem: pytest.ExceptionInfo[Problem]) -> tuple[str, str | None]:
    return problem.value.code, problem.value.field


def shares(body: bytes) -> int:
    return integer(json_object(sent(body), KNOWN), "shares", 1, 100)


@pytest.mark.parametrize("number", ["1", "100", "7 ", " 7"])
def test_whole_number_within_its_bounds_is_taken(number: str) -> None:
    assert shares(b'{"shares": %s}' % number.encode()) == int(number)


@pytest.mark.parametrize(
    "value",
    [
        *("0", "101", "-1", "-0", "9" * 40, "9" * 4000),
        *("3.0", "3e0", "1e400", "true", "false", "null", '"3"', "[3]", "{}"),
    ],
)
def test_everything_else_is_not_a_whole_number(value: str) -> None:
    with pytest.raises(Problem) as problem:
        shares(b'{"shares": %s}' % value.encode())

    assert refusal(problem) == ("invalid_field", "shares")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"shares": NaN}',
        b'{"shares": Infinity}',
        b'{"shares": -Infinity}',
        b'{"shares": 03}',
        b'{"shares": +3}',
        b'{"shares": 0x3}',
        b'{"shares": %s}' % (b"9" * 5000),
        b'{"shares": 3} {}',
        b'{"shares": "\xff"}',
        b"\xff\xfe\x00",
        b"[" * 16_000,
        b'{"a":' * 3_000,
        b"[" * 8_000 + b"]" * 8_000,
    ],
)
def test_body_that_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(Problem) as problem:
        shares(body)

    assert refusal(problem) == ("bad_request", None)


@pytest.mark.parametrize("body", [b"[]", b"null", b"3", b'"shares"', b"true", b'[{"shares": 3}]'])
def test_json_that_is_not_an_object_is_refused(body: bytes) -> None:
    with pytest.raises(Problem) as problem:
        shares(body)

    assert refusal(problem) == ("bad_request", None)


def test_unknown_field_is_named_even_beside_known_ones() -> None:
    with pytest.raises(Problem) as problem:
        json_object(sent(b'{"shares": 3, "share": 4}'), KNOWN)

    assert refusal(problem) == ("invalid_field", "share")


@pytest.mark.parametrize("name", [r"\ud800", "抢红包", "x" * 5000, r"\n\u0000", ""])
def test_name_of_an_unknown_field_is_shown_short_and_as_ascii(name: str) -> None:
    with pytest.raises(Problem) as problem:
        json_object(sent(f'{{"{name}": 1}}'.encode()), KNOWN)

    code, shown = refusal(problem)
    assert code == "invalid_field"
    assert shown is not None
    assert shown.isascii()
    assert len(shown) <= 64


@pytest.mark.parametrize(
    "media_type", ["", "text/plain", "application/jsonp", "application/x-json"]
)
def test_body_that_does_not_call_itself_json_is_refused(media_type: str) -> None:
    with pytest.raises(Problem) as problem:
        json_object(sent(b"{}", media_type), KNOWN)

    assert refusal(problem) == ("unsupported_media_type", None)


@pytest.mark.parametrize("media_type", ["application/json; charset=utf-8", "Application/JSON ;x"])
def test_json_may_say_so_with_parameters_and_in_any_case(media_type: str) -> None:
    assert json_object(sent(b"{}", media_type), KNOWN) == {}


def test_defaults_are_for_what_is_absent_and_not_for_null() -> None:
    assert integer({}, "life_ms", 1, 10, default=5) == 5
    assert optional_integer({}, "cap_fen", 1, 10) is None
    assert optional_integer({"cap_fen": None}, "cap_fen", 1, 10) is None
    for body in ({}, {"shares": None}):
        with pytest.raises(Problem, match="invalid_field"):
            integer(body, "shares", 1, 10)
    with pytest.raises(Problem, match="invalid_field"):
        integer({"life_ms": None}, "life_ms", 1, 10, default=5)


@pytest.mark.parametrize("value", [7, None, ["hi"], "恭" * 21, "\ud800"])
def test_text_is_valid_and_not_too_long(value: Any) -> None:
    assert text({"greeting": "恭喜发财🧧"}, "greeting", 20, "") == "恭喜发财🧧"
    assert text({}, "greeting", 20, "hi") == "hi"
    with pytest.raises(Problem) as problem:
        text({"greeting": value}, "greeting", 20, "")

    assert refusal(problem) == ("invalid_field", "greeting")


@pytest.mark.parametrize("value", ["LUCKY", "", 1, True, None, ["lucky"], {"lucky": 1}])
def test_choice_is_one_of_those_offered(value: Any) -> None:
    offered = ("lucky", "equal")
    assert choice({"kind": "equal"}, "kind", offered, "lucky") == "equal"
    assert choice({}, "kind", offered, "lucky") == "lucky"
    with pytest.raises(Problem) as problem:
        choice({"kind": value}, "kind", offered, "lucky")

    assert refusal(problem) == ("invalid_field", "kind")


@pytest.mark.parametrize("value", ["-1", "+1", "01", "1.0", " 1", "1_0", "١", "", "11", "9" * 5000])
def test_number_in_the_query_is_plain_decimal_within_its_bounds(value: str) -> None:
    assert query_integer(asked(limit="10"), "limit", 0, 10, 5) == 10
    assert query_integer(asked(limit="0"), "limit", 0, 10, 5) == 0
    assert query_integer(asked(), "limit", 0, 10, 5) == 5
    assert optional_query_integer(asked(), "limit", 0, 10) is None
    with pytest.raises(Problem) as problem:
        query_integer(asked(limit=value), "limit", 0, 10, 5)

    assert refusal(problem) == ("invalid_field", "limit")


def test_parameter_that_is_given_twice_is_refused() -> None:
    with pytest.raises(Problem) as problem:
        query_integer(asked(limit=["1", "2"]), "limit", 0, 10, 5)

    assert refusal(problem) == ("invalid_field", "limit")


@given(st.text() | st.from_regex("[A-Za-z0-9_-]{1,65}", fullmatch=True))
def test_user_in_a_path_is_a_user_id_or_a_problem(name: str) -> None:
    if re.fullmatch("[A-Za-z0-9_-]{1,64}", name):
        assert user_in_path(name) == name
    else:
        with pytest.raises(Problem) as problem:
            user_in_path(name)
        assert refusal(problem) == ("invalid_field", "user_id")


@pytest.mark.parametrize("key", ["", "x" * 65, "two words", "tab\t", "é", "new\n", "\udcff"])
def test_idempotency_key_is_short_visible_ascii(key: str) -> None:
    assert idempotency_key(with_key("!~")) == "!~"
    assert idempotency_key(with_key("k" * 64)) == "k" * 64
    with pytest.raises(Problem) as problem:
        idempotency_key(with_key(key))

    assert refusal(problem) == ("invalid_field", "Idempotency-Key")


def test_missing_idempotency_key_is_a_problem_of_its_own() -> None:
    with pytest.raises(Problem) as problem:
        idempotency_key(with_key(None))

    assert refusal(problem) == ("idempotency_key_missing", None)
