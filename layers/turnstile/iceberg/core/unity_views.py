"""Views of Unity Catalog as views of Iceberg: one entity, which all three APIs show. Pure.

    VIEW          its SQL is the representation of the dialect ``spark``, which Spark's lake and
                  Iceberg's clients read, too
    METRIC_VIEW   its definition (YAML) has the dialect ``metric-view``, which no SQL engine reads

Members without a place in Iceberg's metadata are in the summary of the view's version: the columns
as Unity's client spelled them, and the view's dependencies. A view that another API made or
replaced has the columns of its schema.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from turnstile.iceberg.core.delta_tables import schema_of_fields
from turnstile.iceberg.core.schema import Field, ListType, MapType, Schema, StructType, Type
from turnstile.iceberg.core.views import Representation, ViewMetadata, ViewVersion
from turnstile.store.core.errors import InvalidRequest, UnsupportedTable

VIEW: Final = "VIEW"
METRIC_VIEW: Final = "METRIC_VIEW"
DIALECTS: Final = {VIEW: "spark", METRIC_VIEW: "metric-view"}
"""The dialect of a definition, by the type that Unity's API has."""

COMMENT: Final = "comment"
"""The property in which a view has its comment."""

_COLUMNS: Final = "unity.columns"
_DEPENDENCIES: Final = "unity.view-dependencies"

_TYPES: Final = {
    "int": "integer", "timestamptz": "timestamp", "timestamp": "timestamp_ntz", "uuid": "string", "unknown": "void",
}  # fmt: skip


class UnityView(msgspec.Struct, frozen=True):
    """A view as Unity's API has it; ``fields`` in Delta's JSON. ``definition`` None: it has none in
    a dialect that Unity's clients read."""

    kind: str
    definition: str | None
    fields: list[dict[str, Any]]
    comment: str | None
    properties: dict[str, str]
    dependencies: Any = None


def new_version(view: UnityView, namespace: tuple[str, ...], now_ms: int) -> tuple[Schema, ViewVersion, dict[str, str]]:
    """Returns schema, version and properties of a new view. Raises InvalidRequest for a column that
    Iceberg cannot have."""
    fields = msgspec.json.encode({"type": "struct", "fields": view.fields}).decode()
    try:
        schema = schema_of_fields(fields)
    except UnsupportedTable as error:
        remedy = "CAST the column to a type that Iceberg has, too: the view is for all clients of the catalog"
        raise InvalidRequest(error.message, field="columns", remedy=remedy) from error
    summary = {_COLUMNS: msgspec.json.encode(view.fields).decode()}
    if view.dependencies is not None:
        summary[_DEPENDENCIES] = msgspec.json.encode(view.dependencies).decode()
    definition = Representation("sql", view.definition or "", DIALECTS[view.kind])
    version = ViewVersion(1, now_ms, 0, summary, (definition,), namespace)
    properties = {**view.properties, **({COMMENT: view.comment} if view.comment else {})}
    return schema, version, properties


def view_of(metadata: ViewMetadata) -> UnityView:
    """Returns the view as its current version has it, whichever API made it."""
    version = metadata.current
    by_dialect = {one.dialect.lower(): one.sql for one in version.representations}
    kind = METRIC_VIEW if DIALECTS[METRIC_VIEW] in by_dialect else VIEW
    properties = {name: value for name, value in metadata.properties.items() if name != COMMENT}
    dependencies = version.summary.get(_DEPENDENCIES)
    return UnityView(
        kind,
        by_dialect.get(DIALECTS[kind]),
        _fields(metadata, version),
        metadata.properties.get(COMMENT),
        properties,
        None if dependencies is None else _decode_json(dependencies),
    )


def _fields(metadata: ViewMetadata, version: ViewVersion) -> list[dict[str, Any]]:
    told = _decode_json(version.summary.get(_COLUMNS, ""))
    if isinstance(told, list):
        return told
    schema = next((one for one in metadata.schemas if one.schema_id == version.schema_id), Schema(()))
    return [_delta_field(field) for field in schema.fields]


def _decode_json(text: str) -> Any:
    """The value of a JSON text in a summary; None for a text that is no JSON: other clients may
    write there, too."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _delta_field(field: Field) -> dict[str, Any]:
    metadata = {"comment": field.doc} if field.doc else {}
    return {"name": field.name, "type": _delta_type(field.type), "nullable": not field.required, "metadata": metadata}


def _delta_type(kind: Type) -> Any:
    """A type in Delta's JSON; of one that Delta lacks, its name."""
    match kind:
        case StructType(fields):
            return {"type": "struct", "fields": [_delta_field(field) for field in fields]}
        case ListType(_, element, required):
            return {"type": "array", "elementType": _delta_type(element), "containsNull": not required}
        case MapType(_, key, _, value, required):
            keys = {"keyType": _delta_type(key), "valueType": _delta_type(value)}
            return {"type": "map", **keys, "valueContainsNull": not required}
        case _:
            return _TYPES.get(str(kind), str(kind).replace(" ", ""))
