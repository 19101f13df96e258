"""The create contract: the required and suggested features of a new managed table, by its catalog's
property ``POLICY``.

``full`` (the default) is the reference's contract; ``lean`` requires the features that coordination
needs and suggests nothing, because row tracking and column mapping cost every writer time.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec import UNSET

from turnstile.api.unity import requests, responses
from turnstile.api.unity.columns import check_partitions, to_delta
from turnstile.api.unity.table_update import (
    CLUSTERING,
    TableUpdate,
    beside_log,
    check_agreement,
    check_features,
    check_uniform,
    checked_domains,
    visible_properties,
)
from turnstile.catalog.create import UUID_PROPERTY, StagingTable
from turnstile.delta.core.content import ROW_TRACKING_DOMAIN, Content
from turnstile.delta.core.metadata import DeltaMetadata, first_metadata
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.ports import VendedCredentials

POLICY: Final = "turnstile.create-contract"
Policy = Literal["full", "lean"]

_READER: Final = {
    "full": ("catalogManaged", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors"),
    "lean": ("catalogManaged", "vacuumProtocolCheck"),
}
_PROPERTIES: Final[dict[str, dict[str, str]]] = {
    "full": {
        "delta.enableDeletionVectors": "true",
        "delta.checkpointPolicy": "v2",
        "delta.enableInCommitTimestamps": "true",
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.checkpoint.writeStatsAsJson": "true",
    },
    "lean": {"delta.enableInCommitTimestamps": "true"},
}
_BESIDE_THE_LOG: Final = frozenset({"delta.checkpointPolicy"})
"""Required properties that version 0 may lack: delta-kernel-rs sends this one, because the contract
requires it, and has no way to write it into the log. It only tells writers how to write
checkpoints.
"""
_SUGGESTED: Final[dict[str, str | None]] = {
    "delta.columnMapping.mode": "name",
    "delta.columnMapping.maxColumnId": None,
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": None,
    "delta.rowTracking.materializedRowCommitVersionColumnName": None,
    "delta.randomizeFilePrefixes": "true",
    "delta.parquet.compression.codec": "zstd",
}


def staging_table(table: StagingTable, vended: tuple[VendedCredentials, ...], policy: Policy) -> responses.StagingTable:
    full = policy == "full"
    return responses.StagingTable(
        table_id=table.table_id,
        table_type="MANAGED",
        location=table.location,
        storage_credentials=responses.credentials(vended),
        required_protocol=requests.Protocol(3, 7, list(_READER[policy]), [*_READER[policy], "inCommitTimestamp"]),
        suggested_protocol=responses.Features(
            ["columnMapping"] if full else [], ["columnMapping", "domainMetadata", "rowTracking"] if full else []
        ),
        required_properties={**_PROPERTIES[policy], UUID_PROPERTY: table.table_id},
        suggested_properties=dict(_SUGGESTED) if full else {},
    )


def check_request(request: requests.CreateTable, table_id: str, policy: Policy) -> None:
    """Checks the request for a managed table against the contract; raises InvalidRequest naming the
    member."""
    protocol = request.protocol
    if protocol.min_reader_version < 3 or protocol.min_writer_version < 7:
        raise InvalidRequest("a managed table needs reader version 3 and writer version 7", field="protocol")
    readers = protocol.reader_features or []
    writers = protocol.writer_features or []
    for feature in _READER[policy]:
        if feature not in readers or feature not in writers:
            raise InvalidRequest(f"feature {feature!r} is missing in the protocol", field="protocol")
    if not {*readers} <= {*writers} or "inCommitTimestamp" not in writers:
        raise InvalidRequest(
            "writer-features must hold inCommitTimestamp and all reader-features", field="protocol.writer-features"
        )
    check_features(checked_domains(request.domain_metadata) if request.domain_metadata else {}, writers)
    for key, value in {**_PROPERTIES[policy], UUID_PROPERTY: table_id}.items():
        if request.properties.get(key) != value:
            raise InvalidRequest(f"property {key!r} must be {value!r}", field=f"properties.{key}")
    if request.last_commit_timestamp_ms <= 0:
        raise InvalidRequest("last-commit-timestamp-ms must be positive", field="last-commit-timestamp-ms")
    check_partitions(request.partition_columns or [], to_delta(request.columns))


def initial_metadata(request: requests.CreateTable, table_id: str, location: str, content: Content) -> DeltaMetadata:
    """Returns the table metadata of version 0; raises InvalidRequest if the request contradicts
    it."""
    after = first_metadata(content)
    configuration = after.metadata.get("configuration") or {}
    in_log = {*request.properties} - {UUID_PROPERTY} - (_BESIDE_THE_LOG - {*configuration})
    clustering = (request.domain_metadata or {}).get(CLUSTERING)
    update = TableUpdate(
        uuid=table_id,
        columns=to_delta(request.columns),
        partitions=request.partition_columns,
        protocol=request.protocol.to_delta(),
        set={key: value for key, value in request.properties.items() if key in in_log},
        comment=request.comment or UNSET,
        set_domains={CLUSTERING: clustering} if clustering else {},
    )
    if content.whole:
        check_agreement(update, after)
    beside = beside_log(after, {**request.properties, UUID_PROPERTY: table_id}, request.comment or None)
    iceberg = request.uniform.iceberg if request.uniform else None
    check_uniform(iceberg, 0, visible_properties(after, beside), location)
    uniform = None if iceberg is None else dict(msgspec.to_builtins(iceberg))
    marked = ROW_TRACKING_DOMAIN in (request.domain_metadata or {})
    return msgspec.structs.replace(after, beside=msgspec.structs.replace(beside, uniform=uniform, row_mark=marked))
