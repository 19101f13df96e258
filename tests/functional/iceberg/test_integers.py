"""Numbers that no ``int`` or ``long`` of Iceberg holds, or that measure less than nothing: refused
with their place, in requests and in files, before a metadata file has them that no client reads
(I9)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.iceberg.client import (
    SALES,
    SCHEMA,
    VIEW,
    Iceberg,
    add_snapshot,
    refused,
    set_properties,
    set_ref,
    snapshot,
)

HUGE = 10**30
V1 = f"{SALES}/views/v1"
STATISTICS = {"statistics-path": "s", "file-footer-size-in-bytes": 1, "blob-metadata": []}


@pytest.fixture
def client() -> Iceberg:
    made = Iceberg()
    made.create()
    assert made.post(f"{SALES}/views", VIEW).status == 200
    return made


def schema(**first: Any) -> dict[str, Any]:
    return {**SCHEMA, "fields": [{**SCHEMA["fields"][0], **first}]}


@pytest.mark.parametrize(
    ("update", "path"),
    [
        (add_snapshot(HUGE), "snapshot.snapshot-id"),
        (add_snapshot(-(2**63) - 1), "snapshot.snapshot-id"),
        (add_snapshot(-1), "snapshot"),
        (add_snapshot(1, sequence=HUGE), "snapshot.sequence-number"),
        (add_snapshot(1, sequence=2**63), "snapshot.sequence-number"),
        (add_snapshot(1, sequence=-5), "snapshot.sequence-number"),
        (add_snapshot(1, parent=1), "snapshot"),
        (add_snapshot(1, parent=HUGE), "snapshot.parent-snapshot-id"),
        (add_snapshot(1, **{"timestamp-ms": -1}), "snapshot.timestamp-ms"),
        (add_snapshot(1, **{"timestamp-ms": HUGE}), "snapshot.timestamp-ms"),
        (add_snapshot(1, **{"schema-id": 2**31}), "snapshot.schema-id"),
        (add_snapshot(1, **{"first-row-id": -1}), "snapshot.first-row-id"),
        (add_snapshot(1, **{"added-rows": 2**63}), "snapshot.added-rows"),
        (set_ref(HUGE), "snapshot-id"),
        (set_ref(1, **{"max-ref-age-ms": HUGE}), "max-ref-age-ms"),
        (set_ref(1, **{"max-ref-age-ms": 0}), "max-ref-age-ms"),
        (set_ref(1, **{"max-snapshot-age-ms": -1}), "max-snapshot-age-ms"),
        (set_ref(1, **{"min-snapshots-to-keep": -3}), "min-snapshots-to-keep"),
        (set_ref(1, **{"min-snapshots-to-keep": 2**31}), "min-snapshots-to-keep"),
        ({"action": "add-schema", "schema": schema(id=2**31)}, "schema.fields[0].id"),
        ({"action": "add-schema", "schema": {**SCHEMA, "identifier-field-ids": [HUGE]}},
         "schema.identifier-field-ids[0]"),
        ({"action": "add-schema", "schema": SCHEMA, "last-column-id": HUGE}, "last-column-id"),
        ({"action": "set-current-schema", "schema-id": HUGE}, "schema-id"),
        ({"action": "set-default-spec", "spec-id": -HUGE}, "spec-id"),
        ({"action": "set-default-sort-order", "sort-order-id": HUGE}, "sort-order-id"),
        ({"action": "add-spec", "spec": {"fields": [{"source-id": 2**31, "transform": "void", "name": "x"}]}},
         "spec.fields[0].source-id"),
        ({"action": "add-spec",
          "spec": {"fields": [{"source-id": 1, "field-id": 2**31, "transform": "void", "name": "x"}]}},
          "spec.fields[0].field-id"),
        ({"action": "remove-snapshots", "snapshot-ids": [1, HUGE]}, "snapshot-ids[1]"),
        ({"action": "remove-schemas", "schema-ids": [2**31]}, "schema-ids[0]"),
        ({"action": "upgrade-format-version", "format-version": HUGE}, "format-version"),
        ({"action": "set-statistics", "statistics": {**STATISTICS, "snapshot-id": 1, "file-size-in-bytes": -1}},
         "statistics.file-size-in-bytes"),
    ],
)  # fmt: skip
def test_i9_a_number_that_iceberg_does_not_have_is_refused_by_its_path(client: Iceberg, update: Any, path: str) -> None:
    before = client.heads()
    files = client.files()
    said = refused(client.commit(set_properties(a="1"), update), 400, "BadRequestException")
    assert said.startswith(f"updates[1].{path}: "), said
    assert (client.heads(), client.files()) == (before, files)


@pytest.mark.parametrize(
    ("member", "value"),
    [("version-id", HUGE), ("version-id", 2**31), ("schema-id", HUGE), ("timestamp-ms", -1), ("timestamp-ms", HUGE)],
)
def test_i9_so_it_is_in_a_version_of_a_view(client: Iceberg, member: str, value: int) -> None:
    version = {**VIEW["view-version"], member: value}
    update = {"action": "add-view-version", "view-version": version}
    said = refused(client.post(V1, {"requirements": [], "updates": [update]}), 400, "BadRequestException")
    assert said.startswith(f"updates[0].view-version.{member}: ")
    made = client.post(f"{SALES}/views", {**VIEW, "name": "v2", "view-version": version})
    assert refused(made, 400, "BadRequestException").startswith(f"view-version.{member}: ")


def test_i9_so_it_is_in_the_schema_of_a_new_table(client: Iceberg) -> None:
    said = refused(
        client.post(f"{SALES}/tables", {"name": "t2", "schema": schema(id=HUGE)}), 400, "BadRequestException"
    )
    assert said.startswith("schema.fields[0].id: ")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"last-sequence-number": HUGE}, "$.last-sequence-number"),
        ({"last-updated-ms": -1}, "$.last-updated-ms"),
        ({"last-column-id": 2**31}, "$.last-column-id"),
        ({"snapshots": [snapshot(5, sequence=-1)]}, "$.snapshots[0].sequence-number"),
        ({"snapshots": [snapshot(5, parent=5)]}, "$.snapshots[0]"),
        ({"refs": {"x": {"snapshot-id": 5, "type": "tag", "min-snapshots-to-keep": 0}}}, "min-snapshots-to-keep"),
    ],
)
def test_i9_a_file_with_such_a_number_is_not_registered(client: Iceberg, changes: Any, says: str) -> None:
    files = client.world.storages.files
    path = client.load()["metadata-location"]
    raw, modified = files[path]
    other = path.replace("00000-", "00009-")
    files[other] = (json.dumps({**json.loads(raw), **changes}).encode(), modified)
    body = {"name": "t2", "metadata-location": other}
    message = refused(client.post(f"{SALES}/register", body), 400, "BadRequestException")
    assert message.startswith("not table metadata: ") and says in message, message


def test_i9_the_largest_numbers_that_iceberg_has_are_taken_and_read_again(client: Iceberg) -> None:
    largest = {"max-ref-age-ms": 2**63 - 1, "max-snapshot-age-ms": 1, "min-snapshots-to-keep": 2**31 - 1}
    added = add_snapshot(2**63 - 1, sequence=2**63 - 1, **{"timestamp-ms": 0})
    answer = client.commit(added, set_ref(2**63 - 1, **largest))
    assert answer.status == 200, answer.text
    beside = Iceberg(beside=client)  # reads the file: the first sandbox has it in its memory
    assert beside.load()["metadata"] == answer.json["metadata"]


def test_i9_numbers_that_would_grow_out_of_iceberg_are_refused_while_the_table_can_be_read(client: Iceberg) -> None:
    def spec(name: str, **more: Any) -> dict[str, Any]:
        field = {"source-id": 1, "transform": name, "name": name[:4], **more}
        return {"action": "add-spec", "spec": {"fields": [field]}}

    last = client.commit(spec("identity", **{"field-id": 2**31 - 1}))
    assert last.status == 200, last.text
    said = refused(client.commit(spec("bucket[4]")), 400, "BadRequestException")
    assert said.startswith("the next id or sequence number would be too large")
    assert Iceberg(beside=client).load()["metadata"]["last-partition-id"] == 2**31 - 1
    view = {
        "action": "add-view-version",
        "view-version": {**VIEW["view-version"], "version-id": 2**31 - 1, "summary": {"a": "1"}},
    }
    assert client.post(V1, {"requirements": [], "updates": [view]}).status == 200
    current = {"action": "set-current-view-version", "view-version-id": -1}
    assert client.post(V1, {"requirements": [], "updates": [view, current]}).status == 200
    one_more = {**view, "view-version": {**view["view-version"], "summary": {"a": "2"}}}
    said = refused(client.post(V1, {"requirements": [], "updates": [one_more]}), 400, "BadRequestException")
    assert said.startswith("the next id")
