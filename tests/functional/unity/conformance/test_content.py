"""A table can be loaded, listed and committed to after each accepted commit, with any content of
its file (I2)."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.unity import COLUMNS, T1, B, Unity, metadata, protocol

junk = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)
primitives = st.sampled_from(
    ["long", "string", "decimal(10,2)", "varchar(3)", "void", "interval day", "variant", "Long", "", "a b"]
)


def fields(type: Any) -> Any:
    """Fields, whole and with members missing, of the wrong type, or too many."""
    return st.fixed_dictionaries(
        {},
        optional={"name": st.text(max_size=5) | junk, "type": type, "nullable": st.booleans() | junk,
                  "metadata": st.dictionaries(st.text(max_size=5), junk, max_size=2) | junk, "more": junk},
    ) | st.fixed_dictionaries({"name": st.text(min_size=1, max_size=5), "type": type})  # fmt: skip


types = st.recursive(
    primitives | junk,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "elementType": inner}, optional={"containsNull": junk}),
        st.fixed_dictionaries(
            {"type": st.just("map"), "keyType": inner, "valueType": inner},
            optional={"valueContainsNull": st.booleans() | junk},
        ),
        st.fixed_dictionaries({"type": st.just("struct"), "fields": st.lists(fields(inner), max_size=2) | junk}),
        st.fixed_dictionaries({"type": st.just("udt"), "class": junk}, optional={"sqlType": inner}),
    ),
    max_leaves=4,
)


schemas = st.lists(fields(types), max_size=3).map(lambda found: {"type": "struct", "fields": found}) | junk
members = st.fixed_dictionaries(
    {},
    optional={
        "schemaString": schemas.map(json.dumps) | junk,
        "partitionColumns": st.lists(st.sampled_from(["id", "nope", "", "ID"]), max_size=3) | junk,
        "configuration": st.dictionaries(st.text(max_size=8), st.text(max_size=5) | junk, max_size=3) | junk,
        "description": st.text(max_size=5) | junk,
        "name": junk,
        "format": junk,
        "createdTime": junk,
    },
)
domains = st.fixed_dictionaries(
    {"domain": st.sampled_from(["delta.clustering", "delta.rowTracking", "x"]) | junk},
    optional={
        "configuration": junk.map(json.dumps)
        | st.just('{"clusteringColumns":[["id"]]}')
        | junk.map(lambda found: json.dumps({"clusteringColumns": found}))
        | junk,
        "removed": st.booleans() | junk,
    },
)
features = st.lists(st.sampled_from(["rowTracking", "clustering", "", "x", "x y"]), max_size=2)


def accepted_is_readable(changed: dict[str, Any], said: list[dict[str, Any]], more: list[str]) -> None:
    unity = Unity()
    unity.create()
    made = metadata(COLUMNS, **{"io.unitycatalog.tableId": unity.uuid})["metaData"]
    configuration = changed.get("configuration")
    if isinstance(configuration, dict):
        changed = changed | {"configuration": made["configuration"] | configuration}
    actions = [protocol(*more), {"metaData": made | changed}, *({"domainMetadata": one} for one in said)]
    answer = unity.update(unity.commit(1, *actions), {"action": "set-latest-backfilled-version",
                                                      "latest-published-version": 0})  # fmt: skip
    assert answer.status in (200, 400), answer.text
    loaded = unity.get(T1)
    assert loaded.status == 200 and loaded.json["latest-table-version"] == (answer.status == 200)
    assert unity.get(f"{B}/tables/main.sales.t1").status == 200
    assert unity.get(f"{B}/tables", catalog_name="main", schema_name="sales").status == 200
    assert unity.update(unity.commit(loaded.json["latest-table-version"] + 1)).status == 200


SCHEMA = {"type": "struct", "fields": [{"name": "a", "type": {"type": "array", "elementType": "long"}}]}


@settings(max_examples=examples(120))
@given(members, st.lists(domains, max_size=2), features)
@example({"schemaString": json.dumps(SCHEMA)}, [], [])
@example({"schemaString": '{"type":"struct","fields":[{}]}'}, [], [])
@example({"schemaString": '{"type":"struct"}'}, [], [])
@example({"partitionColumns": ["nope"]}, [], [])
@example(
    {}, [{"domain": "delta.clustering", "configuration": '{"clusteringColumns":7}', "removed": False}], ["clustering"]
)
@example({}, [{"domain": "delta.clustering", "configuration": "7", "removed": False}], ["clustering"])
def test_i2_what_is_accepted_can_be_read_and_committed_to(
    changed: dict[str, Any], said: list[dict[str, Any]], more: list[str]
) -> None:
    accepted_is_readable(changed, said, more)
