"""openapi/unity.yaml is valid, names what the handlers serve, and its answers are those that they give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.functional.http import function
from tests.functional.unity_kit import SCHEMA, T1, V1, B, Unity
from turnstile_unity.errors import PREFIX

DOCUMENT = dict(yaml.safe_load((Path(__file__).parents[2] / "openapi" / "unity.yaml").read_text()))
TABLE = V1 + "/catalogs/{catalog}/schemas/{schema}/tables/{table}"


def test_the_document_is_valid() -> None:
    OpenAPIV31SpecValidator(DOCUMENT).validate()


@pytest.mark.parametrize("name", ["commit", "catalog"])
def test_the_handlers_serve_exactly_what_is_described(name: str) -> None:
    routes = function(name).api.routes.items()
    served = {(method, path) for path, methods in routes for method in methods if path.startswith(PREFIX)}
    described = {
        (method.upper(), path)
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
        if method != "parameters" and operation["tags"] == [name]
    }
    assert served == described


def check(template: str, method: str, answer: Any) -> None:
    responses = DOCUMENT["paths"][template][method.lower()]["responses"]
    assert str(answer.status) in responses, (template, answer.status, answer.text)
    found = responses[str(answer.status)]
    if "$ref" in found:
        found = DOCUMENT["components"]["responses"][found["$ref"].rsplit("/", 1)[1]]
    if "content" not in found:
        assert answer.text == ""
        return
    schema = {**found["content"]["application/json"]["schema"], "components": DOCUMENT["components"]}
    errors = [error.message for error in Draft202012Validator(schema).iter_errors(answer.json)]
    assert not errors, (template, errors)


def test_answers_are_as_described() -> None:
    unity = Unity()
    made, external = unity.create(), unity.external()
    unity.update(unity.commit(1))
    asked: list[tuple[str, str, str, Any, dict[str, Any]]] = [
        ("GET", V1 + "/config", f"{V1}/config", None, {"catalog": "main", "protocol-versions": "1.0"}),
        ("GET", V1 + "/config", f"{V1}/config", None, {}),
        ("GET", TABLE, T1, None, {}),
        ("GET", TABLE, f"{SCHEMA}/tables/e1", None, {}),
        ("GET", TABLE, f"{SCHEMA}/tables/x", None, {}),
        ("HEAD", TABLE, T1, None, {}),
        ("HEAD", TABLE, f"{SCHEMA}/tables/x", None, {}),
        ("POST", TABLE, T1, {}, {}),
        ("POST", V1 + "/catalogs/{catalog}/schemas/{schema}/staging-tables", f"{SCHEMA}/staging-tables", {"name": "n"}, {}),
        ("GET", TABLE + "/credentials", f"{T1}/credentials", None, {"operation": "READ"}),
        ("POST", TABLE + "/metrics", f"{T1}/metrics", {"table-id": made["metadata"]["table-uuid"], "report": {}}, {}),
        ("POST", TABLE + "/rename", f"{T1}/rename", {"new-name": "t1"}, {}),
        ("GET", B + "/catalogs", f"{B}/catalogs", None, {}),
        ("GET", B + "/catalogs/{name}", f"{B}/catalogs/main", None, {}),
        ("PATCH", B + "/catalogs/{name}", f"{B}/catalogs/main", {"new_name": "x"}, {}),
        ("GET", B + "/schemas", f"{B}/schemas", None, {"catalog_name": "main"}),
        ("POST", B + "/schemas", f"{B}/schemas", {"name": "sales", "catalog_name": "main"}, {}),
        ("GET", B + "/schemas/{full_name}", f"{B}/schemas/main.sales", None, {}),
        ("GET", B + "/tables", f"{B}/tables", None, {"catalog_name": "main", "schema_name": "sales"}),
        ("GET", B + "/tables/{full_name}", f"{B}/tables/main.sales.t1", None, {}),
        ("POST", B + "/temporary-table-credentials", f"{B}/temporary-table-credentials",
         {"table_id": external["table_id"], "operation": "READ"}, {}),
        ("GET", B + "/delta/preview/commits", f"{B}/delta/preview/commits",
         {"table_id": made["metadata"]["table-uuid"], "start_version": 0}, {}),
        ("GET", B + "/metastore_summary", f"{B}/metastore_summary", None, {}),
        ("DELETE", B + "/schemas/{full_name}", f"{B}/schemas/main.sales", None, {}),
        ("DELETE", TABLE, T1, None, {}),
        ("DELETE", TABLE, T1, None, {}),
    ]  # fmt: skip
    for method, template, path, body, query in asked:
        check(template, method, unity.call(method, path, body, query=query))
