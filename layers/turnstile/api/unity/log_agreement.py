"""What a request says about a table's metadata, against what the table's log says.

Readers believe the log. So the log decides about everything it holds: protocol, columns, partition columns, and the
properties and the comment in it. A request that contradicts it is refused: the catalog would show what is not so. What the
log does not hold, because the commit does not carry it, is kept beside it: the comment, and properties of the engine or the
user. Properties of Delta (``delta.*``) act on readers and writers, so they must be in the log.

UniForm: the conversion state comes with every commit of a table that is also read as Iceberg, and with no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from turnstile.api.unity.columns import check_partitions, same_columns
from turnstile.api.unity.requests import Iceberg
from turnstile.api.unity.responses import clustering_properties, is_derived
from turnstile.api.unity.table_update import CLUSTERING, TableUpdate, check_features
from turnstile.catalog.create import UUID_PROPERTY
from turnstile.delta.core.content import ROW_TRACKING_DOMAIN, Content
from turnstile.delta.core.metadata import Beside, DeltaMetadata, apply, etag_of
from turnstile.store.core.errors import InvalidRequest

_FORMATS: Final = "delta.universalFormat.enabledFormats"
_LOCATION_CHARACTERS: Final = 65_535
_REMEDY: Final = "write the change into the commit's file and send the same change"


def metadata_after_commit(
    update: TableUpdate, id: str, before: DeltaMetadata, content: Content, version: int
) -> DeltaMetadata:
    """Returns the table metadata after the commit of ``update`` became ``version``; see ``CommitRequest.describe``.

    Raises:
        InvalidRequest: the request and the commit contradict each other.
    """
    after = apply(before, content, version)
    if content.whole:
        check_agreement(update, after)
    beside = _beside_after(update, after)
    visible = visible_properties(after, beside)
    check_uniform(update.uniform, version, visible, update.table_location)
    if not needs_uniform(visible):
        beside = msgspec.structs.replace(beside, uniform=None)
    if content.changes_metadata or _visible(beside) != _visible(before.beside):
        return msgspec.structs.replace(after, beside=_with_uniform(beside, update))
    if update.uniform is None:
        return before
    kept = msgspec.structs.replace(_with_uniform(beside, update), etag=etag_of(id, before))
    return msgspec.structs.replace(before, beside=kept)


def metadata_after_update(update: TableUpdate, before: DeltaMetadata, now_ms: int) -> DeltaMetadata:
    """Returns the table metadata after an update without a commit: only what is beside the log can change.

    Raises:
        InvalidRequest: the request contradicts the log.
    """
    check_agreement(update, before)
    beside = _beside_after(update, before)
    if _visible(beside) == _visible(before.beside):
        return before
    return msgspec.structs.replace(before, beside=msgspec.structs.replace(beside, etag="", updated=now_ms))


def check_agreement(update: TableUpdate, after: DeltaMetadata) -> None:
    """Raises InvalidRequest where ``update`` contradicts the log as it is in ``after``."""
    fields = msgspec.json.decode(after.metadata["schemaString"]).get("fields") or []
    partitions = list(after.metadata.get("partitionColumns") or [])
    if update.columns is not None and not same_columns(update.columns, fields):
        raise _contradiction("columns")
    if update.partitions is not None:
        check_partitions(update.partitions, fields)
        if update.partitions != partitions:
            raise _contradiction("partition-columns")
    if update.protocol is not None and _protocol(update.protocol) != _protocol(after.protocol):
        raise _contradiction("protocol")
    configuration = after.metadata.get("configuration") or {}
    if update.set.get(UUID_PROPERTY, update.uuid) != update.uuid:
        raise InvalidRequest(f"{UUID_PROPERTY} is the table's uuid, {update.uuid}", field="properties")
    for key, value in update.set.items():
        if not is_derived(key) and configuration.get(key, None if key.startswith("delta.") else value) != value:
            raise _contradiction(f"property {key!r}", "properties")
    for key in update.remove:
        if not is_derived(key) and key in configuration:
            raise _contradiction(f"property {key!r}", "properties")
    check_features(update.set_domains, after.protocol.get("writerFeatures") or [])
    _check_domains(update, after)
    description = after.metadata.get("description")
    if update.comment is not msgspec.UNSET and description and description != update.comment:
        raise _contradiction("comment")


def _check_domains(update: TableUpdate, after: DeltaMetadata) -> None:
    """Domains are those of the log. Row tracking's is not compared: its high-water mark is in the HEAD."""
    for name, wanted in update.set_domains.items():
        if name != ROW_TRACKING_DOMAIN and _configuration(name, wanted) != _configuration(
            name, after.domains.get(name)
        ):
            raise _contradiction(f"domain {name!r}", "domain-metadata")
    for name in update.remove_domains:
        if name in after.domains:
            raise _contradiction(f"domain {name!r}", "domain-metadata")


