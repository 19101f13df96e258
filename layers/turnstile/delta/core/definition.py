"""The definition of a table: its ``protocol`` and ``metaData`` actions, each by itself and both
together.

Source: Delta protocol, "Table Features", "Change Metadata", "Catalog-managed tables" and the
sections of the features named here. Values of properties are judged where Delta's readers fail on
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from turnstile.delta.core.schemas import (
    MAPPING_ID,
    Field,
    Unreadable,
    check_mapping,
    columns_of,
    needed_features,
    walk,
)
from turnstile.store.core.errors import InvalidCommit

CATALOG_MANAGED: Final = "catalogManaged"
ROW_TRACKING_DOMAIN: Final = "delta.rowTracking"
BRANCHES_DOMAIN: Final = "delta.tableBranching"
"""The registry of a table's branches, by a proposal for Delta's protocol (ADR 85)."""

MAPPING_MODE: Final = "delta.columnMapping.mode"
MAX_COLUMN_ID: Final = "delta.columnMapping.maxColumnId"
_ROW_TRACKING: Final = "delta.enableRowTracking"
_MATERIALISED: Final = (
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)

_NEEDED: Final = (
    ("readerFeatures", CATALOG_MANAGED),
    ("writerFeatures", CATALOG_MANAGED),
    ("writerFeatures", "inCommitTimestamp"),
)
FOR_WRITERS: Final = frozenset({
    "appendOnly", "invariants", "checkConstraints", "generatedColumns", "allowColumnDefaults", "changeDataFeed",
    "identityColumns", "rowTracking", "domainMetadata", "icebergCompatV1", "icebergCompatV2", "icebergCompatV3",
    "clustering", "inCommitTimestamp", "materializePartitionColumns", "checkpointProtection",
})  # fmt: skip
"""Features that only writers need; a reader that is told to support one gives up."""

_REQUIRED_BY: Final = (
    ("rowTracking", "domainMetadata"),
    ("clustering", "domainMetadata"),
    ("variantShredding", "variantType"),
)

_FLAGS: Final = frozenset(
    f"delta.{name}"
    for name in (
        "appendOnly", "enableDeletionVectors", "enableVariantShredding", "enableChangeDataFeed", "enableRowTracking",
        "rowTrackingSuspended", "enableTypeWidening", "enableIcebergCompatV1", "enableIcebergCompatV2",
        "enableIcebergCompatV3", "enableExpiredLogCleanup", "enableFullRetentionRollback", "randomizeFilePrefixes",
        "autoOptimize.optimizeWrite", "checkpoint.writeStatsAsJson", "checkpoint.writeStatsAsStruct",
        "compatibility.symlinkFormatManifest.enabled", "enableInCommitTimestamps", "castIcebergTimeType",
        "ignoreIcebergBucketPartition", "writePartitionColumnsToParquet",
    )
)  # fmt: skip
_NUMBERS: Final = frozenset(
    f"delta.{name}"
    for name in (
        "checkpointInterval", "randomPrefixLength", "dataSkippingNumIndexedCols", "dataSkippingStringPrefixLength",
        "columnMapping.maxColumnId", "inCommitTimestampEnablementVersion", "inCommitTimestampEnablementTimestamp",
        "requireCheckpointProtectionBeforeVersion",
    )
)  # fmt: skip
_POLICY: Final = "delta.checkpointPolicy"
_FLAG_FEATURES: Final = {
    "delta.appendOnly": frozenset({"appendOnly"}),
    "delta.enableChangeDataFeed": frozenset({"changeDataFeed"}),
    "delta.enableDeletionVectors": frozenset({"deletionVectors"}),
    "delta.enableTypeWidening": frozenset({"typeWidening", "typeWidening-preview"}),
    "delta.enableIcebergCompatV1": frozenset({"icebergCompatV1"}),
    "delta.enableIcebergCompatV2": frozenset({"icebergCompatV2"}),
    "delta.enableIcebergCompatV3": frozenset({"icebergCompatV3"}),
    _ROW_TRACKING: frozenset({"rowTracking"}),
}
"""Properties that are carried out where they are true, and the features without which Delta does
not open a table that has one."""
_CHOICES: Final = {
    MAPPING_MODE: frozenset({"none", "id", "name"}),
    _POLICY: frozenset({"classic", "v2"}),
}
_NUMBER: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)

Definition = dict[str, Any]


def check_protocol(protocol: Definition) -> None:
    """Checks a ``protocol`` action of a catalog-managed table; raises InvalidCommit naming the
    member."""
    for member, least in (("minReaderVersion", 3), ("minWriterVersion", 7)):
        if protocol.get(member) != least:
            problem = f"protocol.{member} must be {least}, not {protocol.get(member)!r}"
            remedy = "catalog-managed tables use table features (reader 3, writer 7)"
            raise InvalidCommit(problem, field=f"protocol.{member}", remedy=remedy)
    for member, feature in _NEEDED:
        if feature not in supported_features(protocol, member):
            problem = f"protocol.{member} must contain {feature!r}"
            remedy = f"keep {feature}; to leave, use export"
            raise InvalidCommit(problem, field=f"protocol.{member}", remedy=remedy)
    readers = supported_features(protocol, "readerFeatures")
    writers = supported_features(protocol, "writerFeatures")
    for feature in sorted(readers - writers):
        problem = f"protocol.readerFeatures has {feature!r}, and protocol.writerFeatures has not"
        raise InvalidCommit(problem, field="protocol.writerFeatures", remedy="list reader features in both")
    for feature in sorted(readers & FOR_WRITERS):
        problem = f"protocol.readerFeatures has {feature!r}, which is a feature of writers"
        raise InvalidCommit(problem, field="protocol.readerFeatures", remedy="list it in writerFeatures only")
    for feature, required in _REQUIRED_BY:
        if feature in writers and required not in writers:
            problem = f"the feature {feature!r} requires {required!r}"
            remedy = f"add {required!r} to writerFeatures"
            raise InvalidCommit(problem, field="protocol.writerFeatures", remedy=remedy)


def supported_features(protocol: Definition, member: str) -> set[str]:
    """The features that ``protocol`` lists under ``member``."""
    return {*(protocol.get(member) or ())}


def check_metadata(metadata: Definition) -> None:
    """Checks a ``metaData`` action of a catalog-managed table; raises InvalidCommit naming the
    member."""
    configuration = metadata["configuration"]
    if configuration.get("delta.enableInCommitTimestamps") != "true":
        problem = "metaData.configuration must keep delta.enableInCommitTimestamps = 'true'"
        remedy = "do not switch in-commit timestamps off; catalogManaged requires them"
        raise InvalidCommit(problem, field="metaData.configuration", remedy=remedy)
    for key in sorted(configuration.keys() & (_FLAGS | _NUMBERS | _CHOICES.keys())):
        _check_property(key, configuration[key])
    try:
        fields = columns_of(metadata["schemaString"])
    except Unreadable as error:
        problem = f"metaData.schemaString is not a schema that Delta's readers know: {error}"
        raise InvalidCommit(problem, field="metaData.schemaString") from None
    _check_partitions(metadata["partitionColumns"], {field["name"]: field["type"] for field in fields})


def _check_property(key: str, value: str) -> None:
    allowed = _CHOICES.get(key)
    if key in _FLAGS:
        fits = value.lower() in ("true", "false")
        what = "true or false"
    elif allowed is not None:
        fits = value.lower() in allowed
        what = " or ".join(sorted(allowed))
    else:
        fits = _NUMBER.fullmatch(value) is not None
        what = "an integer"
    if not fits:
        problem = f"metaData.configuration: {key} must be {what}, not {value[:80]!r}"
        raise InvalidCommit(problem, field="metaData.configuration", remedy="Delta's readers fail on other values")


def _check_partitions(partitions: list[str], types: dict[str, Any]) -> None:
    field = "metaData.partitionColumns"
    for name in partitions:
        if name not in types:
            raise InvalidCommit(f"{field}: the schema has no column {name!r}", field=field)
        if not isinstance(types[name], str) or types[name] == "variant":
            raise InvalidCommit(f"{field}: a table cannot be partitioned by {name!r}, of its type", field=field)
    if len({*partitions}) != len(partitions):
        raise InvalidCommit(f"{field} must name each column once", field=field)


def check_definition(protocol: Definition, metadata: Definition) -> None:
    """Checks that ``metadata`` uses nothing that ``protocol`` does not support, and that columns
    are mapped where mapping is on. Both have been checked each by itself. Raises InvalidCommit."""
    configuration = metadata["configuration"]
    writers = supported_features(protocol, "writerFeatures")
    fields = columns_of(metadata["schemaString"])
    for what, features in used_features(configuration, fields):
        if not features & writers:
            needed = " or ".join(repr(feature) for feature in sorted(features))
            problem = f"{what} needs the table feature {needed}"
            remedy = "add it to the protocol in the same commit"
            raise InvalidCommit(problem, field="protocol.writerFeatures", remedy=remedy)
    if maps_columns(configuration):
        try:
            check_mapping(fields, int(configuration[MAX_COLUMN_ID]) if MAX_COLUMN_ID in configuration else None)
        except Unreadable as error:
            problem = f"metaData.schemaString does not map its columns: {error}"
            raise InvalidCommit(problem, field="metaData.schemaString") from None
    if configuration.get(_ROW_TRACKING, "").lower() == "true":
        for key in _MATERIALISED:
            if not configuration.get(key):
                problem = f"{_ROW_TRACKING} needs the property {key}"
                raise InvalidCommit(problem, field="metaData.configuration", remedy="choose a name for the column")


def used_features(configuration: dict[str, str], fields: list[Field]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yields uses of properties and columns that need a table feature, with the features of which
    one is needed: without it Delta does not open the table, or reads other values than were
    written.
    """
    yield from _used_properties(configuration)
    yield from needed_features(fields)


def max_column_id(fields: list[Field]) -> int | None:
    """The greatest id of a mapped column, nested ones too; None if none has one."""
    ids = [(field.get("metadata") or {}).get(MAPPING_ID) for _, field in walk(fields)]
    return max((id for id in ids if type(id) is int), default=None)


def maps_columns(configuration: dict[str, str]) -> bool:
    """Whether columns have physical names."""
    return configuration.get(MAPPING_MODE, "none").lower() != "none"


def _used_properties(configuration: dict[str, str]) -> Iterator[tuple[str, frozenset[str]]]:
    if maps_columns(configuration):
        yield f"the property {MAPPING_MODE}", frozenset({"columnMapping"})
    for key, features in _FLAG_FEATURES.items():
        if configuration.get(key, "").lower() == "true":
            yield f"the property {key}", features
    if configuration.get(_POLICY, "").lower() == "v2":
        yield f"the property {_POLICY}", frozenset({"v2Checkpoint"})
    for key in configuration:
        if key.startswith("delta.constraints."):
            yield f"the property {key}", frozenset({"checkConstraints"})
