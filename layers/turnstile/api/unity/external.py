"""External tables: registration and updates by engines."""

from __future__ import annotations

from typing import Any

import msgspec

from turnstile.api.unity import requests
from turnstile.api.unity.columns import check_partitions, to_delta
from turnstile.api.unity.errors import RequirementFailed
from turnstile.api.unity.responses import CATALOG_MANAGED
from turnstile.api.unity.table_update import TableUpdate, checked_domains
from turnstile.catalog.core.entities import DELTA, External, Table
from turnstile.catalog.create import UUID_PROPERTY
from turnstile.catalog.external import of_external, updated_at
from turnstile.store.core.errors import InvalidRequest, UnsupportedTable


def require_delta(table: Table) -> Table:
    """Returns ``table`` if it is a Delta table; raises UnsupportedTable, which sends engines to the
    older API."""
    if table.format.lower() != DELTA:
        raise UnsupportedTable(f"table '{table.name}' is a {table.format} table, not a Delta table", field="table")
    return table


def without_foreign_uuid(about: External) -> External:
    """Returns ``about`` without another table's uuid, which a log keeps when the table is copied or
    leaves a catalog.

    Raises InvalidRequest for a feature of tables with commits through a catalog: clients would
    commit through this one, which coordinates no commits of an external table.
    """
    protocol = about.protocol or {}
    features = [*(protocol.get("readerFeatures") or []), *(protocol.get("writerFeatures") or [])]
    for feature in CATALOG_MANAGED:
        if feature in features or f"delta.feature.{feature}" in about.properties:
            raise InvalidRequest(
                f"feature {feature!r} is of managed tables, and this one is external",
                field="protocol" if feature in features else f"properties.delta.feature.{feature}",
                remedy="create it as a managed table, or register a table that does not have the feature",
            )
    properties = {key: value for key, value in about.properties.items() if key != UUID_PROPERTY}
    return msgspec.structs.replace(about, properties=properties)


def new_external_table(request: requests.CreateTable, now_ms: int) -> External:
    """Returns the description of a new external table from the Delta API's request; raises
    InvalidRequest."""
    columns = to_delta(request.columns) if request.columns.get("fields") else []
    partitions = request.partition_columns or []
    check_partitions(partitions, columns)
    if request.uniform is not None:
        raise InvalidRequest("uniform is only allowed with a commit of a managed table", field="uniform")
    return without_foreign_uuid(
        External(
            columns=tuple(columns),
            partition_columns=tuple(partitions),
            properties=request.properties,
            protocol=request.protocol.to_delta(),
            domains=checked_domains(request.domain_metadata) if request.domain_metadata else {},
            version=0,
            timestamp=request.last_commit_timestamp_ms,
            updated=now_ms,
        )
    )


def updated_table(update: TableUpdate, etag: str, table: Table, now_ms: int) -> Table:
    """Returns ``table`` after ``update``; refusals come in the order of the reference:
    RequirementFailed for another uuid or etag, InvalidRequest for a commit, which is not
    coordinated here, or a value that is not valid.
    """
    if update.uuid != table.table_id:
        raise RequirementFailed(f"the table's uuid is {table.table_id}, not {update.uuid[:100]}")
    if update.commit is not None or update.published is not None:
        raise InvalidRequest("commits of an external table are not coordinated by the catalog", field="updates")
    about = of_external(table)
    additions = without_foreign_uuid(External(properties=update.set, protocol=update.protocol))
    columns = about.columns if update.columns is None else tuple(update.columns)
    partitions = about.partition_columns if update.partitions is None else tuple(update.partitions)
    check_partitions(partitions, columns)
    properties = {**about.properties, **additions.properties}
    domains = {**about.domains, **update.set_domains}
    changes: dict[str, Any] = {
        "columns": columns,
        "partition_columns": partitions,
        "properties": {key: value for key, value in properties.items() if key not in update.remove},
        "domains": {key: value for key, value in domains.items() if key not in update.remove_domains},
        "protocol": update.protocol or about.protocol,
    }
    if update.snapshot is not None:
        changes["version"], changes["timestamp"] = update.snapshot
    if update.etag is not None and update.etag != etag:
        raise RequirementFailed(f"the etag is {etag} now")
    comment = table.comment if update.comment is msgspec.UNSET else update.comment
    after = msgspec.structs.replace(table, comment=comment, external=updated_at(about, now_ms, **changes))
    if comment != table.comment and after.external == about:
        after = msgspec.structs.replace(after, external=msgspec.structs.replace(about, updated=now_ms))
    return after
