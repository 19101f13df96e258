"""Requests of Unity's clients: names in paths and queries, and bodies of the Delta API
(``delta/v1``).

An impossible name is not found when it is looked up, and refused when it is created. Unknown
members of bodies are skipped; a null counts as left out. Times are in ms, sizes in bytes.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from turnstile.access.authorizer import Target
from turnstile.api.http.authorization import Params
from turnstile.api.http.request import Query, current
from turnstile.api.unity.errors import DELTA
from turnstile.catalog.core.paths import Path, dotted_name
from turnstile.delta.core.head import PINNED, TableHead
from turnstile.store.core.errors import InvalidRequest, NotFound, UnsupportedTable
from turnstile.store.core.limits import NonNegative32, NonNegativeExact
from turnstile.store.core.names import check_identifier, check_namespace

SCHEMA: Final = DELTA + "/catalogs/{catalog}/schemas/{schema}"
TABLE: Final = SCHEMA + "/tables/{table}"


def find_catalog(name: str) -> str:
    """The name of a catalog to look up; raises NotFound for a text that is no name."""
    try:
        return check_identifier(name, "catalog")
    except InvalidRequest:
        raise NotFound("catalog", name[:300], field="catalog") from None


def find_schema(catalog: str, schema: str) -> tuple[str, Path]:
    """The path of a schema to look up; several levels are written ``a.b``. Raises as
    ``find_catalog``."""
    catalog = find_catalog(catalog)
    try:
        return catalog, check_namespace(schema)
    except InvalidRequest:
        raise NotFound("namespace", dotted_name(catalog, schema)[:600], field="schema") from None


def find_table(catalog: str, schema: str, table: str) -> tuple[str, Path, str]:
    """The path of a table to look up; raises as ``find_catalog``."""
    catalog, namespace = find_schema(catalog, schema)
    try:
        return catalog, namespace, check_identifier(table, "table")
    except InvalidRequest:
        raise NotFound("table", dotted_name(catalog, schema, table)[:900], field="table") from None


def full_schema(full: str) -> tuple[str, Path]:
    """As ``find_schema``, for ``catalog.schema``; raises NotFound also when one of them is
    missing."""
    catalog, _, schema = full.partition(".")
    if not (catalog and schema):
        raise NotFound("namespace", full[:600], field="full_name", remedy="write catalog.schema")
    return find_schema(catalog, schema)


def full_table(full: str) -> tuple[str, Path, str]:
    """As ``find_table``, for ``catalog.schema.table``; raises NotFound also when one of them is
    missing."""
    catalog, _, rest = full.partition(".")
    schema, _, table = rest.rpartition(".")
    if not (catalog and schema and table):
        raise NotFound("table", full[:900], field="full_name", remedy="write catalog.schema.table")
    return find_table(catalog, schema, table)


def schema_of_path(params: Params) -> Target:
    """The schema of ``SCHEMA``."""
    return Target(*find_schema(params["catalog"], params["schema"]))


def table_of_path(params: Params) -> Target:
    """The table of ``TABLE``."""
    return Target(*find_table(params["catalog"], params["schema"], params["table"]))


def query() -> Query:
    """Returns the request's query; members that these APIs do not know are skipped."""
    return Query(*current().query)


def required_member(member: str) -> str:
    """Returns this member of the query; raises InvalidRequest if it is missing."""
    value = query().text(member)
    if value is None:
        raise InvalidRequest(f"{member} is missing", field=member)
    return value


def require_no_clone(head: TableHead) -> TableHead:
    """Returns ``head``; raises UnsupportedTable for a clone's.

    Engines find a table's files by its folder and its uuid in its log. These APIs cannot say "this
    version and no later one": an engine would read the source as it is now, and commit to it;
    credentials would open the whole folder.
    """
    if head.state == PINNED:
        raise UnsupportedTable(
            f"'{head.name}' is a clone, pinned to version {head.latest} of another table",
            field="table",
            remedy=f"read version {head.latest} of its source, or attach the catalog with turnstile_spark, which reads "
            f"clones",
            version=head.latest,
        )
    return head


# -- bodies ------------------------------------------------------------------------------------------------------------

Map = dict[str, str]


class Body(msgspec.Struct, frozen=True, rename="kebab"):
    """Base of all bodies: kebab-case members."""


