"""I6: what may be stored of a table can be told by every API, so no change makes it a table that
nobody can load.

Every answer here is weighed by ``Http.send``, as Lambda would; a quote of a property takes four
bytes of one.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes import delta
from tests.support.unity import SCHEMA, T1, B, Unity, metadata, refused, refused_old
from turnstile.api.unity.columns import fields_to_api, to_infos
from turnstile.api.unity.responses import table_properties
from turnstile.delta.core.actions import fields_of
from turnstile.delta.core.metadata import MAX_SHOWN, Beside, DeltaMetadata, most_response_bytes
from turnstile.store.core.limits import response_size

INVALID: Final = "InvalidParameterValueException"
V1_T1: Final = "/v1/catalogs/main/namespaces/sales/tables/t1"
QUOTES: Final = '"' * 480_000


@pytest.fixture
def unity() -> Unity:
    made = Unity()
    made.create()
    return made


def stored(unity: Unity) -> Any:
    """Everything that is stored, to show that a refusal left nothing."""
    return unity.rows(), set(unity.world.objs.rows)


def everybody_can_load(unity: Unity) -> None:
    for path, query in (
        (T1, {}),
        (f"{B}/tables/main.sales.t1", {}),
        (f"{B}/tables", {"catalog_name": "main", "schema_name": "sales"}),
        (V1_T1, {}),
        ("/v1/find", {"query": "/main/sales/*"}),
    ):
        answer = unity.get(path, **query)
        assert answer.status == 200, (path, answer.text[:300])


def test_i6_properties_and_comment_grow_until_an_answer_is_full_and_no_further(unity: Unity) -> None:
    for name in ("a", "b"):
        assert unity.update({"action": "set-properties", "updates": {name: QUOTES}}).status == 200
    before = stored(unity)
    for action in (
        {"action": "set-properties", "updates": {"c": QUOTES}},
        {"action": "set-properties", "updates": {"c": "\\" * 480_000}},
        {"action": "set-table-comment", "comment": QUOTES},
    ):
        error = refused(unity.update(action), 400, INVALID)
        assert "bytes of an answer" in error["message"] and "shorten" in error["message"]
    assert stored(unity) == before
    everybody_can_load(unity)
    assert unity.update({"action": "remove-properties", "removals": ["a"]}).status == 200
    assert unity.update({"action": "set-table-comment", "comment": QUOTES}).status == 200
    everybody_can_load(unity)


def test_i6_a_commit_that_makes_a_table_too_large_to_be_shown_is_not_ratified(unity: Unity) -> None:
    big = metadata(**{"io.unitycatalog.tableId": unity.uuid, "a": QUOTES * 3})
    action = unity.commit(1, big)
    before = stored(unity)
    error = refused(unity.update(action), 400, INVALID)
    assert "bytes of an answer" in error["message"] and stored(unity) == before
    said = action["commit"]
    body = {"version": 1, "staged": {"name": said["file-name"], "size": said["file-size"], "modified": 1}}
    answer = unity.post(f"/v1/tables/{unity.uuid}/commits", body)
    assert (answer.status, answer.error["type"], answer.error["limit"]) == (413, "TooLarge", MAX_SHOWN), answer.text
    assert stored(unity) == before
    assert unity.update(unity.commit(1)).status == 200, "the version is still free"
    everybody_can_load(unity)


def test_i6_a_table_is_not_created_so_large(unity: Unity) -> None:
    staged = unity.stage("t2")
    usual = metadata(**{"io.unitycatalog.tableId": staged["table-id"], "a": QUOTES * 3})
    unity.write_zero(staged, instead=[usual])
    before = stored(unity)
    old = {"name": "t2", "catalog_name": "main", "schema_name": "sales", "table_type": "MANAGED",
           "storage_location": staged["location"]}  # fmt: skip
    refused_old(unity.post(f"{B}/tables", old), 400, "INVALID_ARGUMENT")
    body = {"name": "t2", "table_id": staged["table-id"]}
    answer = unity.post("/v1/catalogs/main/namespaces/sales/tables", body)
    assert (answer.status, answer.error["type"]) == (413, "TooLarge") and stored(unity) == before
    small = unity.stage("t3")
    unity.write_zero(small)
    request = unity.create_body(small, "t3")
    request["properties"]["a"] = '"' * 400_000
    assert unity.post(f"{SCHEMA}/tables", request).status == 200


def test_i6_a_table_is_not_imported_so_large_and_its_log_stays_as_it_is(unity: Unity) -> None:
    place = "s3://old/t9"
    log = "_delta_log/00000000000000000000.json"
    zero = delta.lines(
        {"commitInfo": {"timestamp": 1, "operation": "CREATE TABLE"}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**delta.metadata()["metaData"], "configuration": {"a": QUOTES * 3}}},
    )
    unity.write(place, log, zero)
    before = stored(unity)
    asked = {"name": "t9", "location": place}
    dry = unity.post("/v1/catalogs/main/namespaces/sales/imports", {**asked, "dry_run": True})
    assert dry.status == 200 and "bytes of an answer" in dry.text, dry.text[:500]
    answer = unity.post("/v1/catalogs/main/namespaces/sales/imports", {**asked, "dry_run": False})
    assert (answer.status, answer.error["type"]) == (413, "TooLarge"), answer.text[:300]
    assert stored(unity) == before
    assert unity.world.storages.open(place).read("_delta_log/00000000000000000001.json") is None


@pytest.mark.parametrize(
    "schema", ["{", "5", "null", '{"type":"struct"}', '{"type":"struct","fields":[{"name":"a"}]}', None]
)
def test_i6_a_table_with_an_unreadable_schema_is_not_imported(unity: Unity, schema: str | None) -> None:
    said = {**delta.metadata()["metaData"], "configuration": {}, "schemaString": schema}
    unity.write(
        "s3://old/t9",
        "_delta_log/00000000000000000000.json",
        delta.lines({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": said}),
    )
    before = stored(unity)
    asked = {"name": "t9", "location": "s3://old/t9", "dry_run": False}
    answer = unity.post("/v1/catalogs/main/namespaces/sales/imports", asked)
    assert (answer.status, answer.error["type"]) == (400, "UnsupportedTable") and "schema" in answer.text, answer.text
    assert stored(unity) == before


# -- the bound --------------------------------------------------------------------------------------------------------

TEXT = st.text(st.sampled_from('abé"\\\n\x01\u2028 '), max_size=12)
TYPES = st.recursive(
    st.sampled_from(["long", "string", "decimal(10,2)", "timestamp_ntz"]),
    lambda inner: st.one_of(
        inner.map(lambda one: {"type": "array", "elementType": one, "containsNull": True}),
        st.tuples(inner, inner).map(
            lambda two: {"type": "map", "keyType": two[0], "valueType": two[1], "valueContainsNull": True}
        ),
        st.lists(
            st.tuples(TEXT, inner).map(lambda two: {"name": two[0], "type": two[1], "nullable": True, "metadata": {}}),
            max_size=3,
        ).map(lambda fields: {"type": "struct", "fields": fields}),
    ),
    max_leaves=6,
)
FIELDS = st.lists(
    st.tuples(TEXT, TYPES, TEXT).map(
        lambda said: {"name": said[0], "type": said[1], "nullable": True, "metadata": {"comment": said[2]}}
    ),
    max_size=12,
)
COMMENT: Final = 'é"\\\n\x01\u2028'
MAPS = st.dictionaries(TEXT, TEXT, max_size=5)


@given(FIELDS, MAPS, MAPS, st.lists(TEXT, max_size=4))
def test_i6_no_answer_takes_more_of_metadata_than_it_was_judged_by(
    fields: Any, kept: dict[str, str], beside: dict[str, str], names: list[str]
) -> None:
    snapshot = DeltaMetadata(
        version=1,
        protocol={"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": names},
        metadata={
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [field["name"] for field in fields[:2]],
            "configuration": kept,
        },
        domains={"delta.clustering": json.dumps({"clusteringColumns": [names]})},
        beside=Beside(properties=beside, comment=COMMENT),
    )
    properties = table_properties(snapshot, 1, 1)
    bound = most_response_bytes(snapshot) + 500
    older = (
        response_size(to_infos(fields, snapshot.metadata["partitionColumns"]))
        + response_size(properties)
        + response_size(COMMENT)
    )
    newer = (
        response_size(fields_to_api(fields_of(snapshot.metadata)))
        + response_size(properties)
        + response_size(snapshot.metadata["partitionColumns"])
    )
    assert older <= bound and newer <= bound
    own = [msgspec.Raw(msgspec.json.encode(fields)), snapshot.protocol, kept, COMMENT, snapshot.domains]
    assert response_size(own) <= bound
