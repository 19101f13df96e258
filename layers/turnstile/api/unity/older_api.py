"""Responses and requests of the older API (snake_case). Optional members that are not set are null,
as in the reference; times are in ms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from turnstile.api.unity.columns import ColumnInfo, SentColumn, to_infos
from turnstile.api.unity.responses import external_properties, table_properties, timestamp_of
from turnstile.catalog.core.entities import Catalog, External, Namespace, Table
from turnstile.catalog.core.paths import dotted_name
from turnstile.delta.core.actions import fields_of
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.store.ports import VendedCredentials

if TYPE_CHECKING:
    from turnstile.catalog.core.entities import IcebergView
    from turnstile.iceberg.core.unity_views import UnityView

Map = dict[str, str]


class Info(msgspec.Struct, frozen=True, kw_only=True):
    """Common members of catalogs, schemas and tables."""

    name: str
    created_at: int
    updated_at: int
    comment: str | None = None
    properties: Map = {}
    owner: str | None = None
    created_by: str | None = None
    updated_by: str | None = None


class CatalogInfo(Info, frozen=True, kw_only=True):
    """A catalog."""

    id: str
    storage_root: str | None = None
    storage_location: str | None = None


class SchemaInfo(Info, frozen=True, kw_only=True):
    """A schema."""

    catalog_name: str
    full_name: str
    schema_id: str
    storage_root: str | None = None
    storage_location: str | None = None


class TableInfo(Info, frozen=True, kw_only=True):
    """A table."""

    catalog_name: str
    schema_name: str
    table_type: str
    data_source_format: str | None
    columns: list[ColumnInfo]
    storage_location: str | None
    table_id: str
    view_definition: str | None = None
    view_dependencies: Any = None


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


class NewStagingTable(msgspec.Struct, frozen=True):
    """``POST /staging-tables``."""

    name: str
    catalog_name: str
    schema_name: str


class StagingTable(NewStagingTable, frozen=True):
    """A location for a new table."""

    id: str
    staging_location: str


class AwsCredentials(msgspec.Struct, frozen=True):
    """Credentials for S3."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None


class TemporaryCredentials(msgspec.Struct, frozen=True):
    """Credentials for a location."""

    aws_temp_credentials: AwsCredentials | None = None
    azure_user_delegation_sas: dict[str, str] | None = None
    gcp_oauth_token: dict[str, str] | None = None
    expiration_time: int | None = None
    url: str | None = None


class NewCatalog(msgspec.Struct, frozen=True):
    """``POST /catalogs``."""

    name: str
    comment: str | None = None
    properties: Map | None = None
    storage_root: str | None = None


class Changed(msgspec.Struct, frozen=True):
    """``PATCH /catalogs/{name}`` and ``/schemas/{full}``. Members left out are kept. Given
    properties replace the present ones; an empty map keeps them, since Unity's Java client sends
    one with each change of a comment or name.
    """

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


class NewTable(NewStagingTable, frozen=True):
    """``POST /tables``."""

    table_type: str
    columns: list[SentColumn] | None = None
    data_source_format: str | None = None
    storage_location: str | None = None
    comment: str | None = None
    properties: Map | None = None
    row_filter: Any = None
    view_definition: str | None = None
    view_dependencies: Any = None


class TableCredentialsRequest(msgspec.Struct, frozen=True):
    """``POST /temporary-table-credentials``."""

    table_id: str
    operation: Literal["READ", "READ_WRITE"]


class PathCredentialsRequest(msgspec.Struct, frozen=True):
    """``POST /temporary-path-credentials``."""

    url: str
    operation: Literal["PATH_READ", "PATH_READ_WRITE", "PATH_CREATE_TABLE"]


def _members(entity: Catalog | Namespace, owner: str) -> dict[str, Any]:
    """Common members of the infos of catalogs and schemas; ``owner`` empty for none."""
    return {
        "created_at": entity.created,
        "updated_at": entity.updated or entity.created,
        "comment": entity.comment,
        "properties": entity.properties,
        "owner": owner or None,
    }


def catalog(entity: Catalog, id: str, owner: str) -> CatalogInfo:
    """A catalog; ``id`` for one without an id of its own, as catalogs once were; ``owner`` empty
    for none."""
    return CatalogInfo(name=entity.name, id=entity.id or id, **_members(entity, owner))


def schema(catalog: str, path: tuple[str, ...], entity: Namespace) -> SchemaInfo:
    """A schema; several levels are written ``a.b``."""
    name = dotted_name(*path)
    full_name = dotted_name(catalog, *path)
    members = _members(entity, entity.access.owner)
    return SchemaInfo(name=name, catalog_name=catalog, full_name=full_name, schema_id=entity.id, **members)


def coordinated_table(
    catalog: str, namespace: str, name: str, head: TableHead, metadata: DeltaMetadata, *, owner: str
) -> TableInfo:
    """A coordinated table; ``owner`` empty for none."""
    log = metadata.metadata
    timestamp_ms = timestamp_of(head, metadata)
    description = log.get("description")
    fields = fields_of(log)
    return TableInfo(
        name=name,
        catalog_name=catalog,
        schema_name=namespace,
        table_type="MANAGED",
        data_source_format="DELTA",
        columns=to_infos(fields, list(log.get("partitionColumns") or [])),
        storage_location=head.location,
        table_id=head.table_id,
        created_at=head.created,
        updated_at=max(head.created, timestamp_ms, metadata.beside.updated),
        comment=description if description or metadata.beside.comment is None else metadata.beside.comment,
        properties=table_properties(metadata, timestamp_ms, head.row_hwm),
        owner=owner or None,
    )


def external(catalog: str, namespace: str, table: Table) -> TableInfo:
    """A table without a HEAD: an external one, or a managed one that awaits version 0, as it was
    registered."""
    about = table.external or External()
    return TableInfo(
        name=table.name,
        catalog_name=catalog,
        schema_name=namespace,
        table_type="MANAGED" if about.awaited else "EXTERNAL",
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


def view(catalog: str, namespace: str, entity: IcebergView, about: UnityView) -> TableInfo:
    """A view, whichever API made it."""
    return TableInfo(
        name=entity.name,
        catalog_name=catalog,
        schema_name=namespace,
        table_type=about.kind,
        data_source_format=None,
        columns=to_infos(about.fields, ()),
        storage_location=None,
        table_id=entity.table_id,
        created_at=entity.created,
        updated_at=entity.updated or entity.created,
        comment=about.comment,
        properties=about.properties,
        owner=entity.access.owner or None,
        view_definition=about.definition,
        view_dependencies=about.dependencies,
    )


def credentials(vended: tuple[VendedCredentials, ...], url: str) -> TemporaryCredentials:
    """The first of the vended credentials as the older API has them; nothing for local files."""
    if not vended:
        return TemporaryCredentials(url=url)
    config = vended[0].config
    aws = azure = gcp = None
    if "s3.access-key-id" in config:
        aws = AwsCredentials(config["s3.access-key-id"], config["s3.secret-access-key"], config.get("s3.session-token"))
    if "azure.sas-token" in config:
        azure = {"sas_token": config["azure.sas-token"]}
    if "gcs.oauth-token" in config:
        gcp = {"oauth_token": config["gcs.oauth-token"]}
    return TemporaryCredentials(aws, azure, gcp, vended[0].expires_ms, url)
