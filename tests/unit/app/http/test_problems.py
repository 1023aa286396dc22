"""Problems: stable codes, words in the reader's language, and headers that say what to do next."""

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from sanic import HTTPResponse, Request
from sanic.exceptions import (
    BadRequest,
    MethodNotAllowed,
    NotFound,
    PayloadTooLarge,
    RequestCancelled,
    SanicException,
)

from app.auth.packet_ids import ForgedPacketId
from app.auth.refusals import Forbidden, Unauthorized
from app.grabbing.coalescer import GrabUnavailable, Overloaded
from app.http.errors import as_problem
from app.http.problems import WORDINGS, Problem, prefers_chinese, problem_response
from lua.replies import GrabStatus

CHINESE = re.compile("[\u4e00-\u9fff]")


@dataclass
class FakeRequest:
    headers: dict[str, str] = field(default_factory=dict)


def answer(problem: Problem, **headers: str) -> tuple[HTTPResponse, dict[str, Any]]:
    request = FakeRequest({name.replace("_", "-"): value for name, value in headers.items()})
    response = problem_response(cast(Request, request), problem)
    body: dict[str, Any] = json.loads(response.body or b"")
    return response, body


@pytest.mark.parametrize(
    "header",
    [
        "zh",
        "zh-CN",
        "ZH-hant-tw",
        "zh-CN,zh;q=0.9,en;q=0.8",
        "en;q=0.8,zh-CN;q=0.9",
        "en;q=0.8, zh; q=0.9",
        "en ; q=0.1 , zh ; q=0.2",
        "fr, zh;q=0.1",
        "en;q=0, zh;q=0.001",
        "en;q=oops, zh;q=0.3",
        "en;Q=0.5, zh",
    ],
)
def test_chinese_is_chosen_where_it_comes_before_english(header: str) -> None:
    assert prefers_chinese(header)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "*",
        "en",
        "en-GB,zh;q=0.9",
        "zh;q=0.5, en;q=0.5",
        "zh;q=0",
        "zh;q=0.0, en;q=0",
        "zh;q=nan",
        "zh;q=oops",
        "fr-CH, de",
        "zhuang",
        "x-zh",
        ",,;q=1,;;",
        "\udcff;q=\udcff",
    ],
)
def test_english_is_spoken_to_everybody_else(header: str) -> None:
    assert not prefers_chinese(header)


@pytest.mark.parametrize("code", sorted(WORDINGS))
def test_every_problem_has_words_in_both_languages(code: str) -> None:
    english, said = answer(Problem(code)), answer(Problem(code), accept_language="zh-CN")

    assert english[0].headers["content-language"] == "en"
    assert said[0].headers["content-language"] == "zh"
    assert english[1]["title"].isascii()
    assert CHINESE.search(said[1]["title"])
    for response, body in (english, said):
        assert body["type"] == f"urn:redpacket:problem:{code}"
        assert body["code"] == code
        assert body["status"] == response.status == WORDINGS[code].status
        assert response.content_type == "application/problem+json"
        assert response.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("code", sorted(WORDINGS))
def test_retry_after_and_sign_in_are_told_exactly_where_they_help(code: str) -> None:
    response, _ = answer(Problem(code))

    assert ("retry-after" in response.headers) == (WORDINGS[code].status == 503)
    assert ("www-authenticate" in response.headers) == (WORDINGS[code].status == 401)


def test_detail_and_field_are_there_only_where_known() -> None:
    assert not {"detail", "field"} & answer(Problem("bad_request"))[1].keys()

    body = answer(Problem("invalid_field", detail="too long", field="greeting"))[1]
    assert (body["detail"], body["field"]) == ("too long", "greeting")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Problem("no_claim"), "no_claim"),
        (Unauthorized("token_expired"), "token_expired"),
        (Forbidden("admin_only"), "admin_only"),
        (ForgedPacketId(), "packet_unknown"),
        (Overloaded(), "overloaded"),
        (GrabUnavailable(None), "unavailable"),
        (GrabUnavailable(GrabStatus.LOADING), "unavailable"),
        (RedisConnectionError("gone"), "unavailable"),
        (TimeoutError(), "unavailable"),
        (RequestCancelled(), "unavailable"),
        (BadRequest(), "bad_request"),
        (NotFound(), "not_found"),
        (MethodNotAllowed("no", "PUT", ["GET"]), "method_not_allowed"),
        (PayloadTooLarge(), "too_large"),
        (SanicException("odd", status_code=418), "internal"),
        (asyncio.InvalidStateError("odd"), "internal"),
        (KeyError("secret"), "internal"),
    ],
)
def test_every_kind_of_error_becomes_its_problem(error: BaseException, code: str) -> None:
    assert as_problem(error).code == code


def test_nobody_outside_reads_what_went_wrong_inside() -> None:
    for error in (KeyError("secret"), RedisConnectionError("redis://user:secret@host")):
        assert "secret" not in json.dumps(answer(as_problem(error))[1])
