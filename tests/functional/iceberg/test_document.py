"""openapi/iceberg.yaml is the function: the same routes, the same methods, and a document that is
one."""

from __future__ import annotations

from openapi_spec_validator import validate

from tests.support.functions import function
from tests.support.iceberg.client import DOCUMENT, SEEN, T1, Iceberg, set_properties
from turnstile.api.iceberg.responses import ENDPOINTS


def test_the_document_is_one() -> None:
    validate(DOCUMENT.raw)


def test_the_description_has_what_the_function_serves_and_what_clients_get() -> None:
    described = {(one.method, one.path) for one in DOCUMENT.operations.values()}
    served = {(method, route) for route, methods in function("iceberg").app.routes.items() for method in methods}
    assert described == served
    told = {
        tuple(one.replace("{plan-id}", "{plan_id}").split(" ")) for one in ENDPOINTS
    }  # as the specification names it
    ours = {(method, path.removeprefix("/iceberg")) for method, path in described if path.startswith("/iceberg/")}
    assert ours == told | {("GET", "/v1/config")}


def test_answers_are_judged_by_it() -> None:
    client = Iceberg()
    SEEN.clear()
    client.create()
    client.commit(set_properties(a="1"))
    client.head(T1)
    assert SEEN == [("icebergCreateTable", 200), ("icebergCommitTable", 200), ("icebergTableExists", 204)]
