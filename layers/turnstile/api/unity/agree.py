"""UniForm: conversion state rides with every commit of a table that is read as Iceberg too, and with no other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from turnstile.api.unity.columns import check_partitions, same_columns
from turnstile.api.unity.requests import Iceberg
from turnstile.api.unity.responses import is_derived, of_clustering
from turnstile.api.unity.table_update import CLUSTERING, TableUpdate, check_features
from turnstile.catalog.create import UUID_PROPERTY
from turnstile.delta.core.content import ROW_TRACKING_DOMAIN, Content
from turnstile.delta.core.metadata import Beside, DeltaMetadata, apply, etag_of
from turnstile.store.core.errors import InvalidRequest

_FORMATS: Final = "delta.universalFormat.enabledFormats"
_LOCATION_CHARACTERS: Final = 65_535


def needs_uniform(properties: Mapping[str, str]) -> bool:
    """Whether commits must carry Iceberg's conversion state."""
    return "iceberg" in [one.strip() for one in properties.get(_FORMATS, "").split(",")]


def check_uniform(given: Iceberg | None, version: int, properties: Mapping[str, str], location: str) -> None:
    """Raise InvalidRequest unless ``given`` is there exactly when it must be, and about this commit and table.

    Args:
        version: the commit's version; a new table (version 0) may also give 1.
        properties: the table's as they are after the commit.
        location: of the table.
    """
    if (given is not None) != needs_uniform(properties):
        how = "is missing" if given is None else "is given"
        raise InvalidRequest(f"uniform {how}, and {_FORMATS} says otherwise", field="uniform")
    if given is None:
        return
    allowed = (0, 1) if version == 0 else (version,)
    if given.converted_delta_version not in allowed or (
        version == 0 and given.base_converted_delta_version is not None
    ):
        raise InvalidRequest("converted-delta-version must be the commit's version", field="uniform.iceberg")
    path = given.metadata_location
    below = path.replace("file:///", "file:/").startswith(location.replace("file:///", "file:/").rstrip("/") + "/")
    if not below or len(path) > _LOCATION_CHARACTERS or "/../" in path + "/":
        raise InvalidRequest("metadata-location must be below the table's location", field="uniform.iceberg")


# -- agree ------------------------------------------------------------------------------------------------------------
# What a request says about metadata, against what the log says.
#
# Readers believe the log. So the log decides everything it can say: protocol, columns, partition columns, and properties
# and comment that it holds. A request that says otherwise would leave a catalog that lies, and is refused. What the log
# does not hold, because the commit does not carry it, is kept beside it: the comment, and properties of the engine's or
# the user's own. Properties of Delta (``delta.*``) act on readers and writers, so the log must hold them.


_REMEDY = "write the change into the commit's file and send the same change"


def describe(asked: TableUpdate, id: str, before: DeltaMetadata, content: Content, version: int) -> DeltaMetadata:
    """The snapshot after the commit of ``asked`` became ``version``; see ``services.proposing.Describe``.

    Raises:
        InvalidRequest: the request and the commit contradict each other.
    """
    after = apply(before, content, version)
    if content.whole:
        check(asked, after)
    beside = put_beside(asked, after)
    visible = visible_properties(after, beside)
    check_uniform(asked.uniform, version, visible, asked.table_location)
    if not needs_uniform(visible):
        beside = msgspec.structs.replace(beside, uniform=None)
    if content.changes_metadata or _visible(beside) != _visible(before.beside):
        return msgspec.structs.replace(after, beside=_with_uniform(beside, asked))
    if asked.uniform is None:
        return before
    kept = msgspec.structs.replace(_with_uniform(beside, asked), etag=etag_of(id, before))
    return msgspec.structs.replace(before, beside=kept)


def redescribe(asked: TableUpdate, before: DeltaMetadata, now: int) -> DeltaMetadata:
    """The snapshot after an update without a commit, at ``now`` (ms): only what stands beside the log can change."""
    check(asked, before)
    beside = put_beside(asked, before)
    if _visible(beside) == _visible(before.beside):
        return before
    return msgspec.structs.replace(before, beside=msgspec.structs.replace(beside, etag="", updated=now))


