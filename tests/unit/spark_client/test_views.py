"""A view of Spark as Iceberg's metadata, and back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.iceberg.core.schema import Schema
from turnstile.iceberg.core.views import ViewVersion
from turnstile_spark.catalogs.views import ViewDefinition, ViewNotForSpark, _iceberg, definition_of

NAMES = st.text("abcXYZ_ é.'", min_size=1, max_size=5)
SIMPLE = st.sampled_from((
    "boolean", "integer", "long", "float", "double", "string", "binary", "date", "timestamp", "timestamp_ntz",
    "decimal(9,3)",
))  # fmt: skip


def fields(types: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    metadata = st.just({}) | st.builds(lambda text: {"comment": text}, st.text(min_size=1, max_size=5))
    field = st.fixed_dictionaries({"name": NAMES, "type": types, "nullable": st.booleans(), "metadata": metadata})
    distinct = st.lists(field, min_size=1, max_size=4, unique_by=lambda one: one["name"])
    return distinct.map(lambda some: {"type": "struct", "fields": some})


TYPES = st.recursive(
    SIMPLE,
    lambda inner: (
        fields(inner)
        | st.builds(lambda of, null: {"type": "array", "elementType": of, "containsNull": null}, inner, st.booleans())
        | st.builds(
            lambda key, of, null: {"type": "map", "keyType": key, "valueType": of, "valueContainsNull": null},
            SIMPLE,
            inner,
            st.booleans(),
        )
    ),
    max_leaves=6,
)
TEXTS = st.dictionaries(st.text("abc.", min_size=1, max_size=4), st.text(max_size=4), max_size=3)


@st.composite
def definitions(draw: st.DrawFn) -> ViewDefinition:
    schema = draw(fields(TYPES))
    columns = [draw(NAMES) for _ in schema["fields"]]
    return ViewDefinition(
        sql=draw(st.text(max_size=9)),
        schema=schema,
        catalog=draw(st.none() | st.just("other")),
        namespace=tuple(draw(st.lists(NAMES, max_size=2))),
        properties=draw(TEXTS),
        conf=draw(TEXTS),
        schema_mode=draw(st.sampled_from((None, "BINDING", "COMPENSATION"))),
        query_columns=tuple(columns) if draw(st.booleans()) else (),
    )


@given(definitions())
def test_a_view_comes_back_as_it_was(definition: ViewDefinition) -> None:
    schema, version, properties = _iceberg(definition)
    msgspec.convert(schema, Schema)  # the server's own reading
    msgspec.convert(version, ViewVersion)
    metadata = {"schemas": [schema], "versions": [version], "current-version-id": 1, "properties": properties}
    assert definition_of("v", metadata) == definition


def one_column(type_name: Any) -> ViewDefinition:
    schema = {"type": "struct", "fields": [{"name": "x", "type": type_name, "nullable": True, "metadata": {}}]}
    return ViewDefinition("SELECT x", schema, None, ("default",), {}, {}, None, ("x",))


@pytest.mark.parametrize(
    ("spark", "read"), [("byte", "integer"), ("short", "integer"), ("varchar(3)", "string"), ("char(3)", "string")]
)
def test_narrow_types_become_wider_ones(spark: str, read: str) -> None:
    schema, version, properties = _iceberg(one_column(spark))
    metadata = {"schemas": [schema], "versions": [version], "current-version-id": 1, "properties": properties}
    assert definition_of("v", metadata).schema["fields"][0]["type"] == read


@pytest.mark.parametrize(
    "type_name", ["interval day", "void", "variant", {"type": "udt", "class": "x"}, "string collate UNICODE"]
)
def test_a_type_that_iceberg_has_not_is_refused(type_name: Any) -> None:
    with pytest.raises(ViewNotForSpark, match="CAST it"):
        _iceberg(one_column(type_name))


def test_a_collation_is_refused() -> None:
    """Spark writes it beside the type, which is then ``string``."""
    definition = one_column("string")
    definition.schema["fields"][0]["metadata"] = {"__COLLATIONS": {"x": "icu.UNICODE"}}
    with pytest.raises(ViewNotForSpark, match="collation"):
        _iceberg(definition)
