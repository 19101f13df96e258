"""The definition of a table, and whether it may be read and written without an engine.

A feature that is not in these lists is refused by its name, before any file is written: a writer
that ignores one may write files that other engines read wrongly. Source: Delta protocol, "Table
Features", "Valid Feature Names in Table Features", "Column Invariants", "CHECK Constraints",
"Generated Columns", "Identity Columns", "Default Columns", "Reader Requirements for Column
Mapping", "Reader Requirements for Type Widening".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from turnstile_rows.errors import DataMismatch, Unsupported
from turnstile_rows.schemas import MODES, UNMAPPED, arrow_schema, type_names

#: Features of readers that are carried out, or ask nothing of a reader.
READABLE: Final = frozenset(
    (
        "catalogManaged",
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    )
)
#: Features of writers that are carried out, or ask nothing of one that appends files and removes
#: them whole. Some ask nothing as long as no column or property uses them, which is looked at by
#: itself.
WRITABLE: Final = frozenset({
    "catalogManaged", "vacuumProtocolCheck", "deletionVectors", "timestampNtz", "v2Checkpoint", "columnMapping",
    "inCommitTimestamp",
    "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "identityColumns",
    "allowColumnDefaults",
    "domainMetadata", "clustering", "typeWidening", "typeWidening-preview",
})  # fmt: skip
#: Members of a column's metadata with which values are computed or judged by expressions of SQL.
_COMPUTED: Final = {
    "delta.generationExpression": "is generated",
    "delta.identity.start": "is an identity column",
    "delta.identity.step": "is an identity column",
    "delta.invariants": "has an invariant",
    "__CHAR_VARCHAR_TYPE_STRING": "is a CHAR or VARCHAR",
    "__COLLATIONS": "has a collation",
}
#: What a writer that only appends carries out beside these.
APPENDABLE: Final = WRITABLE | {"rowTracking"}
_DEFAULT: Final = "CURRENT_DEFAULT"
_MAPPING: Final = "delta.columnMapping.mode"
_REMEDY: Final = "use an engine that does, such as Spark"
#: Properties that a table may be created with, and the features that they need.
SETTABLE: Final[dict[str, tuple[str, ...]]] = {
    "delta.appendOnly": ("appendOnly",),
    "delta.checkpointInterval": (),
    "delta.dataSkippingNumIndexedCols": (),
    "delta.dataSkippingStatsColumns": (),
    "delta.deletedFileRetentionDuration": (),
    "delta.enableDeletionVectors": ("deletionVectors",),
    "delta.enableExpiredLogCleanup": (),
    "delta.logRetentionDuration": (),
    "delta.targetFileSize": (),
}
_FOR_WRITERS: Final = frozenset({"inCommitTimestamp", "appendOnly", "domainMetadata"})


@dataclass(frozen=True)
class Definition:
    """A table's protocol and metadata at one version.

    ``fields``: the columns as Delta's JSON has them; ``partitions``: names of the partition
    columns; ``properties``: its configuration; ``reader_features``, ``writer_features``;
    ``clustering``: names of the columns that it is clustered by, levels joined by dots.
    """

    fields: tuple[Mapping[str, Any], ...]
    partitions: tuple[str, ...]
    properties: Mapping[str, str]
    reader_features: frozenset[str]
    writer_features: frozenset[str]
    clustering: tuple[str, ...] = ()
    schema: pa.Schema = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", arrow_schema({"fields": self.fields}))

    @cached_property
    def stored_schema(self) -> pa.Schema:
        """The columns as files have them, in the order of ``schema``; also partition columns, whose
        names the log has so. Raises :class:`Unsupported` for a mode of column mapping that is not
        known."""
        mode = self.mapping
        if mode not in MODES:
            raise Unsupported(f"the table maps its columns in a way that is not known: {_MAPPING} = {mode}")
        return arrow_schema({"fields": self.fields}, mode)

    @property
    def mapping(self) -> str:
        """The mode of column mapping; ``none`` without."""
        return self.properties.get(_MAPPING, UNMAPPED).lower()

    @classmethod
    def of_loaded(cls, metadata: Mapping[str, Any]) -> Definition:
        """Of the member ``metadata`` of a table that the server has loaded. Raises
        :class:`Unsupported` for types that are not known."""
        protocol = metadata["protocol"]
        schema = metadata["schema"]
        clustering = _clustering(metadata.get("domains"))
        return cls._of(schema, metadata.get("partition_columns"), metadata.get("properties"), protocol, clustering)

    @classmethod
    def of_actions(cls, definition: Mapping[str, Any], domains: Mapping[str, Any] | None = None) -> Definition:
        """Of the actions ``protocol`` and ``metaData``, and the domains by name. Raises as
        :meth:`of_loaded`."""
        metadata = definition["metaData"]
        schema = json.loads(metadata["schemaString"])
        return cls._of(
            schema,
            metadata.get("partitionColumns"),
            metadata.get("configuration"),
            definition["protocol"],
            _clustering(domains),
        )

    @classmethod
    def _of(
        cls, schema: Any, partitions: Any, properties: Any, protocol: Any, clustering: tuple[str, ...]
    ) -> Definition:
        reader, writer = (frozenset(protocol.get(member) or ()) for member in ("readerFeatures", "writerFeatures"))
        return cls(tuple(schema["fields"]), tuple(partitions or ()), dict(properties or {}), reader, writer, clustering)

    @property
    def is_row_tracked(self) -> bool:
        """Whether new rows get ids (the feature is supported)."""
        return "rowTracking" in self.writer_features

    @property
    def data_schema(self) -> pa.Schema:
        """The columns that data files have: all but the partition columns."""
        return pa.schema([column for column in self.schema if column.name not in self.partitions])

    def is_set(self, name: str) -> bool:
        """Whether a property is true."""
        return self.properties.get(name, "").lower() == "true"


def _clustering(domains: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The columns that a table is clustered by, levels joined by dots."""
    domain = (domains or {}).get("delta.clustering")
    columns = (json.loads(domain) if isinstance(domain, str) else domain or {}).get("clusteringColumns") or ()
    return tuple(".".join(column) if isinstance(column, list) else str(column) for column in columns)


