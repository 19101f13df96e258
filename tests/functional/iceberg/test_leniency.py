"""Accepted variants of requests: spellings of clients in several languages, and members that other
catalogs leave out (I9)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.iceberg.client import MAIN, SALES, SCHEMA, T1, VIEW, Iceberg, add_snapshot, refused, set_ref
from tests.support.iceberg.readers import check
from turnstile.api.http.request import MAX_BODY as OF_OTHERS
from turnstile.api.iceberg.requests import MAX_BODY

COLUMN = {"id": 1, "name": "id", "type": "long", "required": True, "doc": None}


@pytest.fixture
def client() -> Iceberg:
    made = Iceberg()
    made.create()
    return made


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{SALES}/tables",
         {"name": "t2", "schema": SCHEMA, "properties": None, "stage-create": None, "location": None}),
        (f"{SALES}/tables", {"name": "t2", "schema": SCHEMA, "partition-spec": None, "write-order": None}),
        (f"{SALES}/tables", {"name": "t2", "schema": {**SCHEMA, "schema-id": None, "identifier-field-ids": None}}),
        (f"{SALES}/tables",
         {"name": "t2", "schema": {**SCHEMA, "fields": [{**COLUMN, "initial-default": None, "write-default": None}]}}),
        (f"{SALES}/tables", {"name": "t2", "schema": SCHEMA, "partition-spec": {"spec-id": None, "fields": [
            {"source-id": 1, "field-id": None, "name": "p", "transform": "identity"}]}}),
        (f"{MAIN}/namespaces", {"namespace": ["n2"], "properties": None}),
        (f"{SALES}/properties", {"removals": None, "updates": {"a": "1"}}),
        (f"{SALES}/views", {**VIEW, "properties": None, "location": None}),
        (T1, {"requirements": None, "updates": [{"action": "set-properties", "updates": {"a": "1"}}]}),
        (T1, {"requirements": [], "updates": None}),
        (T1, {"identifier": None, "requirements": [], "updates": [
            {"action": "add-snapshot", "snapshot": {
                "snapshot-id": 1, "parent-snapshot-id": None, "sequence-number": 1, "timestamp-ms": 1,
                "schema-id": None,
                "manifest-list": "file:///lake/a.avro", "summary": {"operation": "append"}, "first-row-id": None,
            }},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1,
             "max-ref-age-ms": None, "min-snapshots-to-keep": None},
        ]}),
    ],
)  # fmt: skip
def test_null_for_what_may_be_left_out_is_left_out(client: Iceberg, path: str, body: Any) -> None:
    done = client.post(path, body)
    assert done.status == 200, done.text
    assert "initial-default" not in done.text


def test_null_where_a_string_belongs_is_wrong_and_not_left_out(client: Iceberg) -> None:
    updates = {"action": "set-properties", "updates": {"a": None}}
    refused(client.commit(updates), 400, "BadRequestException")
    refused(client.post(f"{SALES}/tables", {"name": None, "schema": SCHEMA}), 400, "BadRequestException")


def test_null_or_an_absent_value_requires_that_a_branch_does_not_exist(client: Iceberg) -> None:
    new = {"type": "assert-ref-snapshot-id", "ref": "audit"}
    assert client.commit(add_snapshot(1), set_ref(1, "audit"), require=[new]).status == 200
    refused(client.commit(set_ref(1, "audit", "tag"), require=[new]), 409, "CommitFailedException")


def registered(client: Iceberg, said: dict[str, Any]) -> dict[str, Any]:
    """The table that another catalog's writer left outside the lake, registered here and loaded
    again."""
    file = "s3://elsewhere/old/metadata/v3.metadata.json"
    client.world.storages.files[file] = (json.dumps({**said, "location": "s3://elsewhere/old"}).encode(), 1)
    answer = client.post(f"{SALES}/register", {"name": "old", "metadata-location": file})
    assert answer.status == 200, answer.text
    client.app.use_world(client.world)  # another sandbox reads the file anew
    assert client.load(f"{SALES}/tables/old") == answer.json
    return dict(answer.json["metadata"])


def test_a_file_whose_branches_leave_main_out_has_its_current_snapshot_as_main(client: Iceberg) -> None:
    said = client.commit(add_snapshot(1), set_ref(1), set_ref(1, "first", "tag")).json["metadata"]
    del said["refs"]["main"]
    assert set(registered(client, said)["refs"]) == {"main", "first"}


def test_a_file_of_version_1_without_a_uuid_gets_one_that_stays(client: Iceberg) -> None:
    client.create("t2", properties={"format-version": "1"})
    said = client.load(f"{SALES}/tables/t2")["metadata"]
    del said["table-uuid"]
    found = registered(client, said)
    changed = client.commit({"action": "set-properties", "updates": {"a": "1"}}, path=f"{SALES}/tables/old")
    assert changed.json["metadata"]["table-uuid"] == found["table-uuid"]
    check(changed.json["metadata"])


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("snapshot-log", [{"timestamp-ms": 200_000, "snapshot-id": 1}, {"timestamp-ms": 1, "snapshot-id": 1}]),
        ("metadata-log", [{"timestamp-ms": 2**60, "metadata-file": "s3://x/y"}]),
        ("last-sequence-number", 0),
        ("table-uuid", "t1"),
        ("snapshots", [add_snapshot(1)["snapshot"]] * 2),
        ("schemas", [SCHEMA, SCHEMA]),
        ("encryption-keys", [{"key-id": "k", "encrypted-key-metadata": "?"}]),
        ("partition-specs", [{"spec-id": 0, "fields": [
            {"source-id": 2, "field-id": 1000, "name": "d", "transform": "day"}]}]),
        ("refs", {"main": {"snapshot-id": 1, "type": "branch"},
                  "t": {"snapshot-id": 1, "type": "tag", "min-snapshots-to-keep": 2}}),
        ("schemas", [{**SCHEMA, "fields": [*SCHEMA["fields"], {**COLUMN, "id": 3}]}]),
    ],
)  # fmt: skip
def test_i9_a_file_that_clients_cannot_read_is_not_registered(client: Iceberg, member: str, value: Any) -> None:
    said = client.commit(add_snapshot(1), set_ref(1)).json["metadata"]
    file = "s3://elsewhere/old/metadata/v3.metadata.json"
    raw = json.dumps({**said, "location": "s3://elsewhere/old", member: value}).encode()
    client.world.storages.files[file] = (raw, 1)
    before = client.heads()
    refused(client.post(f"{SALES}/register", {"name": "old", "metadata-location": file}), 400, "BadRequestException")
    assert client.heads() == before


def test_a_body_may_be_as_large_as_what_gets_here_and_not_larger(client: Iceberg) -> None:
    def commit(size: int) -> Any:
        return {"action": "set-properties", "updates": {"n": "x" * size}}

    assert client.commit(commit(OF_OTHERS * 3)).status == 200
    said = refused(client.commit(commit(MAX_BODY)), 400, "BadRequestException")
    assert f"over the limit of {MAX_BODY}" in said and "fewer" in said and "inline" not in said
