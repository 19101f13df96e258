"""openapi/v1.yaml as tests use it: the operations it names, and whether an answer is one that it describes."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml
from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped]

from tests.functional.http import Answer

FILE = Path(__file__).parents[2] / "openapi" / "v1.yaml"
METHODS = ("get", "post", "patch", "delete", "put", "head")


class Operation(msgspec.Struct, frozen=True):
    """One operation: ``function`` serves it; ``responses`` by status, references resolved."""

    id: str
    method: str
    path: str
    function: str
    responses: dict[int, dict[str, Any]]
    body: dict[str, Any] | None


@functools.cache
def document() -> dict[str, Any]:
    return dict(yaml.safe_load(FILE.read_text()))


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    """``node`` itself, or what its reference leads to."""
    while "$ref" in node:
        found: Any = document()
        for step in node["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        node = found
    return node


@functools.cache
def operations() -> dict[str, Operation]:
    return {one.id: one for one in _operations()}


def _operations() -> Iterator[Operation]:
    for path, item in document()["paths"].items():
        for method in METHODS:
            if method in item:
                found = item[method]
                yield Operation(
                    id=found["operationId"],
                    method=method.upper(),
                    path=path,
                    function="commit" if "commit" in found["tags"] else "catalog",
                    responses={int(status): resolved(response) for status, response in found["responses"].items()},
                    body=found.get("requestBody"),
                )


@functools.cache
def _validator(id: str, status: int) -> Any:
    """Judges bodies of that answer; references lead into the document."""
    schema = operations()[id].responses[status]["content"]["application/json"]["schema"]
    return Draft202012Validator({**schema, "components": document()["components"]}, format_checker=FormatChecker())


def check(operation: Operation, answer: Answer) -> None:
    """Fail unless ``answer`` is one of the operation's documented ones."""
    assert answer.status in operation.responses, f"{operation.id}: {answer.status} is not documented: {answer.text}"
    response = operation.responses[answer.status]
    if "content" not in response:
        assert answer.text == "", f"{operation.id} {answer.status}: a body that is not documented"
        return
    assert answer.headers["content-type"] == "application/json"
    found = _validator(operation.id, answer.status).iter_errors(answer.json)
    errors = [f"{error.json_path}: {error.message}"[:500] for error in found]
    assert not errors, f"{operation.id} {answer.status}: {errors} in {answer.text}"
    for name in response.get("headers", {}):
        assert name.lower() in answer.headers, f"{operation.id} {answer.status}: no {name}"
