"""The documents in openapi/ as tests use them: the operations they name, and whether an answer is
one they describe."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml
from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped]

from tests.support.functions import Answer
from tests.support.repository import ROOT
from turnstile.api.http.handler import Router

FOLDER = ROOT / "openapi"
METHODS = ("get", "post", "patch", "delete", "put", "head")
FUNCTIONS = ("commit", "plans", "branches", "ingest")
"""Functions that are tags of their operations; all others are of ``catalog``."""


class Operation(msgspec.Struct, frozen=True):
    """One operation: ``function`` serves it; ``responses`` by status, references resolved."""

    id: str
    method: str
    path: str
    function: str
    responses: dict[int, dict[str, Any]]
    body: dict[str, Any] | None


class Document:
    """One OpenAPI document."""

    def __init__(self, file: str) -> None:
        self.file = FOLDER / file
        self._validators: dict[tuple[str, int], Any] = {}
        self._checked: set[tuple[str, int, str]] = set()

    @functools.cached_property
    def raw(self) -> dict[str, Any]:
        """The document as it is written."""
        return dict(yaml.load(self.file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))

    def resolved(self, node: dict[str, Any]) -> dict[str, Any]:
        """``node`` itself, or the target of its reference."""
        while "$ref" in node:
            found: Any = self.raw
            for step in node["$ref"].removeprefix("#/").split("/"):
                found = found[step]
            node = found
        return node

    @functools.cached_property
    def operations(self) -> dict[str, Operation]:
        """All operations by their id."""
        return {one.id: one for one in self._operations()}

    def _operations(self) -> Iterator[Operation]:
        for path, item in self.raw["paths"].items():
            for method in METHODS:
                if method in item:
                    found = item[method]
                    yield Operation(
                        id=found["operationId"],
                        method=method.upper(),
                        path=path,
                        function=next((name for name in FUNCTIONS if name in found["tags"]), "catalog"),
                        responses={int(status): self.resolved(one) for status, one in found["responses"].items()},
                        body=found.get("requestBody"),
                    )

    @functools.cached_property
    def _routes(self) -> tuple[Router, dict[tuple[str, str], Operation]]:
        return Router(self.raw["paths"]), {(one.method, one.path): one for one in self.operations.values()}

    def of(self, method: str, path: str) -> Operation | None:
        """The operation that a request belongs to; None when no path or method fits."""
        router, known = self._routes
        found = router.match(path)
        return known.get((method, found[0])) if found else None

    def _validator(self, id: str, status: int) -> Any:
        """Judges bodies of that answer; references lead into the document."""
        if (id, status) not in self._validators:
            schema = self.operations[id].responses[status]["content"]["application/json"]["schema"]
            whole = {**schema, "components": self.raw["components"]}
            self._validators[id, status] = Draft202012Validator(whole, format_checker=FormatChecker())
        return self._validators[id, status]

    def check(self, operation: Operation, answer: Answer) -> None:
        """Fail unless ``answer`` is one of the operation's documented ones."""
        assert answer.status in operation.responses, f"{operation.id}: {answer.status} is not documented: {answer.text}"
        response = operation.responses[answer.status]
        if "content" not in response:
            assert answer.text == "", f"{operation.id} {answer.status}: a body that is not documented"
            return
        assert answer.headers["content-type"] == "application/json"
        known = (operation.id, answer.status, answer.text)  # tests begin alike
        if known not in self._checked:
            invalid = self._validator(operation.id, answer.status).iter_errors(answer.json)
            errors = [f"{error.json_path}: {error.message}"[:500] for error in invalid]
            assert not errors, f"{operation.id} {answer.status}: {errors} in {answer.text}"
            self._checked.add(known)
        for name in response.get("headers", {}):
            assert name.lower() in answer.headers, f"{operation.id} {answer.status}: no {name}"


V1 = Document("v1.yaml")
UNITY = Document("unity.yaml")

FILE = V1.file
resolved = V1.resolved
check = V1.check


def document() -> dict[str, Any]:
    """Our own API's document."""
    return V1.raw


def operations() -> dict[str, Operation]:
    """Our own API's operations."""
    return V1.operations


REPAIR = {"GET /v1/tables", "GET /v1/tables/{table_id}/repair", "POST /v1/tables/{table_id}/repair"}
