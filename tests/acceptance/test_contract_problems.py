"""What no operation of the contract describes is answered as a problem too."""

import jsonschema_rs
import pytest

from app.http.openapi import openapi_document
from app.http.problems import PROBLEM_TYPE_PREFIX, WORDINGS
from tests.deployment import Deployment

PROBLEM = jsonschema_rs.Draft202012Validator(openapi_document()["components"]["schemas"]["Problem"])


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/", "not_found"),
        ("GET", "/v1/packets/x/y/z", "not_found"),
        ("GET", "/v1/packets/%ff%fe", "packet_unknown"),
        ("GET", "/v1/packets", "method_not_allowed"),
        ("PUT", "/v1/account", "method_not_allowed"),
        ("DELETE", "/healthz", "method_not_allowed"),
        ("PATCH", "/v1/packets/x/grab", "method_not_allowed"),
    ],
)
async def test_what_no_operation_describes_is_a_problem_too(
    deployment: Deployment, method: str, path: str, code: str
) -> None:
    answer = await deployment.ask(method, path, user="ann")

    PROBLEM.validate(answer.body)
    assert (answer.code, answer.status) == (code, WORDINGS[code].status)
    assert answer.body["type"] == PROBLEM_TYPE_PREFIX + code
    assert answer.headers["content-type"] == "application/problem+json"
    assert ("allow" in answer.headers) == (code == "method_not_allowed")
