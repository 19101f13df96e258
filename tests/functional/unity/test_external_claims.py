"""Refused definitions of external tables: a location with two names, numbers beyond 64 bits, marks
of another table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.unity import COLUMNS, SCHEMA, B, Unity, refused, refused_old
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import External, Table
from turnstile.catalog.external import Externals
from turnstile.catalog.services import build
from turnstile.store.core.errors import InvalidRequest

INVALID = "InvalidParameterValueException"
TABLES = f"{SCHEMA}/tables"
E1 = f"{SCHEMA}/tables/e1"
PROTOCOL = {"min-reader-version": 3, "min-writer-version": 7, "reader-features": [], "writer-features": []}


@pytest.fixture
def unity() -> Unity:
    return Unity()


def asked(**more: Any) -> dict[str, Any]:
    """The Delta API's request for an external table."""
    usual = {"name": "e1", "location": "s3://other/e1", "table-type": "EXTERNAL", "columns": COLUMNS,
             "protocol": PROTOCOL, "properties": {}, "last-commit-timestamp-ms": 5}  # fmt: skip
    return {**usual, **more}


def asked_old(**more: Any) -> dict[str, Any]:
    usual = {"name": "e1", "catalog_name": "main", "schema_name": "sales", "table_type": "EXTERNAL",
             "data_source_format": "DELTA", "columns": [], "storage_location": "s3://other/e1"}  # fmt: skip
    return {**usual, **more}


def column(**metadata: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": metadata}]}


# -- places -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place", ["s3://x@other/e1", "s3a://:@other/e1/", "s3://other:443/e1", "s3://OTHER/e1", "s3://other./e1"]
)
def test_i10_another_name_of_a_tables_place_gives_it_no_second_owner(unity: Unity, place: str) -> None:
    unity.external()
    before = unity.rows()
    refused(unity.post(TABLES, asked(name="e2", location=place)), 400, INVALID)
    refused_old(unity.post(f"{B}/tables", asked_old(name="e2", storage_location=place)), 400, "INVALID_ARGUMENT")
    keys = {"url": f"{place}/_delta_log", "operation": "PATH_READ"}
    refused_old(unity.post(f"{B}/temporary-path-credentials", keys), 400, "INVALID_ARGUMENT")
    assert unity.rows() == before


def test_a_place_that_was_stored_under_such_a_name_is_still_read_renamed_and_dropped(unity: Unity) -> None:
    services = build(unity.world, lake_root="file:///lake")
    place = "s3://x@OTHER:443/e1"
    table = Table("e1", "11111111-1111-4111-8111-111111111111", place, 1, managed=False, external=External())
    space = unity.world.space
    unity.world.refs.rows[space.location(place)] = {
        "key": space.location(place), "kind": "location", "table_id": table.table_id, "created": 1, "below": 0,
    }  # fmt: skip
    unity.world.refs.rows[space.external(table.table_id)] = {
        "key": space.external(table.table_id), "kind": "external", "table_id": table.table_id, "location": place,
    }  # fmt: skip
    services.committer.commit("main", lambda _: Edit("stored earlier", put={("sales", "e1"): table}))
    assert unity.get(E1).json["metadata"]["location"] == place
    assert unity.get(f"{B}/tables/main.sales.e1").json["storage_location"] == place
    assert unity.post(f"{E1}/rename", {"new-name": "e9"}).status == 204
    assert unity.call("DELETE", f"{SCHEMA}/tables/e9").status == 204


# -- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2**63, 2**64, 10**30, -(2**63) - 1])
@pytest.mark.parametrize(
    ("member", "more"),
    [
        ("last-commit-timestamp-ms", lambda n: {"last-commit-timestamp-ms": n}),
        ("protocol.min-reader-version", lambda n: {"protocol": {**PROTOCOL, "min-reader-version": n}}),
        ("protocol.min-writer-version", lambda n: {"protocol": {**PROTOCOL, "min-writer-version": n}}),
        ("columns", lambda n: {"columns": column(deep={"er": [n]})}),
        ("domain-metadata", lambda n: {"domain-metadata": {"delta.rowTracking": {"rowIdHighWaterMark": n}}}),
        ("domain-metadata", lambda n: {"domain-metadata": {"mine": {"deep": [{"er": n}]}}}),
    ],
)
def test_i2_a_number_that_no_client_reads_again_is_refused_by_its_member(
    unity: Unity, member: str, more: Any, number: int
) -> None:
    before = unity.rows()
    error = refused(unity.post(TABLES, asked(**more(number))), 400, INVALID)
    assert member in error["message"] and unity.rows() == before


