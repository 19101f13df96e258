"""Requests that nobody would send on purpose: refused or done, never an internal error, and never
half done (I9)."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table.metadata import TableMetadataUtil

from tests.support.examples import examples
from tests.support.functions import Answer
from tests.support.iceberg.client import (
    SALES,
    SCHEMA,
    T1,
    VIEW,
    Iceberg,
    add_snapshot,
    at_ref,
    set_properties,
    set_ref,
)
from tests.support.iceberg.readers import check

NULLS = {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
COMMIT: dict[str, Any] = {
    "requirements": [
        at_ref(None),
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
    ],
    "updates": [
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": SCHEMA, "last-column-id": 2},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": [{"source-id": 2, "transform": "truncate[3]", "name": "r"}]}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [NULLS]}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        add_snapshot(1),
        set_ref(1),
        {"action": "remove-snapshots", "snapshot-ids": [1]},
        set_properties(**{"write.metadata.previous-versions-max": "3"}),
        {"action": "remove-properties", "removals": ["a"]},
    ],
}
REPLACE: dict[str, Any] = {
    "requirements": [],
    "updates": [
        {"action": "add-schema", "schema": SCHEMA},
        {"action": "add-view-version", "view-version": VIEW["view-version"]},
        {"action": "set-current-view-version", "view-version-id": -1},
    ],
}
CREATE: dict[str, Any] = {
    "name": "t2",
    "schema": SCHEMA,
    "partition-spec": {"fields": [{"source-id": 2, "transform": "identity", "name": "r"}]},
    "write-order": {"order-id": 1, "fields": [NULLS]},
    "properties": {"format-version": "2"},
}
REQUESTS = [(T1, COMMIT), (f"{SALES}/tables", CREATE), (f"{SALES}/views/v1", REPLACE), (f"{SALES}/views", VIEW)]

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.sampled_from([0, -1, 1, 2, 3, 4, 2**31, 2**63 - 1, 2**63, 1.5, "", "1", "x" * 300, "\x00", "é", [], {}, [[]],
                     {"a": "b"}]),
).map(copy.deepcopy)  # fmt: skip


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a body where something could be put."""
    found = [path] if path else []
    if isinstance(node, dict):
        for name, inner in node.items():
            found += places(inner, (*path, name))
    elif isinstance(node, list):
        for position, inner in enumerate(node):
            found += places(inner, (*path, position))
    return found


CLIENT: list[Iceberg] = []


def client() -> Iceberg:
    """One world for all examples: that it stays usable is part of what is shown."""
    if not CLIENT:
        made = Iceberg()
        made.create("t1")
        made.post(f"{SALES}/views", VIEW)
        CLIENT.append(made)
    made = CLIENT[0]
    made.app.use_world(made.world)
    return made


def readable(answer: Answer) -> None:
    """Clients can read the table."""
    check(answer.json["metadata"])
    TableMetadataUtil.parse_raw(json.dumps(answer.json["metadata"]))


@settings(max_examples=examples(400))
@given(st.data())
def test_i9_a_body_with_something_odd_in_it_is_refused_or_done(data: st.DataObject) -> None:
    path, body = data.draw(st.sampled_from(REQUESTS))
    body = copy.deepcopy(body)
    for place in data.draw(st.lists(st.sampled_from(places(body)), min_size=1, max_size=3)):
        node: Any = body
        try:
            for step in place[:-1]:
                node = node[step]
            if data.draw(st.booleans()):
                del node[place[-1]]
            else:
                node[place[-1]] = data.draw(ODD)
        except (KeyError, IndexError, TypeError):  # an earlier change took the place away
            continue
    asked = client()
    answer = asked.post(path, body)
    assert answer.status in (200, 400, 404, 409, 422), answer.text
    loaded = asked.get(T1)
    assert loaded.status == 200 and asked.get(f"{SALES}/views/v1").status == 200
    asked.app.use_world(asked.world)  # caches are cold: what was written can be read
    assert asked.get(T1).json == loaded.json
    readable(loaded)
    if path.endswith("/tables") and answer.status == 200:
        readable(answer)
        asked.delete(f"{path}/{body['name']}")  # so that the next one can be created