def check(asked: TableUpdate, after: DeltaMetadata) -> None:
    """Raise InvalidRequest where ``asked`` contradicts the log as it is in ``after``."""
    fields = msgspec.json.decode(after.metadata["schemaString"]).get("fields") or []
    partitions = list(after.metadata.get("partitionColumns") or [])
    if asked.columns is not None and not same_columns(asked.columns, fields):
        raise _contradiction("columns")
    if asked.partitions is not None:
        check_partitions(asked.partitions, fields)
        if asked.partitions != partitions:
            raise _contradiction("partition-columns")
    if asked.protocol is not None and _protocol(asked.protocol) != _protocol(after.protocol):
        raise _contradiction("protocol")
    configuration = after.metadata.get("configuration") or {}
    if asked.set.get(UUID_PROPERTY, asked.uuid) != asked.uuid:
        raise InvalidRequest(f"{UUID_PROPERTY} is the table's uuid, {asked.uuid}", field="properties")
    for key, value in asked.set.items():
        if not is_derived(key) and configuration.get(key, None if key.startswith("delta.") else value) != value:
            raise _contradiction(f"property {key!r}", "properties")
    for key in asked.remove:
        if not is_derived(key) and key in configuration:
            raise _contradiction(f"property {key!r}", "properties")
    check_features(asked.set_domains, after.protocol.get("writerFeatures") or [])
    _check_domains(asked, after)
    description = after.metadata.get("description")
    if asked.comment is not msgspec.UNSET and description and description != asked.comment:
        raise _contradiction("comment")


def _check_domains(asked: TableUpdate, after: DeltaMetadata) -> None:
    """Domains are those of the log. Row tracking's is not compared: its mark is the HEAD's to know."""
    for name, wanted in asked.set_domains.items():
        if name != ROW_TRACKING_DOMAIN and _configuration(name, wanted) != _configuration(
            name, after.domains.get(name)
        ):
            raise _contradiction(f"domain {name!r}", "domain-metadata")
    for name in asked.remove_domains:
        if name in after.domains:
            raise _contradiction(f"domain {name!r}", "domain-metadata")


def _configuration(name: str, said: Any) -> Any:
    """What a domain says: the API's object, or the text in the log. Of clustering only the columns count."""
    if name == CLUSTERING:
        return of_clustering(said)
    try:
        return msgspec.json.decode(said) if isinstance(said, str) else said
    except msgspec.DecodeError:
        return said


def put_beside(asked: TableUpdate, after: DeltaMetadata) -> Beside:
    """What stands beside the log after ``asked``."""
    configuration = after.metadata.get("configuration") or {}
    before = after.beside.properties
    kept = {key: value for key, value in before.items() if not asked.replace or key == UUID_PROPERTY}
    kept |= asked.set
    for key in asked.remove:
        if key != UUID_PROPERTY:
            kept.pop(key, None)
    kept = {key: value for key, value in kept.items() if key not in configuration and not is_derived(key)}
    comment = after.beside.comment if asked.comment is msgspec.UNSET else asked.comment
    if after.metadata.get("description"):
        comment = None
    return msgspec.structs.replace(after.beside, properties=kept, comment=comment or None)


def visible_properties(snapshot: DeltaMetadata, beside: Beside) -> dict[str, str]:
    """Properties of the log and beside it, without derived ones."""
    return {**beside.properties, **(snapshot.metadata.get("configuration") or {})}


def _visible(beside: Beside) -> Any:
    return beside.properties, beside.comment


def _with_uniform(beside: Beside, asked: TableUpdate) -> Beside:
    if asked.uniform is None:
        return beside
    return msgspec.structs.replace(beside, uniform=msgspec.to_builtins(asked.uniform))


def _protocol(protocol: dict[str, Any]) -> Any:
    return (
        protocol.get("minReaderVersion"),
        protocol.get("minWriterVersion"),
        sorted(protocol.get("readerFeatures") or []),
        sorted(protocol.get("writerFeatures") or []),
    )


def _contradiction(what: str, field: str | None = None) -> InvalidRequest:
    return InvalidRequest(
        f"{what} in the request and in the table's log are not the same", field=field or what, remedy=_REMEDY
    )
