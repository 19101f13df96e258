"""Table features by their names: the known ones, and the ones that a table's metadata uses.

Source: Delta protocol, "Valid Feature Names in Table Features", "Table Features", "Supported
Features for Legacy Versions". Delta does not open a table with a protocol that lists features, if
its metadata uses one that is not listed; under a protocol that is a pair of version numbers it does
not check that. So a change from the second form to the first has to list the features that the
metadata uses.
"""

from __future__ import annotations

from typing import Any, Final

from turnstile.delta.core.definition import used_features
from turnstile.delta.core.protocols import OTHER_COORDINATORS, Protocol, as_features, features
from turnstile.delta.core.schemas import columns_of, needed_features
from turnstile.store.core.errors import UnsupportedTable

KNOWN_FEATURES: Final = frozenset({
    "allowColumnDefaults", "appendOnly", "catalogManaged", "catalogOwned-preview", "changeDataFeed", "checkConstraints",
    "checkpointProtection", "clustering", "columnMapping", "deletionVectors", "domainMetadata", "generatedColumns",
    "icebergCompatV1",
    "icebergCompatV2", "icebergCompatV3", "identityColumns", "inCommitTimestamp", "invariants",
    "materializePartitionColumns",
    "rowTracking", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck",
    "variantShredding",
    "variantShredding-preview", "variantType", "variantType-preview",
})  # fmt: skip
"""Features that leave known traces in a log, in files and in a checkpoint."""

_ADDED: Final = frozenset({
    "allowColumnDefaults", "appendOnly", "changeDataFeed", "checkConstraints", "columnMapping", "deletionVectors",
    "generatedColumns",
    "icebergCompatV1", "icebergCompatV2", "identityColumns", "invariants", "timestampNtz", "typeWidening",
    "v2Checkpoint",
    "variantType",
})  # fmt: skip
"""Features that mean no more than that the metadata is carried out: row tracking, for example, also
needs columns with names."""

_PASSED_OVER: Final = frozenset({"allowColumnDefaults", "typeWidening"})
"""Features that a column's metadata may use although a protocol that lists features does not list
them: Delta opens such a table."""

_REQUIRES: Final = {"icebergCompatV1": ("columnMapping",), "icebergCompatV2": ("columnMapping",)}


def unknown_features(protocol: Protocol) -> list[str]:
    """The features that ``protocol`` names for readers or writers and that are not known here.
    Raises UnsupportedTable as ``as_features``."""
    for_readers, for_writers = as_features(protocol)
    return sorted({*for_readers, *for_writers} - KNOWN_FEATURES)


def check_protocol_known(protocol: Protocol) -> None:
    """Checks that each feature of a table is known here by its name, and that the protocol lists
    features if its versions say so, and only then: Delta opens no other. Features by which others
    decide about commits are not looked at. Raises UnsupportedTable, which names all that are not
    known.
    """
    unknown = [feature for feature in unknown_features(protocol) if feature not in OTHER_COORDINATORS]
    if unknown:
        many = len(unknown) > 1
        raise UnsupportedTable(
            f"the table has the feature{'s' if many else ''} {', '.join(unknown)[:500]}, which "
            f"{'are' if many else 'is'} not known here",
            field="location",
            remedy="take it off with an engine that knows it (ALTER TABLE ... DROP FEATURE), or use a release of "
            "Turnstile that does",
        )
    reader = protocol["minReaderVersion"]
    writer = protocol["minWriterVersion"]
    for member, version, lists in (("readerFeatures", reader, reader == 3), ("writerFeatures", writer, writer == 7)):
        given = protocol.get(member)
        if (given is None) if lists else bool(given):
            what = "lists no" if lists else "lists"
            raise _inconsistent(f"version {version} of its protocol {what} {member}")
    if reader == 3 and writer != 7:
        raise _inconsistent(f"its protocol has version 3 for readers and {writer} for writers")


def _inconsistent(what: str) -> UnsupportedTable:
    return UnsupportedTable(
        f"the table's log cannot be read: {what}; Delta's readers do not open such a table",
        field="location",
        remedy="write its protocol as the engine does that made the table",
    )


def features_to_list(protocol: Protocol, metadata: dict[str, Any]) -> list[str]:
    """The features that a protocol which lists all features of ``protocol`` has to list as well,
    since the metadata uses them. For a protocol that lists features already: only features without
    which Delta opens the table. Other missing features are an error, which
    ``turnstile.delta.core.definition`` raises.
    """
    supported = {*features(protocol, "readerFeatures"), *as_features(protocol)[1]}
    configuration = metadata.get("configuration") or {}
    fields = columns_of(metadata["schemaString"])
    if protocol["minWriterVersion"] < 7:
        used = used_features(configuration, fields)
        allowed = _ADDED
    else:
        used = needed_features(fields)
        allowed = _PASSED_OVER
    more = set[str]()
    for _, alternatives in used:
        if not alternatives & supported:
            for feature in alternatives & allowed:
                more |= {feature, *_REQUIRES.get(feature, ())}
    return sorted(more - supported)