@pytest.mark.parametrize("number", [2**63, 2**64, 10**30])
def test_i2_such_a_number_is_refused_in_an_update_and_by_the_older_api_too(unity: Unity, number: int) -> None:
    unity.external()
    uuid = unity.get(E1).json["metadata"]["table-uuid"]
    before = unity.rows()
    for action in (
        {"action": "set-columns", "columns": column(x=number)},
        {"action": "set-domain-metadata", "updates": {"delta.rowTracking": {"rowIdHighWaterMark": number}}},
        {"action": "set-protocol", "protocol": {**PROTOCOL, "min-writer-version": number}},
        {"action": "update-metadata-snapshot-version", "last-commit-version": number, "last-commit-timestamp-ms": 5},
        {"action": "update-metadata-snapshot-version", "last-commit-version": 5, "last-commit-timestamp-ms": number},
    ):
        refused(unity.update(action, uuid=uuid, path=E1), 400, INVALID)
    told = {"name": "id", "type_json": json.dumps(column(x=number)["fields"][0])}
    old = asked_old(name="e2", storage_location="s3://other/e2", columns=[told])
    refused_old(unity.post(f"{B}/tables", old), 400, "INVALID_ARGUMENT")
    assert unity.rows() == before


def test_the_largest_numbers_that_clients_read_are_stored_as_they_are(unity: Unity) -> None:
    domains = {"delta.rowTracking": {"rowIdHighWaterMark": 2**63 - 1}}
    made = unity.post(TABLES, asked(columns=column(x=-(2**63)), **{"domain-metadata": domains}))
    assert made.status == 200, made.text
    found = unity.get(E1).json["metadata"]
    assert found["columns"]["fields"][0]["metadata"] == {"x": -(2**63)}
    assert found["properties"]["delta.rowTracking.rowIdHighWaterMark"] == str(2**63 - 1)


def test_the_store_of_external_tables_refuses_what_it_cannot_hold_for_every_caller(unity: Unity) -> None:
    externals: Externals = build(unity.world, lake_root="file:///lake").externals
    with pytest.raises(InvalidRequest, match="64 bits"):
        externals.register("main", ("sales",), "e1", location="s3://other/e1", format="delta",
                           about=External(timestamp=2**64))  # fmt: skip


# -- marks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview"])
def test_i10_an_external_table_cannot_pass_for_one_whose_commits_go_through_the_catalog(
    unity: Unity, feature: str
) -> None:
    mark = {f"delta.feature.{feature}": "supported"}
    protocol = {**PROTOCOL, "writer-features": [feature]}
    before = unity.rows()
    refused(unity.post(TABLES, asked(properties=mark)), 400, INVALID)
    refused(unity.post(TABLES, asked(protocol=protocol)), 400, INVALID)
    refused_old(unity.post(f"{B}/tables", asked_old(properties=mark)), 400, "INVALID_ARGUMENT")
    assert unity.rows() == before
    unity.external()
    uuid = unity.get(E1).json["metadata"]["table-uuid"]
    before = unity.rows()
    for action in ({"action": "set-properties", "updates": mark}, {"action": "set-protocol", "protocol": protocol}):
        refused(unity.update(action, uuid=uuid, path=E1), 400, INVALID)
    assert unity.rows() == before


def test_i10_an_external_table_does_not_carry_another_tables_uuid(unity: Unity) -> None:
    """The log of a table that was copied, or left a catalog, still names the uuid that it had
    there."""
    other = {"io.unitycatalog.tableId": str(unity.create()["metadata"]["table-uuid"]), "a": "b"}
    assert unity.external(properties=other)["properties"] == {"a": "b"}
    made = unity.post(TABLES, asked(name="e2", location="s3://other/e2", properties=other))
    assert "io.unitycatalog.tableId" not in made.json["metadata"]["properties"]
    uuid = unity.get(E1).json["metadata"]["table-uuid"]
    changed = unity.update({"action": "set-properties", "updates": {**other, "a": "c"}}, uuid=uuid, path=E1)
    assert changed.json["metadata"]["properties"] == {"a": "c"}
