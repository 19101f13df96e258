"""External tables: what engines say when they register and update them."""

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
from turnstile.catalog.external import of_external, touched
from turnstile.store.core.errors import InvalidRequest, UnsupportedTable


def require_delta(table: Table) -> Table:
    """``table`` if it is a Delta table; raises UnsupportedTable, which sends engines to the older API."""
    if table.format.lower() != DELTA:
        raise UnsupportedTable(f"table '{table.name}' is a {table.format} table, not a Delta table", field="table")
    return table


def checked(about: External) -> External:
    """``about`` without another table's uuid, which a table's log keeps when it is copied or leaves a catalog.

    Raises:
        InvalidRequest: it claims that commits go through a catalog. Clients would believe that it is this one, which
            coordinates none of an external table.
    """
    protocol = about.protocol or {}
    named = [*(protocol.get("readerFeatures") or []), *(protocol.get("writerFeatures") or [])]
    for feature in CATALOG_MANAGED:
        if feature in named or f"delta.feature.{feature}" in about.properties:
            raise InvalidRequest(
                f"feature {feature!r} is of managed tables, and this one is external",
                field="protocol" if feature in named else f"properties.delta.feature.{feature}",
                remedy="create it as a managed table, or register a table that does not have the feature",
            )
    properties = {key: value for key, value in about.properties.items() if key != UUID_PROPERTY}
    return msgspec.structs.replace(about, properties=properties)


def registered(asked: requests.CreateTable, now: int) -> External:
    """What the Delta API's request says of a new external table.

    Raises:
        InvalidRequest: columns, partition columns or features that cannot be.
    """
    columns = to_delta(asked.columns) if asked.columns.get("fields") else []
    partitions = asked.partition_columns or []
    check_partitions(partitions, columns)
    if asked.uniform is not None:
        raise InvalidRequest("uniform rides with commits of managed tables", field="uniform")
    return checked(
        External(
            columns=tuple(columns),
            partition_columns=tuple(partitions),
            properties=asked.properties,
            protocol=asked.protocol.to_delta(),
            domains=checked_domains(asked.domain_metadata) if asked.domain_metadata else {},
            version=0,
            timestamp=asked.last_commit_timestamp_ms,
            updated=now,
        )
    )


def updated(asked: TableUpdate, etag: str, table: Table, now: int) -> Table:
    """``table`` after ``asked``; refusals in the order of the reference.

    Raises:
        RequirementFailed: another uuid or etag.
        InvalidRequest: commits are not coordinated here, or what is said cannot be.
    """
    if asked.uuid != table.table_id:
        raise RequirementFailed(f"the table's uuid is {table.table_id}, not {asked.uuid[:100]}")
    if asked.commit is not None or asked.published is not None:
        raise InvalidRequest("commits of an external table are not coordinated by the catalog", field="updates")
    about = of_external(table)
    said = checked(External(properties=asked.set, protocol=asked.protocol))
    changes: dict[str, Any] = {}
    columns = about.columns if asked.columns is None else tuple(asked.columns)
    partitions = about.partition_columns if asked.partitions is None else tuple(asked.partitions)
    check_partitions(partitions, columns)
    changes |= {"columns": columns, "partition_columns": partitions}
    if asked.protocol is not None:
        changes["protocol"] = asked.protocol
    properties = {**about.properties, **said.properties}
    changes["properties"] = {key: value for key, value in properties.items() if key not in asked.remove}
    domains = {**about.domains, **asked.set_domains}
    changes["domains"] = {key: value for key, value in domains.items() if key not in asked.remove_domains}
    if asked.snapshot is not None:
        changes["version"], changes["timestamp"] = asked.snapshot
    if asked.etag is not None and asked.etag != etag:
        raise RequirementFailed(f"the etag is {etag} now")
    comment = table.comment if asked.comment is msgspec.UNSET else asked.comment
    new = msgspec.structs.replace(table, comment=comment, external=touched(about, now, **changes))
    if comment != table.comment and new.external == about:
        new = msgspec.structs.replace(new, external=msgspec.structs.replace(about, updated=now))
    return new
