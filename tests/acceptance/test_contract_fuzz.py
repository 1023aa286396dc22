"""The API keeps its OpenAPI contract, whoever asks and whatever is sent."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from sanic import Sanic
from schemathesis import Case, Config, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    missing_required_header,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from app.http.openapi import openapi_document
from app.http.problems import WORDINGS
from tests.deployment import Deployment

EXAMPLES = 8
ANSWER_DEADLINE_S = 10.0
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    missing_required_header,
    unsupported_method,
]
DOCUMENT = openapi_document()
# Who asks is our choice here: a made-up Authorization would only be overwritten.
CONFIG = Config.from_dict({"generation": {"with-security-parameters": False}})
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT, config=CONFIG)
OPERATIONS = {
    operation.definition.raw["operationId"]: operation
    for operation in (result.ok() for result in SCHEMA.get_all_operations())  # type: ignore[union-attr]
}
BOTH_MODES = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]


class Exerciser:
    """Sends requests of one operation as one caller, and holds each answer to the contract."""

    def __init__(
        self, url: str, operation_id: str, headers: dict[str, str], known: dict[str, str]
    ) -> None:
        self.statuses: set[int] = set()
        self._url = url
        self._operation = OPERATIONS[operation_id]
        self._headers = headers
        names = {parameter.name for parameter in self._operation.path_parameters}
        self._path = {name: value for name, value in known.items() if name in names}

    def boundaries(self) -> None:
        """What Schemathesis finds at the edges of each parameter and field, once each."""
        for case in self._cases_at_boundaries():
            data = case.meta.phase.data  # type: ignore[union-attr]
            if getattr(data, "parameter_location", None) is not ParameterLocation.PATH:
                case.path_parameters.update(self._path)
            self._send(case)

    def random(self, mode: GenerationMode, path: dict[str, str] | None) -> None:
        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(self._operation.as_strategy(mode, path_parameters=path))
        def one_request(case: Case[Any]) -> None:
            self._send(case)

        one_request()

    def everything(self) -> None:
        self.boundaries()
        self.random(GenerationMode.POSITIVE, self._path or None)
        # A path that exists lets what else is wrong be seen; one that does not is wrong by itself.
        for path in {id(path): path for path in (self._path or None, None)}.values():
            try:
                self.random(GenerationMode.NEGATIVE, path)
            except Unsatisfiable:  # nothing invalid can be sent here
                continue

    def _cases_at_boundaries(self) -> Iterator[Case[Any]]:
        config = SCHEMA.config.generation_for(operation=self._operation)
        return SCHEMA.iter_coverage_cases(
            self._operation, generation_modes=BOTH_MODES, generation_config=config
        )

    def _send(self, case: Case[Any]) -> None:
        case.headers.update(self._headers)
        response = case.call(base_url=self._url, timeout=ANSWER_DEADLINE_S)
        self.statuses.add(response.status_code)
        case.validate_response(response, checks=CHECKS, headers=self._headers)


@pytest.mark.parametrize("operation_id", list(OPERATIONS))
async def test_every_answer_keeps_the_contract(deployment: Deployment, operation_id: str) -> None:
    packet_id = await deployment.create("sender", total_fen=1000, shares=3)
    await deployment.top_up("ann", 10**11)
    await deployment.grab(packet_id, "ann")
    known = {"packet_id": packet_id, "user_id": "ann"}
    callers = {
        "nobody": {},
        "user": {"authorization": f"Bearer {deployment.token('ann')}"},
        "admin": {"authorization": f"Bearer {deployment.token('root', admin=True)}"},
    }

    statuses: set[int] = set()
    for headers in callers.values():
        exerciser = Exerciser(deployment.url, operation_id, headers, known)
        await asyncio.to_thread(exerciser.everything)
        statuses |= exerciser.statuses

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
    contract = await deployment.ask("GET", "/v1/openapi.json")
    assert contract.body == DOCUMENT
    assert contract.headers["cache-control"] == "public, max-age=300"


def test_contract_is_valid_openapi_and_every_code_has_words_in_both_languages() -> None:
    SCHEMA.validate()
    for code, wording in WORDINGS.items():
        assert 400 <= wording.status < 600, code
        assert wording.english.isascii()
        assert any("\u4e00" <= character <= "\u9fff" for character in wording.chinese)