class Protocol(Body, frozen=True):
    """A protocol action in the API's spelling."""

    min_reader_version: NonNegative32
    min_writer_version: NonNegative32
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None

    def to_delta(self) -> dict[str, Any]:
        """The protocol in Delta's JSON."""
        protocol = {
            "minReaderVersion": self.min_reader_version,
            "minWriterVersion": self.min_writer_version,
            "readerFeatures": self.reader_features,
            "writerFeatures": self.writer_features,
        }
        return {key: value for key, value in protocol.items() if value is not None}


class Iceberg(Body, frozen=True, omit_defaults=True):
    """UniForm's conversion state."""

    metadata_location: str
    converted_delta_version: NonNegativeExact
    converted_delta_timestamp: NonNegativeExact
    base_converted_delta_version: NonNegativeExact | None = None


class Uniform(Body, frozen=True):
    """Conversions that ride with a commit."""

    iceberg: Iceberg | None = None


class Commit(Body, frozen=True):
    """A staged commit; in a response one that is ratified, and not known to be published."""

    version: int
    timestamp: int
    file_name: str
    file_size: int
    file_modification_timestamp: int


class StageTable(Body, frozen=True):
    """``POST .../staging-tables``."""

    name: str


class CreateTable(Body, frozen=True):
    """``POST .../tables``."""

    name: str
    location: str
    table_type: Literal["MANAGED", "EXTERNAL"]
    columns: dict[str, Any]
    protocol: Protocol
    properties: Map
    last_commit_timestamp_ms: NonNegativeExact
    comment: str | None = None
    partition_columns: list[str] | None = None
    domain_metadata: dict[str, dict[str, Any] | None] | None = None
    uniform: Uniform | None = None
    row_filter: Any = None


class Rename(Body, frozen=True):
    """``POST .../rename``."""

    new_name: str


class Metrics(Body, frozen=True):
    """``POST .../metrics``."""

    table_id: str
    report: dict[str, Any] | None = None


class AssertUuid(Body, frozen=True, tag_field="type", tag="assert-table-uuid"):
    """The name must still lead to this table."""

    uuid: str


class AssertEtag(Body, frozen=True, tag_field="type", tag="assert-etag"):
    """The visible metadata must still be the same as when it was loaded."""

    etag: str


class AddCommit(Body, frozen=True, tag_field="action", tag="add-commit"):
    """Ratify a staged commit."""

    commit: Commit
    uniform: Uniform | None = None


class SetPublished(Body, frozen=True, tag_field="action", tag="set-latest-backfilled-version"):
    """The client's claim that everything up to here is in ``_delta_log``."""

    latest_published_version: int


class SetProperties(Body, frozen=True, tag_field="action", tag="set-properties"):
    """Set these properties."""

    updates: Map


class RemoveProperties(Body, frozen=True, tag_field="action", tag="remove-properties"):
    """Remove these properties."""

    removals: list[str]


class SetColumns(Body, frozen=True, tag_field="action", tag="set-columns"):
    """Replace the columns."""

    columns: dict[str, Any]


class SetPartitions(Body, frozen=True, tag_field="action", tag="set-partition-columns"):
    """Replace the partition columns."""

    partition_columns: list[str]


class SetComment(Body, frozen=True, tag_field="action", tag="set-table-comment"):
    """Set the comment; null removes it."""

    comment: str | None


class SetProtocol(Body, frozen=True, tag_field="action", tag="set-protocol"):
    """Replace the protocol."""

    protocol: Protocol


class SetDomains(Body, frozen=True, tag_field="action", tag="set-domain-metadata"):
    """Set domains by name; a null is skipped."""

    updates: dict[str, dict[str, Any] | None]


class RemoveDomains(Body, frozen=True, tag_field="action", tag="remove-domain-metadata"):
    """Remove domains by name."""

    domains: list[str]


class SetSnapshotVersion(Body, frozen=True, tag_field="action", tag="update-metadata-snapshot-version"):
    """The version that an external table's metadata reflects."""

    last_commit_version: int
    last_commit_timestamp_ms: int


SetMetadata = SetProperties | SetColumns | SetPartitions | SetComment | SetProtocol | SetDomains
RemoveMetadata = RemoveProperties | RemoveDomains


class Update(Body, frozen=True):
    """``POST .../tables/{table}``."""

    requirements: list[AssertUuid | AssertEtag]
    updates: list[AddCommit | SetPublished | SetMetadata | RemoveMetadata | SetSnapshotVersion]