def check_readable(definition: Definition) -> None:
    """Raises :class:`Unsupported` for a table that cannot be read rightly here."""
    _check_features(definition.reader_features - READABLE, "read")


def check_appendable(definition: Definition) -> None:
    """Raises :class:`Unsupported` for a table that cannot be appended to here."""
    _check_features((definition.reader_features | definition.writer_features) - APPENDABLE, "written")
    if definition.mapping not in MODES:
        raise Unsupported(f"the table maps its columns in a way that is not known: {_MAPPING} = {definition.mapping}")
    for name in sorted(definition.properties):
        if name.startswith("delta.constraints."):
            constraint = name.removeprefix("delta.constraints.")
            raise Unsupported(f"the table has the CHECK constraint {constraint!r}, which is not judged here: {_REMEDY}")
    for name, metadata in _columns(definition.fields, ""):
        for member, what in _COMPUTED.items():
            if member in metadata:
                raise Unsupported(f"the column {name!r} {what}, which is not carried out here: {_REMEDY}")


def check_overwritable(definition: Definition) -> None:
    """Raises :class:`Unsupported` for a table whose files cannot be removed and written anew
    here."""
    _check_features((definition.reader_features | definition.writer_features) - WRITABLE, "rewritten")
    check_appendable(definition)
    _check_mapping(definition)
    if definition.is_set("delta.appendOnly"):
        raise Unsupported("the table is append-only (delta.appendOnly): its rows cannot be overwritten")


def check_rewritable(definition: Definition) -> None:
    """Raises :class:`Unsupported` for a table whose rows cannot be put into other files here."""
    _check_features((definition.reader_features | definition.writer_features) - APPENDABLE, "rewritten")
    if definition.clustering:
        columns = ", ".join(definition.clustering)
        raise Unsupported(f"the table is clustered by {columns}, and its files are not ordered here: {_REMEDY}")
    _ = definition.stored_schema


def columns_with_default(definition: Definition) -> frozenset[str]:
    """The columns, in lower case, that another engine gives a value other than null where a row has
    none."""
    return frozenset(
        column["name"].lower() for column in definition.fields if _DEFAULT in (column.get("metadata") or {})
    )


def new_definition(
    fields: Mapping[str, Any], partitions: tuple[str, ...], properties: Mapping[str, str], required: tuple[str, ...]
) -> Definition:
    """The definition of a table to be, with the features that it needs, ``required`` among them.
    Raises :class:`DataMismatch` for partition columns and properties that it cannot have."""
    types = {column["name"]: column["type"] for column in fields["fields"]}
    for name in partitions:
        if name not in types:
            raise DataMismatch(f"partition column {name!r}: the schema has no such column")
        if not isinstance(types[name], str) or types[name] == "binary":
            raise DataMismatch(f"partition column {name!r}: a table cannot be partitioned by a column of this type")
    if len(set(partitions)) < len(partitions):
        raise DataMismatch("partition columns: one is there twice")
    if types and len(partitions) == len(types):
        raise DataMismatch("partition columns: a table needs a column that it is not partitioned by")
    features = set(required)
    if "timestamp_ntz" in type_names(fields):
        features.add("timestampNtz")
    for name, value in properties.items():
        if name.startswith("delta.") and name not in SETTABLE:
            raise DataMismatch(f"property {name!r}: tables are created with {', '.join(SETTABLE)} only; {_REMEDY}")
        if not isinstance(value, str):
            raise DataMismatch(f"property {name!r}: the value of a property is a text, not {type(value).__name__}")
        features.update(SETTABLE.get(name, ()))
    return Definition(
        tuple(fields["fields"]), partitions, dict(properties), frozenset(features - _FOR_WRITERS), frozenset(features)
    )


def _check_features(unknown: frozenset[str], what: str) -> None:
    if unknown:
        features = ", ".join(sorted(unknown))
        raise Unsupported(f"the table has features with which it cannot be {what} here: {features}; {_REMEDY}")


def _check_mapping(definition: Definition) -> None:
    if definition.mapping != UNMAPPED:
        raise Unsupported(
            f"the table maps its columns ({_MAPPING} = {definition.mapping}); such a table is read and appended to "
            f"here, and no files of it are replaced: {_REMEDY}"
        )


def _columns(fields: Any, above: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Name and metadata of all columns, including columns in structs, arrays and maps."""
    for column in fields:
        name = f"{above}{column['name']}"
        yield name, column.get("metadata") or {}
        yield from _inner(column["type"], name)


def _inner(type: Any, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(type, Mapping):
        yield from _columns(type.get("fields", ()), f"{name}.")
        for member in ("elementType", "keyType", "valueType"):
            yield from _inner(type.get(member), name)
