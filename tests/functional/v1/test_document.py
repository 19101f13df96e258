"""openapi/v1.yaml is valid, and names what the handlers, their request bodies and docs/api.md
name."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.support.functions import function
from tests.support.openapi import FILE, document, operations, resolved
from turnstile.api.http.responses import STATUS
from turnstile.api.v1 import (
    branches,
    commits,
    history,
    maintenance,
    namespaces,
    operators,
    permissions,
    pins,
    planning,
    policies,
    references,
    tables,
)
from turnstile.api.v1.transactions import catalogs as catalog_transactions
from turnstile.api.v1.transactions import journal, reservations, snapshots
from turnstile.api.v1.transactions import tables as transactions
from turnstile.branches.records import BranchFindings

API = (FILE.parents[1] / "docs" / "api.md").read_text()


def routes_of(name: str) -> set[str]:
    """Routes of our own API; the others' are in a document of theirs."""
    routes = function(name).app.routes.items()
    return {f"{method} {path}" for path, methods in routes for method in methods if path.startswith("/v1")}


def test_the_document_is_valid_openapi_3_1() -> None:
    OpenAPIV31SpecValidator(document()).validate()


def test_every_reference_leads_somewhere() -> None:
    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if "$ref" in node:
                resolved(node)
            for child in node.values():
                walk(child)
        elif isinstance(node, list):
            for child in node:
                walk(child)

    walk(document())


def test_every_description_is_referred_to() -> None:
    text = FILE.read_text()
    for kind in ("parameters", "responses", "schemas"):
        for name in document()["components"][kind]:
            assert f'"#/components/{kind}/{name}"' in text, f"{kind}/{name}"


@pytest.mark.parametrize("name", ["commit", "catalog", "plans", "branches", "ingest"])
def test_the_handlers_serve_exactly_what_is_described(name: str) -> None:
    described = {f"{one.method} {one.path}" for one in operations().values() if one.function == name}
    assert described == routes_of(name)


def test_path_parameters_are_described_where_they_are_used() -> None:
    for path, item in document()["paths"].items():
        described = {resolved(one)["name"] for one in item.get("parameters", [])}
        assert described == set(re.findall(r"{(\w+)}", path)), path


BODIES: dict[str, type[msgspec.Struct]] = {
    "commit": commits.CommitBody,
    "transact": transactions.TransactionBody,
    "announceTransaction": journal.AnnouncementBody,
    "transactCatalog": catalog_transactions.CatalogTransactionBody,
    "announceCatalogTransaction": catalog_transactions.CatalogAnnouncementBody,
    "reserveTables": reservations.ReservationBody,
    "takeCut": snapshots.SnapshotBody,
    "createCatalog": namespaces.NewCatalog,
    "createNamespace": namespaces.NewNamespace,
    "updateNamespace": namespaces.NamespaceUpdate,
    "stageTable": tables.NewStagingTable,
    "registerTable": tables.NewTable,
    "renameNamespace": namespaces.NamespaceMove,
    "renameTable": tables.NewName,
    "undropTable": tables.Undrop,
    "importTable": tables.Import,
    "exportTable": tables.DryRun,
    "changeRights": permissions.RightsChange,
    "createSnapshot": history.NewSnapshot,
    "createBranch": branches.NewBranch,
    "renewBranch": branches.Renewal,
    "recordBranchChecks": BranchFindings,
    "promoteBranch": branches.Promotion,
    "resetCatalog": history.Reset,
    "clone": history.Clone,
    "createRef": references.NewRef,
    "swapRef": references.RefSwap,
    "collect": operators.Collect,
    "repair": operators.RepairRequest,
    "holdVersions": pins.HoldBody,
    "announceVacuum": pins.VacuumBody,
    "changeCatalogPolicy": policies.PolicyChange,
    "changeNamespacePolicy": policies.PolicyChange,
    "changeTablePolicy": policies.PolicyChange,
    "planScan": planning.PlanRequest,
    "judgeReads": planning.JudgeRequest,
    "beginRun": maintenance.Begin,
    "updateRun": maintenance.RunUpdate,
}
"""Operations with the Struct that reads their body."""

ROWS = {"appendRows", "appendRowsByName"}
"""Operations whose body has rows in the columns of a table."""


def test_request_bodies_have_the_members_that_the_handlers_read() -> None:
    with_body = {one.id for one in operations().values() if one.body}
    assert BODIES.keys() | ROWS == with_body
    for operation, shape in BODIES.items():
        schema = resolved(operations()[operation].body["content"]["application/json"]["schema"])  # type: ignore[index]
        fields = shape.__struct_encode_fields__
        required = fields[: len(fields) - len(shape.__struct_defaults__)]
        assert set(schema["properties"]) == set(fields), operation
        assert set(schema.get("required", [])) == set(required), operation
        assert schema["additionalProperties"] is False


def test_every_type_of_error_is_named_in_the_words_and_in_the_schemas() -> None:
    text = FILE.read_text()
    for type in STATUS:
        assert f"`{type}`" in API, f"{type} is missing in docs/api.md"
        if type not in ("PermissionDenied", "MethodNotAllowed"):  # not an operation's own answers (yet)
            assert re.search(rf"\b{type}\b", text), f"{type} is missing in openapi/v1.yaml"


def test_the_words_give_every_error_the_status_it_has() -> None:
    table = {}
    for codes, types in re.findall(r"^\| ([\d, ]+) \| (.*) \|$", API, re.MULTILINE):
        for at, type in enumerate(re.findall(r"`([A-Z]\w+)`", types)):
            statuses = [int(code) for code in codes.split(",")]
            table[type] = statuses[min(at, len(statuses) - 1)]
    assert {type: table.get(type) for type in STATUS} == STATUS


def test_the_words_name_every_operation() -> None:
    names = {"{catalog}": "{c}", "{namespace}": "{ns}", "{table}": "{t}"}
    for one in operations().values():
        path = one.path
        for long, short in names.items():
            path = path.replace(long, short)
        tail = path.replace("/v1/catalogs/{c}/namespaces/{ns}", "…/{ns}")
        assert any(f"`{one.method} {form}" in API for form in (one.path, path, tail)), one
