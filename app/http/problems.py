"""Errors as RFC 9457 problems: a stable code, a status, and words in English and Chinese."""

import json
from typing import Any, Final, NamedTuple

from sanic import HTTPResponse, Request

PROBLEM_TYPE_PREFIX: Final = "urn:redpacket:problem:"


class Wording(NamedTuple):
    status: int
    english: str
    chinese: str


WORDINGS: Final[dict[str, Wording]] = {
    "bad_request": Wording(400, "The request is malformed", "请求格式有误"),
    "invalid_field": Wording(422, "A field is not acceptable", "字段不符合要求"),
    "impossible_terms": Wording(422, "This packet cannot be split", "红包金额与个数无法拆分"),
    "impossible_schedule": Wording(422, "This packet cannot be scheduled so", "红包时间设置不可用"),
    "insufficient_funds": Wording(409, "The balance is too low", "余额不足"),
    "idempotency_key_missing": Wording(
        400, "An Idempotency-Key header is required", "缺少 Idempotency-Key 请求头"
    ),
    "idempotency_key_reused": Wording(
        422, "This Idempotency-Key was used for another request", "该幂等键已用于另一请求"
    ),
    "credentials_missing": Wording(401, "Please sign in", "请先登录"),
    "credentials_unsupported": Wording(
        401, "This kind of credentials is not taken", "不支持的凭证类型"
    ),
    "token_invalid": Wording(401, "The token is not valid", "登录凭证无效"),
    "token_expired": Wording(401, "The token has expired", "登录凭证已过期"),
    "ticket_invalid": Wording(401, "The ticket is not valid for this packet", "入场券对该红包无效"),
    "ticket_expired": Wording(401, "The ticket has expired", "入场券已过期"),
    "admin_only": Wording(403, "Only administrators may do this", "仅管理员可操作"),
    "packet_unknown": Wording(404, "There is no such packet", "红包不存在"),
    "no_claim": Wording(404, "This user has no share of the packet", "该用户未抢到此红包"),
    "not_found": Wording(404, "There is nothing here", "页面不存在"),
    "method_not_allowed": Wording(405, "This method is not allowed here", "不支持的请求方法"),
    "too_large": Wording(413, "The request is too large", "请求内容过大"),
    "unsupported_media_type": Wording(415, "The body must be JSON", "请求内容须为 JSON"),
    "overloaded": Wording(503, "Too many people at once, please try again", "人太多了，请稍后再试"),
    "switched_off": Wording(503, "This is switched off for a while", "该功能暂时关闭，请稍后再试"),
    "unavailable": Wording(
        503,
        "No answer yet; try again, a share that is yours stays yours",
        "暂无结果，请重试；抢到的红包不会丢失",
    ),
    "internal": Wording(500, "Something went wrong on our side", "服务器内部错误"),
}
RETRY_AFTER_S: Final = 1


class Problem(Exception):
    """An error answer. `field` names the part of the request that is at fault."""

    def __init__(self, code: str, detail: str | None = None, field: str | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail
        self.field = field


def problem_response(request: Request, problem: Problem) -> HTTPResponse:
    wording = WORDINGS[problem.code]
    chinese = prefers_chinese(request.headers.get("accept-language", ""))
    body: dict[str, Any] = {
        "type": f"{PROBLEM_TYPE_PREFIX}{problem.code}",
        "title": wording.chinese if chinese else wording.english,
        "status": wording.status,
        "code": problem.code,
    }
    if problem.detail is not None:
        body["detail"] = problem.detail
    if problem.field is not None:
        body["field"] = problem.field
    headers = {"content-language": "zh" if chinese else "en", "cache-control": "no-store"}
    if wording.status == 503:
        headers["retry-after"] = str(RETRY_AFTER_S)
    if wording.status == 401:
        headers["www-authenticate"] = "Bearer"
    return HTTPResponse(
        json.dumps(body, ensure_ascii=False),
        status=wording.status,
        headers=headers,
        content_type="application/problem+json",
    )


def prefers_chinese(accept_language: str) -> bool:
    """Whether Chinese comes before English in an Accept-Language header (RFC 9110, 12.5.4)."""
    best = {"zh": 0.0, "en": 0.0}
    for part in accept_language.lower().split(","):
        tag, _, weight = "".join(part.split()).partition(";q=")  # blanks may stand around ";"
        language = tag.partition("-")[0]
        if language in best:
            try:
                best[language] = max(best[language], float(weight or 1))
            except ValueError:
                continue
    return best["zh"] > best["en"]
