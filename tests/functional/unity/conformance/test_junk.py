"""Whatever is sent, Unity's API never answers 500, and its errors have the documented shapes
(hypothesis)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.unity import COLUMNS, SCHEMA, T1, V1, B, Unity, api_protocol, external_protocol

unity = Unity()
unity.create()
unity.external()
PROPOSED = unity.commit(1)


@pytest.fixture(autouse=True, scope="module")
def attached() -> None:
    unity.attach()


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["main", "sales", "t1", "e1", "no", "a b", "%", "%2F", "ä", "..", "a.b"]) | st.text(
    st.characters(codec="ascii", exclude_characters="/?#\x00", categories=["L", "N", "P"]), min_size=1, max_size=8
)
actions = st.sampled_from(
    [
        ("add-commit", {"commit": PROPOSED["commit"], "uniform": None}),
        ("set-latest-backfilled-version", {"latest-published-version": 0}),
        ("set-properties", {"updates": {"a": "1", "delta.checkpointPolicy": "v2"}}),
        ("remove-properties", {"removals": ["a"]}),
        ("set-columns", {"columns": COLUMNS}),
        ("set-partition-columns", {"partition-columns": []}),
        ("set-table-comment", {"comment": "x"}),
        ("set-protocol", {"protocol": api_protocol()}),
        ("set-domain-metadata", {"updates": {"delta.clustering": {"clusteringColumns": [["id"]]}}}),
        ("remove-domain-metadata", {"domains": ["delta.clustering"]}),
        ("update-metadata-snapshot-version", {"last-commit-version": 1, "last-commit-timestamp-ms": 1}),
    ]
)


@st.composite
def action(draw: Any) -> Any:
    """One of the eleven, perhaps with a member replaced or missing."""
    name, body = draw(actions)
    made = {"action": name, **body}
    if draw(st.integers(0, 3)) == 0:
        member = draw(st.sampled_from(sorted(body)))
        made[member] = draw(junk)
    return made


def judged(answer: Any, path: str) -> None:
    assert answer.status < 500, (path, answer.text)
    if answer.status >= 400 and answer.text:
        if path.startswith(V1):
            assert set(answer.json) == {"error"} and set(answer.json["error"]) == {"message", "type", "code"}
        else:
            assert set(answer.json) == {"error_code", "message", "details"}


@settings(max_examples=examples(150))
@given(
    st.lists(action(), max_size=5) | junk,
    st.sampled_from(["t1", "e1"]),
    st.booleans() | st.just(None),
    st.none() | st.text(max_size=5),
)
def test_no_update_is_a_500(updates: Any, table: str, right: Any, etag: Any) -> None:
    path = f"{SCHEMA}/tables/{table}"
    uuid = unity.get(path).json["metadata"]["table-uuid"] if right else "x"
    requirements: list[Any] = [{"type": "assert-table-uuid", "uuid": uuid}] if right is not None else []
    if etag is not None:
        requirements.append({"type": "assert-etag", "etag": etag})
    judged(unity.post(path, {"requirements": requirements, "updates": updates}), path)
    assert unity.get(T1).json["latest-table-version"] in (0, 1)


BODIES = [
    ("POST", f"{SCHEMA}/staging-tables", {"name": "x"}),
    ("POST", f"{T1}/rename", {"new-name": "t1"}),
    ("POST", f"{T1}/metrics", {"table-id": "x", "report": {}}),
    ("POST", f"{SCHEMA}/tables", {"name": "x", "location": "file:///else", "table-type": "EXTERNAL",
                                  "columns": COLUMNS, "protocol": external_protocol(), "properties": {},
                                  "last-commit-timestamp-ms": 1, "domain-metadata": None,
                                  "partition-columns": ["id"]}),
    ("POST", f"{B}/catalogs", {"name": "x", "comment": "", "properties": {}}),
    ("PATCH", f"{B}/catalogs/main", {"comment": "", "properties": {}}),
    ("POST", f"{B}/schemas", {"name": "x", "catalog_name": "main", "properties": {}}),
    ("PATCH", f"{B}/schemas/main.sales", {"comment": "", "properties": {}}),
    ("POST", f"{B}/tables", {"name": "x", "catalog_name": "main", "schema_name": "sales", "table_type": "EXTERNAL",
                             "columns": [{"name": "a", "type_name": "LONG", "type_json": '"long"', "position": 0}],
                             "storage_location": "s3://x/y", "data_source_format": "DELTA", "properties": {}}),
    ("POST", f"{B}/staging-tables", {"name": "x", "catalog_name": "main", "schema_name": "sales"}),
    ("POST", f"{B}/temporary-table-credentials", {"table_id": "x", "operation": "READ"}),
    ("POST", f"{B}/temporary-path-credentials", {"url": "s3://x/z", "operation": "PATH_READ"}),
    ("POST", f"{B}/delta/preview/commits", {"table_id": unity.uuid, "table_uri": "file:///x",
                                            "latest_backfilled_version": 1, "commit_info": None, "metadata": None,
                                            "uniform": None}),
]  # fmt: skip


@settings(max_examples=examples(200))
@given(st.sampled_from(BODIES), st.data())
def test_no_body_is_a_500(case: Any, data: Any) -> None:
    method, path, body = case
    sent: Any = dict(body)
    if data.draw(st.integers(0, 5)) == 0:
        sent = data.draw(junk)
    else:
        sent[data.draw(st.sampled_from(sorted(body)))] = data.draw(junk)
    judged(unity.call(method, path, sent), path)
    assert unity.get(f"{B}/tables", catalog_name="main", schema_name="sales").status == 200
    assert unity.get(f"{B}/schemas", catalog_name="main").status == 200


@settings(max_examples=examples(150))
@given(st.sampled_from(["GET", "HEAD", "DELETE"]), names, names, names.filter(lambda name: name not in ("t1", "e1")))
def test_no_path_is_a_500(method: str, catalog: str, schema: str, table: str) -> None:
    for path in (
        f"{V1}/catalogs/{catalog}/schemas/{schema}/tables/{table}",
        f"{V1}/catalogs/{catalog}/schemas/{schema}/tables/{table}/credentials",
        f"{V1}/staging-tables/{table}/credentials",
        f"{B}/tables/{catalog}.{schema}.{table}",
        f"{B}/schemas/{catalog}.{schema}.{table}",
    ):
        judged(unity.call(method, path), path)


@settings(max_examples=examples(100))
@given(st.dictionaries(st.sampled_from(["catalog_name", "schema_name", "max_results", "page_token", "operation",
                                        "location", "catalog", "protocol-versions", "force"]),
                       st.sampled_from(["main", "sales", "0", "-1", "READ", "s3://a/b", "1.0", "true"])
                       | st.text(max_size=8)))  # fmt: skip
def test_no_query_is_a_500(query: dict[str, str]) -> None:
    for path in (f"{B}/catalogs", f"{B}/schemas", f"{B}/tables", f"{V1}/config", f"{V1}/temporary-path-credentials",
                 f"{T1}/credentials", f"{B}/delta/preview/commits"):  # fmt: skip
        judged(unity.call("GET", path, query=query), path)
