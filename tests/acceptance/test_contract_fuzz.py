"""The API keeps its OpenAPI contract, whoever asks and whatever is sent."""

import asyncio
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from sanic import Sanic
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from app.http.openapi import openapi_document
from app.http.problems import WORDINGS
from tests.deployment import Deployment

EXAMPLES = 12
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
DOCUMENT = openapi_document()
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS = {
    operation.definition.raw["operationId"]: operation
    for operation in (result.ok() for result in SCHEMA.get_all_operations())  # type: ignore[union-attr]
}


def exercise(
    url: str, operation_id: str, headers: dict[str, str], known: dict[str, Any]
) -> set[int]:
    """Send valid and invalid requests of one operation, and hold each answer to the contract."""
    statuses: set[int] = set()
    operation = OPERATIONS[operation_id]
    names = {parameter.name for parameter in operation.path_parameters}
    pinned = {name: value for name, value in known.items() if name in names}
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        paths = [pinned] if pinned and mode is GenerationMode.POSITIVE else [None]
        for path_parameters in paths:

            @settings(
                max_examples=EXAMPLES,
                derandomize=True,
                database=None,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            )
            @given(operation.as_strategy(mode, path_parameters=path_parameters))
            def one_request(case: Case[Any]) -> None:
                case.headers.update(headers)
                response = case.call(base_url=url)
                statuses.add(response.status_code)
                case.validate_response(response, checks=CHECKS)

            try:
                one_request()
            except Exception as error:
                if type(error).__name__ != "Unsatisfiable":  # nothing invalid can be sent here
                    raise
    return statuses


@pytest.mark.parametrize("operation_id", list(OPERATIONS))
async def test_every_answer_keeps_the_contract(deployment: Deployment, operation_id: str) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=3)
    await deployment.top_up("ann", 10**11)
    await deployment.grab(packet_id, "ann")
    known = {"packet_id": packet_id, "user_id": "ann"}
    tokens = {
        "nobody": {},
        "user": {"authorization": f"Bearer {deployment.token('ann')}"},
        "admin": {"authorization": f"Bearer {deployment.token('root', admin=True)}"},
    }

    statuses: set[int] = set()
    for headers in tokens.values():
        arguments = (deployment.url, operation_id, headers, known)
        statuses |= await asyncio.to_thread(exercise, *arguments)

    assert statuses & {200, 201}, f"nothing but {statuses}: the fuzz never got through"
    assert (await deployment.ask("GET", "/readyz")).status == 200


async def test_contract_names_exactly_the_routes_there_are(deployment: Deployment) -> None:
    app = Sanic.get_app(f"test-{deployment.settings.key_prefix}")
    routes = {
        (method.lower(), "/" + route.path.replace("<public_id:str>", "{packet_id}"))
        for route in app.router.routes
        for method in route.methods
    }
    routes = {(method, path.replace("<user_id:str>", "{user_id}")) for method, path in routes}
    documented = {(method, path) for path, of in DOCUMENT["paths"].items() for method in of}

    assert routes == documented
    assert (await deployment.ask("GET", "/v1/openapi.json")).body == DOCUMENT


def test_contract_is_valid_openapi_and_every_code_has_words_in_both_languages() -> None:
    SCHEMA.validate()
    for code, wording in WORDINGS.items():
        assert 400 <= wording.status < 600, code
        assert wording.english.isascii()
        assert any("\u4e00" <= character <= "\u9fff" for character in wording.chinese)
