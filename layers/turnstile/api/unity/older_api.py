"""The older API's objects (snake_case). Optional members that are not set are null, as the reference has them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from turnstile.api.unity.columns import ColumnInfo, to_infos
from turnstile.api.unity.responses import external_properties, of_snapshot, timestamp_of
from turnstile.catalog.core.entities import Catalog, External, Namespace, Table
from turnstile.catalog.core.paths import dotted
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.store.ports import Vended

Map = dict[str, str]


class CatalogInfo(msgspec.Struct, frozen=True):
    """A catalog; times in ms."""

    name: str
    id: str
    created_at: int
    updated_at: int
    comment: str | None = None
    properties: Map = {}
    owner: str | None = None
    created_by: str | None = None
    updated_by: str | None = None
    storage_root: str | None = None
    storage_location: str | None = None


class SchemaInfo(msgspec.Struct, frozen=True):
    """A schema; times in ms."""

    name: str
    catalog_name: str
    full_name: str
    schema_id: str
    created_at: int
    updated_at: int
    comment: str | None = None
    properties: Map = {}
    owner: str | None = None
    created_by: str | None = None
    updated_by: str | None = None
    storage_root: str | None = None
    storage_location: str | None = None


class TableInfo(msgspec.Struct, frozen=True):
    """A table; times in ms."""

    name: str
    catalog_name: str
    schema_name: str
    table_type: str
    data_source_format: str
    columns: list[ColumnInfo]
    storage_location: str
    table_id: str
    created_at: int
    updated_at: int
    comment: str | None = None
    properties: Map = {}
    owner: str | None = None
    created_by: str | None = None
    updated_by: str | None = None
    view_definition: str | None = None
    view_dependencies: str | None = None


class Catalogs(msgspec.Struct, frozen=True):
    """A page of catalogs."""

    catalogs: list[CatalogInfo]
    next_page_token: str | None = None


class Schemas(msgspec.Struct, frozen=True):
    """A page of schemas."""

    schemas: list[SchemaInfo]
    next_page_token: str | None = None


class Tables(msgspec.Struct, frozen=True):
    """A page of tables."""

    tables: list[TableInfo]
    next_page_token: str | None = None


class StagingTable(msgspec.Struct, frozen=True):
    """A place for a new table."""

    name: str
    catalog_name: str
    schema_name: str
    id: str
    staging_location: str


class AwsKeys(msgspec.Struct, frozen=True):
    """Keys of S3."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None


class TemporaryCredentials(msgspec.Struct, frozen=True):
    """Keys for a location; ``expiration_time`` in ms."""

    aws_temp_credentials: AwsKeys | None = None
    azure_user_delegation_sas: dict[str, str] | None = None
    gcp_oauth_token: dict[str, str] | None = None
    expiration_time: int | None = None
    url: str | None = None


# -- bodies -----------------------------------------------------------------------------------------------------------


class NewCatalog(msgspec.Struct, frozen=True):
    """``POST /catalogs``."""

    name: str
    comment: str | None = None
    properties: Map | None = None
    storage_root: str | None = None


class ChangedCatalog(msgspec.Struct, frozen=True):
    """``PATCH /catalogs/{name}``; members left out are kept, properties are replaced."""

    comment: str | UnsetType | None = UNSET
    properties: Map | None = None
    new_name: str | None = None


class NewSchema(msgspec.Struct, frozen=True):
    """``POST /schemas``."""

    name: str
    catalog_name: str
    comment: str | None = None
    properties: Map | None = None
    storage_root: str | None = None


class ChangedSchema(msgspec.Struct, frozen=True):
    """``PATCH /schemas/{full}``; members left out are kept, properties are replaced."""

    comment: str | UnsetType | None = UNSET
    properties: Map | None = None
    new_name: str | None = None


class NewTable(msgspec.Struct, frozen=True):
    """``POST /tables``."""

    name: str
    catalog_name: str
    schema_name: str
    table_type: str
    columns: list[ColumnInfo] | None = None
    data_source_format: str | None = None
    storage_location: str | None = None
    comment: str | None = None
    properties: Map | None = None


