"""A table by name, with all that a reader needs of it (docs/api.md)."""

from __future__ import annotations

from typing import Any

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType

from turnstile.api.http.authorization import needs
from turnstile.api.http.request import Query
from turnstile.api.services import services
from turnstile.api.v1.commits import Commit, commits_of
from turnstile.api.v1.paths import TABLE, table_names, table_of_path
from turnstile.catalog.load import TableState
from turnstile.delta.core.head import TableHead
from turnstile.rights.rules import see_table

routes = Blueprint(__name__)


class TableMetadata(msgspec.Struct, frozen=True):
    """A table's protocol, schema and properties as of ``version``, the last one that changed
    them."""

    id: str
    protocol: dict[str, Any]
    schema: msgspec.Raw
    partition_columns: list[str]
    properties: dict[str, str]
    comment: str | None
    domains: dict[str, Any]
    version: int


class TableStatistics(msgspec.Struct, frozen=True):
    """The totals of the files of ``version``. ``rows``: as far as statistics have them
    (``files_without_records`` do not), without rows in deletion vectors; ``partitions`` None: too
    many to count.
    """

    version: int
    files: int
    bytes: int
    rows: int
    files_without_records: int
    partitions: int | None


class LoadedTable(msgspec.Struct, frozen=True):
    """Everything a reader needs of a table, in one consistent view."""

    name: str
    table_id: str
    location: str
    format: str
    state: str
    etag: str
    created: int
    metadata: TableMetadata
    latest: int
    floor: int
    commits: list[Commit]
    statistics: TableStatistics | UnsetType | None = UNSET


def loaded_table(loaded: TableState) -> LoadedTable:
    """Returns the response of load by name; also of routes that answer "as load"."""
    head = loaded.head
    snapshot = loaded.metadata
    metadata = snapshot.metadata
    return LoadedTable(
        name=head.name,
        table_id=head.table_id,
        location=head.location,
        format="delta",
        state=head.state,
        etag=head.metadata,
        created=head.created,
        metadata=TableMetadata(
            id=str(metadata.get("id") or ""),
            protocol=snapshot.protocol,
            schema=msgspec.Raw(metadata["schemaString"].encode()),
            partition_columns=list(metadata.get("partitionColumns") or []),
            properties=dict(metadata.get("configuration") or {}),
            comment=metadata.get("description"),
            domains=snapshot.domains,
            version=snapshot.version,
        ),
        latest=head.latest,
        floor=head.floor,
        commits=commits_of(loaded.listing),
    )


@routes.route(TABLE, methods=["GET"])
@needs((see_table, table_of_path))
def load(catalog: str, namespace: str, table: str) -> LoadedTable:
    query = Query("content", "statistics")
    loaded = services().loader.load(*table_names(catalog, namespace, table), content=query.flag("content"))
    response = loaded_table(loaded)
    if not query.flag("statistics"):
        return response
    return msgspec.structs.replace(response, statistics=_statistics(loaded.head))


def _statistics(head: TableHead) -> TableStatistics | None:
    """The totals in the table's file index: one request. None: there is no index with totals."""
    from turnstile.planning.upkeep import newest_root

    stored = newest_root(services().world, head)
    totals = None if stored is None else stored.root.totals
    if totals is None or totals.version > head.floor:
        return None
    rows = max(0, totals.records - totals.deleted_rows)
    return TableStatistics(
        totals.version, totals.files, totals.bytes, rows, totals.files_without_records, totals.partitions
    )