def _configuration(name: str, value: Any) -> Any:
    """The configuration of a domain, from the API's object or the log's text; of clustering only the columns."""
    if name == CLUSTERING:
        return clustering_properties(value)
    try:
        return msgspec.json.decode(value) if isinstance(value, str) else value
    except msgspec.DecodeError:
        return value


def _beside_after(update: TableUpdate, after: DeltaMetadata) -> Beside:
    """What is beside the log after ``update``."""
    configuration = after.metadata.get("configuration") or {}
    before = after.beside.properties
    kept = {key: value for key, value in before.items() if not update.replace or key == UUID_PROPERTY}
    kept |= update.set
    for key in update.remove:
        if key != UUID_PROPERTY:
            kept.pop(key, None)
    kept = {key: value for key, value in kept.items() if key not in configuration and not is_derived(key)}
    comment = after.beside.comment if update.comment is msgspec.UNSET else update.comment
    if after.metadata.get("description"):
        comment = None
    return msgspec.structs.replace(after.beside, properties=kept, comment=comment or None)


def visible_properties(metadata: DeltaMetadata, beside: Beside) -> dict[str, str]:
    """Properties in the log and beside it, without derived ones."""
    return {**beside.properties, **(metadata.metadata.get("configuration") or {})}


def _visible(beside: Beside) -> Any:
    return beside.properties, beside.comment


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


def needs_uniform(properties: Mapping[str, str]) -> bool:
    """Whether commits must carry Iceberg's conversion state."""
    return "iceberg" in [format.strip() for format in properties.get(_FORMATS, "").split(",")]


def check_uniform(iceberg: Iceberg | None, version: int, properties: Mapping[str, str], location: str) -> None:
    """Raises InvalidRequest unless conversion state is there exactly when it must be, and is of this commit and table.

    Args:
        version: the commit's version; a new table (version 0) may also give 1.
        properties: the table's as they are after the commit.
        location: of the table.
    """
    if (iceberg is not None) != needs_uniform(properties):
        how = "is missing" if iceberg is None else "is given"
        raise InvalidRequest(f"uniform {how}, and {_FORMATS} says otherwise", field="uniform")
    if iceberg is None:
        return
    allowed = (0, 1) if version == 0 else (version,)
    has_base = iceberg.base_converted_delta_version is not None
    if iceberg.converted_delta_version not in allowed or (version == 0 and has_base):
        raise InvalidRequest("converted-delta-version must be the commit's version", field="uniform.iceberg")
    path = iceberg.metadata_location
    below = path.replace("file:///", "file:/").startswith(location.replace("file:///", "file:/").rstrip("/") + "/")
    if not below or len(path) > _LOCATION_CHARACTERS or "/../" in path + "/":
        raise InvalidRequest("metadata-location must be below the table's location", field="uniform.iceberg")


def _with_uniform(beside: Beside, update: TableUpdate) -> Beside:
    if update.uniform is None:
        return beside
    return msgspec.structs.replace(beside, uniform=msgspec.to_builtins(update.uniform))