class NewStagingTable(msgspec.Struct, frozen=True):
    """``POST /staging-tables``."""

    name: str
    catalog_name: str
    schema_name: str


class TableKeys(msgspec.Struct, frozen=True):
    """``POST /temporary-table-credentials``."""

    table_id: str
    operation: Literal["READ", "READ_WRITE"]


class PathKeys(msgspec.Struct, frozen=True):
    """``POST /temporary-path-credentials``."""

    url: str
    operation: Literal["PATH_READ", "PATH_READ_WRITE", "PATH_CREATE_TABLE"]


# -- from what is stored ----------------------------------------------------------------------------------------------


def catalog(found: Catalog, id: str, owner: str) -> CatalogInfo:
    """A catalog; ``id`` is for one made before catalogs had ids of their own, ``owner`` empty for none."""
    return CatalogInfo(
        name=found.name,
        id=found.id or id,
        created_at=found.created,
        updated_at=found.updated or found.created,
        comment=found.comment,
        properties=found.properties,
        owner=owner or None,
    )


def schema(catalog: str, path: tuple[str, ...], found: Namespace) -> SchemaInfo:
    """A schema; one of several levels is written ``a.b``."""
    return SchemaInfo(
        name=dotted(*path),
        catalog_name=catalog,
        full_name=dotted(catalog, *path),
        schema_id=found.id,
        created_at=found.created,
        updated_at=found.updated or found.created,
        comment=found.comment,
        properties=found.properties,
        owner=found.access.owner or None,
    )


def managed(
    catalog: str, namespace: str, name: str, head: TableHead, snapshot: DeltaMetadata, *, owner: str
) -> TableInfo:
    """A coordinated table; ``owner`` empty for none."""
    said, timestamp = snapshot.metadata, timestamp_of(head, snapshot)
    fields: list[dict[str, Any]] = msgspec.json.decode(said["schemaString"]).get("fields") or []
    return TableInfo(
        name=name,
        catalog_name=catalog,
        schema_name=namespace,
        table_type="MANAGED",
        data_source_format="DELTA",
        columns=to_infos(fields, list(said.get("partitionColumns") or [])),
        storage_location=head.location,
        table_id=head.table_id,
        created_at=head.created,
        updated_at=max(head.created, timestamp, snapshot.beside.updated),
        comment=said.get("description") or snapshot.beside.comment,
        properties=of_snapshot(snapshot, timestamp, head.row_hwm),
        owner=owner or None,
    )


def external(catalog: str, namespace: str, table: Table) -> TableInfo:
    """A table that is registered only."""
    about = table.external or External()
    return TableInfo(
        name=table.name,
        catalog_name=catalog,
        schema_name=namespace,
        table_type="EXTERNAL",
        data_source_format=table.format.upper(),
        columns=to_infos(about.columns, about.partition_columns),
        storage_location=table.location,
        table_id=table.table_id,
        created_at=table.created,
        updated_at=max(table.created, about.updated),
        comment=table.comment,
        properties=external_properties(about),
        owner=table.access.owner or None,
    )


def credentials(vended: tuple[Vended, ...], url: str) -> TemporaryCredentials:
    """The first of the vended keys in the older API's words; nothing for local files."""
    if not vended:
        return TemporaryCredentials(url=url)
    one = vended[0]
    config = one.config
    aws = None
    if "s3.access-key-id" in config:
        aws = AwsKeys(config["s3.access-key-id"], config["s3.secret-access-key"], config.get("s3.session-token"))
    return TemporaryCredentials(
        aws_temp_credentials=aws,
        azure_user_delegation_sas={"sas_token": config["azure.sas-token"]} if "azure.sas-token" in config else None,
        gcp_oauth_token={"oauth_token": config["gcs.oauth-token"]} if "gcs.oauth-token" in config else None,
        expiration_time=one.expires,
        url=url,
    )
