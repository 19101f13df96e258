"""openapi/tokens.yaml: valid, complete, and every answer it describes is given and looks so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis.core import NotSet
from schemathesis.generation import GenerationMode

from tests.support.auth.deployment import EXCHANGE, FORM, OPERATOR, TYPE, Deployment, Issuer, basic, issuer
from tests.support.examples import examples
from tests.support.functions import Answer, Http, event, function
from tests.support.openapi import FOLDER, Document
from turnstile.api.http.request import MAX_BODY
from turnstile.api.tokens.clients import NewClient, Rotation
from turnstile.store.core.errors import Throttled
from turnstile.store.core.writes import Write
from turnstile.store.ports import Rejected

TOKENS_YAML = Document("tokens.yaml")
OPERATIONS = TOKENS_YAML.operations
FORMS = ("token", "exchange")
PAIRS = [(one.id, status) for one in OPERATIONS.values() for status in one.responses]


@pytest.fixture(scope="module")
def trusted() -> Iterator[Issuer]:
    with issuer() as running:
        yield running


class Site:
    """A deployment with one client, and the request of each operation that succeeds."""

    def __init__(self, trusted: Issuer) -> None:
        self.trusted = trusted
        self.here = Deployment(trusted.url)
        self.client = self.here.client(roles=["a"])

    def good(self, id: str, bearer: str = OPERATOR, **options: Any) -> Answer:
        one = OPERATIONS[id]
        path = one.path.replace("{client_id}", options.pop("client_id", self.client["client_id"]))
        if id in FORMS:
            shown = basic(self.client["client_id"], self.client["client_secret"])
            form = {"grant_type": "client_credentials"}
            headers = {"Authorization": shown} if id == "token" else {}
            if id == "exchange":
                subject = {"subject_token": self.trusted.token(), "subject_token_type": TYPE + "id_token"}
                form = {"grant_type": EXCHANGE, **subject}
            options.setdefault("body", urlencode(form))
            options["headers"] = {**headers, "Content-Type": FORM, **options.get("headers", {})}
            return self.here.http("tokens").call(one.method, path, **options)
        if one.body and "body" not in options:
            options.setdefault("json_body", {"name": "etl"} if id == "createClient" else {})
        return self.here.http("tokens", bearer).call(one.method, path, **options)

    def broken(self, error: Exception) -> None:
        def fail(*_: Any) -> Any:
            raise error

        for name in ("read", "write", "scan"):
            setattr(self.here.world.refs, name, fail)


def bad(site: Site, id: str) -> Answer:
    if id in FORMS:
        return site.good(id, body="grant_type=x")
    return site.good(id, json_body={"typo": 1}) if OPERATIONS[id].body else site.good(id, query="typo=1")


def unauthenticated(site: Site, id: str) -> Answer:
    return site.good(id, headers={"Authorization": basic("client-1", "x")}) if id in FORMS else site.good(id, "wrong")


def away(site: Site, id: str) -> Answer:
    """The issuer, or for a client's token the table, does not answer."""
    if id == "token":
        site.broken(Throttled(retry_after_ms=100))
        return site.good(id)
    with issuer() as gone:
        gone.down = True
        site.here = Deployment(gone.url)
        site.trusted = gone
        return site.good(id, gone.token())


def throttled(site: Site, id: str) -> Answer:
    site.broken(Throttled(retry_after_ms=100))
    return site.good(id)


def defect(site: Site, id: str) -> Answer:
    site.broken(RuntimeError("a defect"))
    return site.good(id)


def clash(site: Site, id: str) -> Answer:
    def reject(_: Write) -> Rejected:
        return Rejected(None)

    site.here.world.refs.write = reject  # type: ignore[method-assign]
    return site.good(id)


DRIVES: dict[int, Callable[[Site, str], Answer]] = {
    200: Site.good,
    201: Site.good,
    204: Site.good,
    400: bad,
    401: unauthenticated,
    403: lambda site, one: site.good(one, site.trusted.token()),
    404: lambda site, one: site.good(one, client_id="client-nobody"),
    409: clash,
    413: lambda site, one: site.good(one, body=" " * (MAX_BODY + 1)),
    415: lambda site, one: site.good(one, headers={"Content-Type": "text/plain"}),
    429: throttled,
    500: defect,
    503: away,
}


@pytest.mark.parametrize(("id", "status"), PAIRS, ids=[f"{id} {status}" for id, status in PAIRS])
def test_every_documented_answer_is_given_and_looks_as_described(trusted: Issuer, id: str, status: int) -> None:
    answer = DRIVES[status](Site(trusted), id)
    assert answer.status == status, answer.text
    TOKENS_YAML.check(OPERATIONS[id], answer)


def test_the_document_is_valid_and_its_references_lead_somewhere() -> None:
    OpenAPIV31SpecValidator(TOKENS_YAML.raw).validate()
    text = (FOLDER / "tokens.yaml").read_text()
    for reference in re.findall(r'"(#/[^"]+)"', text):
        TOKENS_YAML.resolved({"$ref": reference})
    for kind in ("parameters", "requestBodies", "responses", "schemas"):
        for name in TOKENS_YAML.raw["components"][kind]:
            assert f'"#/components/{kind}/{name}"' in text, f"{kind}/{name}"


def test_the_handler_serves_exactly_what_is_described() -> None:
    described = {(one.method, one.path) for one in OPERATIONS.values()}
    routes = function("tokens").app.routes.items()
    assert described == {(method, path) for path, methods in routes for method in methods}


def test_request_bodies_have_the_members_that_the_handler_reads() -> None:
    for schema, shape in (("NewClient", NewClient), ("Rotation", Rotation)):
        described = TOKENS_YAML.raw["components"]["schemas"][schema]
        assert set(described["properties"]) == set(shape.__struct_encode_fields__)


GENERATED = {
    operation.definition.raw["operationId"]: operation
    for operation in (found.ok() for found in schemathesis.openapi.from_dict(TOKENS_YAML.raw).get_all_operations())
}


def body_of(case: Any) -> str | None:
    if isinstance(case.body, NotSet):
        return None
    if case.media_type == FORM and isinstance(case.body, dict):
        return urlencode(
            {name: value if isinstance(value, str) else json.dumps(value) for name, value in case.body.items()}
        )
    return json.dumps(case.body) if not isinstance(case.body, bytes) else case.body.decode(errors="replace")


@pytest.mark.slow
@pytest.mark.parametrize("id", sorted(GENERATED))
@settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_generated_requests_are_answered_as_described(id: str, data: st.DataObject, trusted: Issuer) -> None:
    site = Site(trusted)
    one = OPERATIONS[id]
    for _ in range(3):
        mode = data.draw(st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE]))
        case = data.draw(GENERATED[id].as_strategy(generation_mode=mode))
        path = (
            case.formatted_path
            if data.draw(st.booleans())
            else one.path.replace("{client_id}", site.client["client_id"])
        )
        query = {
            name: value if isinstance(value, str) else json.dumps(value) for name, value in (case.query or {}).items()
        }
        headers = {"Content-Type": FORM if id in FORMS else "application/json"}
        if id not in FORMS:
            headers["Authorization"] = f"Bearer {OPERATOR}"
        answer = Http(site.here.apps["tokens"].app).send(
            event(one.method, path, query=query, body=body_of(case), headers=headers)
        )
        assert answer.status < 500, (path, query, answer.text)
        if "NoSuchRoute" not in answer.text and TOKENS_YAML.of(one.method, path) is one:
            TOKENS_YAML.check(one, answer)
