"""openapi/unity.yaml is valid, and names what the handlers, their request bodies and their errors
name."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.support.conformance.cases import documented
from tests.support.functions import function
from tests.support.openapi import UNITY
from turnstile.api.unity import older_api as legacy
from turnstile.api.unity import permissions, preview_commits, requests
from turnstile.api.unity import responses as config
from turnstile.api.unity.errors import KINDS, PREFIX

NOT_OF_AN_OPERATION = {"NoSuchRoute", "MethodNotAllowed"}


def test_the_document_is_valid_openapi_3_1() -> None:
    OpenAPIV31SpecValidator(UNITY.raw).validate()


def test_every_reference_leads_somewhere_and_every_description_is_referred_to() -> None:
    used = set(re.findall(r'\$ref: "(#/[^"]*)"', UNITY.file.read_text()))
    for one in used:
        UNITY.resolved({"$ref": one})
    for kind in ("parameters", "responses", "schemas"):
        assert {f"#/components/{kind}/{name}" for name in UNITY.raw["components"][kind]} <= used


@pytest.mark.parametrize("name", ["commit", "catalog"])
def test_the_handlers_serve_exactly_what_is_described(name: str) -> None:
    routes = function(name).app.routes.items()
    served = {(method, path) for path, methods in routes for method in methods if path.startswith(PREFIX)}
    assert served == {(one.method, one.path) for one in UNITY.operations.values() if one.function == name}


def test_path_parameters_are_described_where_they_are_used() -> None:
    for path, item in UNITY.raw["paths"].items():
        described = {UNITY.resolved(one)["name"] for one in item.get("parameters", [])}
        assert described == set(re.findall(r"{(\w+)}", path)), path


def test_what_config_advertises_is_what_is_described_of_the_delta_api() -> None:
    described = {
        f"{one.method} {one.path.removeprefix(PREFIX + '/delta')}"
        for one in UNITY.operations.values()
        if one.path.startswith(PREFIX + "/delta/v1/") and one.id != "getConfig"
    }
    assert set(config.ENDPOINTS) == described


# -- bodies -----------------------------------------------------------------------------------------------------------


def shapes() -> dict[str, type[msgspec.Struct]]:
    """Schemas of requests, and the Structs that read them."""
    return {
        "CreateStagingTableRequest": requests.StageTable,
        "CreateTableRequest": requests.CreateTable,
        "RenameTableRequest": requests.Rename,
        "ReportMetricsRequest": requests.Metrics,
        "UpdateTableRequest": requests.Update,
        "Protocol": requests.Protocol,
        "Iceberg": requests.Iceberg,
        "Commit": requests.Commit,
        "AssertTableUuid": requests.AssertUuid,
        "AssertEtag": requests.AssertEtag,
        "AddCommit": requests.AddCommit,
        "SetLatestBackfilledVersion": requests.SetPublished,
        "SetProperties": requests.SetProperties,
        "RemoveProperties": requests.RemoveProperties,
        "SetColumns": requests.SetColumns,
        "SetPartitionColumns": requests.SetPartitions,
        "SetTableComment": requests.SetComment,
        "SetProtocol": requests.SetProtocol,
        "SetDomainMetadata": requests.SetDomains,
        "RemoveDomainMetadata": requests.RemoveDomains,
        "UpdateMetadataSnapshotVersion": requests.SetSnapshotVersion,
        "CommitInfo": preview_commits.CommitInfo,
        "GetCommits": preview_commits.ListBody,
        "PreviewCommit": preview_commits.CommitBody,
        "OldIceberg": preview_commits.Iceberg,
        "UpdatePermissions": permissions.Changes,
        "CreateCatalog": legacy.NewCatalog,
        "UpdateSecurable": legacy.Changed,
        "CreateSchema": legacy.NewSchema,
        "CreateUnityTable": legacy.NewTable,
        "CreateUnityStagingTable": legacy.NewStagingTable,
        "TableCredentialsRequest": legacy.TableCredentialsRequest,
        "PathCredentialsRequest": legacy.PathCredentialsRequest,
    }


@pytest.mark.parametrize("name", sorted(shapes()))
def test_request_bodies_have_the_members_that_the_handlers_read(name: str) -> None:
    schema = UNITY.raw["components"]["schemas"][name]
    shape = shapes()[name]
    tag = shape.__struct_config__.tag_field
    fields = [tag, *shape.__struct_encode_fields__] if tag else list(shape.__struct_encode_fields__)
    required = fields[: len(fields) - len(shape.__struct_defaults__)]
    assert set(schema["properties"]) == set(fields)
    assert set(schema.get("required", [])) == set(required)


def test_every_body_is_described() -> None:
    for one in UNITY.operations.values():
        if one.body is not None:
            assert one.body["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1] in shapes(), one.id


def test_all_eleven_actions_and_both_requirements_are_described() -> None:
    named = {
        name: {
            UNITY.resolved(one)["properties"][tag]["const"] for one in UNITY.raw["components"]["schemas"][name]["oneOf"]
        }
        for name, tag in (("Requirement", "type"), ("Update", "action"))
    }
    assert named["Requirement"] == {"assert-table-uuid", "assert-etag"}
    assert len(named["Update"]) == 11


# -- errors -----------------------------------------------------------------------------------------------------------


def test_every_type_of_error_has_a_status_that_is_described() -> None:
    statuses = {status for _, status in documented()}
    text = UNITY.file.read_text()
    for name, kind in KINDS.items():
        if name not in NOT_OF_AN_OPERATION:
            assert {kind.status, kind.old_status} <= statuses, name
            assert name == "NotImplemented" or re.search(rf"\b{kind.type}\b", text), kind.type
            assert name == "AlreadyExists" or re.search(rf"\b{kind.code}\b", text), kind.code


def error_schemas() -> list[dict[str, Any]]:
    return [schema for name, schema in UNITY.raw["components"]["schemas"].items() if name.endswith("Error")]


def test_errors_have_no_other_members_than_the_references() -> None:
    for schema in error_schemas():
        assert schema["additionalProperties"] is False
        if "error" in schema["properties"]:
            inner = schema["properties"]["error"]
            assert inner["additionalProperties"] is False and set(inner["properties"]) == {"message", "type", "code"}
        else:
            assert set(schema["properties"]) == {"error_code", "message", "details"}
