"""Tables of Unity Catalog's older API: list, get, create, delete, staging."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from chalice.app import Blueprint

from turnstile.access.authorizer import Target, access_of
from turnstile.access.core.grants import owner_for
from turnstile.access.core.rules import create_external, create_table, edit_table, see_schema, see_table
from turnstile.api.http.authorization import Params, TargetOf, metastore, needs
from turnstile.api.http.request import body, current
from turnstile.api.services import services
from turnstile.api.unity import columns, external, naming, older_api
from turnstile.api.unity.delta_tables import staged
from turnstile.api.unity.errors import PREFIX, NotImplementedHere
from turnstile.api.unity.naming import require_no_clone
from turnstile.api.unity.older_catalogs import PAGE, query
from turnstile.api.unity.responses import is_derived
from turnstile.catalog.commit import View
from turnstile.catalog.core.entities import External, Table
from turnstile.catalog.core.paths import Path, dotted
from turnstile.catalog.create import UUID_PROPERTY
from turnstile.catalog.load import Loader, RegisteredTable
from turnstile.delta.core.content import Content
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.metadata import Beside, DeltaMetadata, first_metadata
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.limits import PAGE_BYTES, RESPONSE_BYTES_MAX, response_size
from turnstile.store.core.names import check_identifier
from turnstile.store.ports import BATCH_GET_MAX

routes = Blueprint(__name__)


FIRST_PAGE: Final = 1000
"""Tables of a page when no size is asked for: some clients read only the first page."""

_FORMATS: Final = ("DELTA", "CSV", "JSON", "AVRO", "PARQUET", "ORC", "TEXT")


def _table_of_path(params: Params) -> Target:
    return Target(*naming.find_table(*naming.split_table(params["full_name"])))


def _schema_of_query(_params: Params) -> Target:
    """The schema whose tables are listed; that it is missing from the query, the view says."""
    members = query()
    return Target(*naming.find_schema(members.text("catalog_name") or "", members.text("schema_name") or ""))


def _schema_of(shape: type[older_api.NewTable | older_api.NewStagingTable]) -> TargetOf:
    """The schema in which something is created."""

    def target(_params: Params) -> Target:
        request = body(shape)
        return Target(*naming.find_schema(request.catalog_name, request.schema_name))

    return target


def _metastore_if_external(params: Params) -> Target | None:
    """The metastore, whose files they are, for the registration of a table that is not coordinated."""
    return metastore(params) if body(older_api.NewTable).table_type == "EXTERNAL" else None


@routes.route(PREFIX + "/tables", methods=["GET"])
@needs((see_schema, _schema_of_query))
def unity_tables() -> older_api.Tables:
    members = query()
    catalog, schema = members.text("catalog_name"), members.text("schema_name")
    if catalog is None or schema is None:
        missing = "catalog_name" if catalog is None else "schema_name"
        raise InvalidRequest(f"{missing} is missing", field=missing)
    catalog, path = naming.find_schema(catalog, schema)
    wanted = members.integer("max_results")
    size = FIRST_PAGE if wanted is None else min(wanted or PAGE, PAGE)
    view = View(services().catalog.reader.current(catalog), services().catalog.reader.store)
    names = (view.tree.catalog, dotted(*view.written(path)))
    while True:
        page = services().catalog.listings.tables(
            catalog, path, page_token=members.text("page_token"), max_results=size
        )
        tables = older_api.Tables(_infos(*names, page.items), page.next_token)
        if response_size(tables) <= (RESPONSE_BYTES_MAX if size == 1 else PAGE_BYTES):
            return tables
        if size == 1:  # stored before there was a limit, and the schema's other tables are to be listed all the same
            return older_api.Tables([_narrowed(table) for table in tables.tables], page.next_token)
        size = max(1, len(page.items) // 2)


@routes.route(PREFIX + "/tables/{full_name}", methods=["GET"])
@needs((see_table, _table_of_path))
def unity_table(full_name: str) -> older_api.TableInfo:
    return _info(naming.find_table(*naming.split_table(full_name)), services().loader)


@routes.route(PREFIX + "/tables", methods=["POST"])
@needs((create_table, _schema_of(older_api.NewTable)), (create_external, _metastore_if_external))
def create_unity_table() -> older_api.TableInfo:
    request = body(older_api.NewTable)
    check_identifier(request.name, "name")
    format = (request.data_source_format or "DELTA").upper()
    if request.storage_location is None or format not in _FORMATS:
        missing = "storage_location" if request.storage_location is None else "data_source_format"
        raise InvalidRequest(f"{missing} is missing or not known", field=missing)
    catalog, path = naming.find_schema(request.catalog_name, request.schema_name)
    if request.table_type == "EXTERNAL":
        fields, partitions = columns.to_fields(request.columns or [])
        services().catalog.externals.register(
            catalog,
            path,
            request.name,
            location=request.storage_location,
            format=format.lower(),
            about=external.checked(
                External(columns=fields, partition_columns=partitions, properties=request.properties or {})
            ),
            comment=request.comment,
            owner=owner_for(current().principal),
        )
    elif request.table_type == "MANAGED" and format == "DELTA":
        table_id, _ = staged(catalog, path, request.storage_location)
        if (request.properties or {}).get(UUID_PROPERTY, table_id) != table_id:
            raise InvalidRequest(f"{UUID_PROPERTY} is not the staging table's", field="properties")
        services().catalog.registrar.register(
            catalog,
            path,
            request.name,
            table_id,
            principal=current().principal,
            describe=functools.partial(_described, request),
        )
    else:
        raise NotImplementedHere(f"tables of type {request.table_type[:40]} are not served", field="table_type")
    return _info((catalog, path, request.name), services().loader_of(Target(catalog, path, request.name)))


@routes.route(PREFIX + "/tables/{full_name}", methods=["DELETE"])
@needs((edit_table, _table_of_path))
def drop_unity_table(full_name: str) -> dict[str, str]:
    services().catalog.dropper.drop(*naming.find_table(*naming.split_table(full_name)))
    return {}


@routes.route(PREFIX + "/staging-tables", methods=["POST"])
@needs((create_table, _schema_of(older_api.NewStagingTable)))
def stage_unity_table() -> older_api.StagingTable:
    request = body(older_api.NewStagingTable)
    check_identifier(request.name, "name")
    catalog, path = naming.find_schema(request.catalog_name, request.schema_name)
    table = services().catalog.staging.create(catalog, path, request.name, creator=owner_for(current().principal))
    return older_api.StagingTable(
        request.name, request.catalog_name, request.schema_name, table.table_id, table.location
    )


def _described(request: older_api.NewTable, content: Content) -> DeltaMetadata:
    """Version 0 decides; what it does not hold of the request is kept beside it."""
    metadata = first_metadata(content)
    configuration, properties = metadata.metadata.get("configuration") or {}, request.properties or {}
    kept = {key: value for key, value in properties.items() if key not in configuration and not is_derived(key)}
    comment = None if metadata.metadata.get("description") else request.comment
    return msgspec.structs.replace(metadata, beside=Beside(properties=kept, comment=comment))


def _info(names: tuple[str, Path, str], loader: Loader) -> older_api.TableInfo:
    entry = loader.find(*names)
    if isinstance(entry, RegisteredTable):
        view = View(services().catalog.reader.current(names[0]), services().catalog.reader.store)
        return older_api.external(entry.catalog, dotted(*view.written(names[1])), entry.table)
    require_no_clone(entry)
    metadata = services().catalog.metadata.get(entry.catalog, entry.metadata)
    catalog, schema, name = naming.split_table(entry.name)
    return older_api.managed(catalog, schema, name, entry, metadata, owner=_owner(names))


def _narrowed(table: older_api.TableInfo) -> older_api.TableInfo:
    """``table`` without as much of what describes it as there is no room for: columns, then properties, then comment."""
    nothing: dict[str, Any] = {"columns": [], "properties": {}, "comment": None}
    for member, empty in nothing.items():
        if response_size(table) <= PAGE_BYTES:
            break
        table = msgspec.structs.replace(table, **{member: empty})
    return table


def _owner(names: tuple[str, Path, str]) -> str:
    """The owner of a table that was just read: no request where its entity is cached."""
    reader = services().open_reader
    table = reader.guess(*names)
    return access_of(reader.store.entity(table.catalog, table.entity)).owner if table is not None else ""


def _infos(catalog: str, schema: str, tables: Sequence[Table]) -> list[older_api.TableInfo]:
    """A page of tables, clones left out: one request per hundred HEADs and one per hundred metadata objs not seen before."""
    world, heads = services().world, dict[str, TableHead]()
    tables = [table for table in tables if table.clone is None]
    keys = [world.space.table(table.table_id) for table in tables if table.external is None]
    for at in range(0, len(keys), BATCH_GET_MAX):
        for row in world.refs.read_many(keys[at : at + BATCH_GET_MAX]).values():
            if row["state"] != "dropped":
                heads[row["table_id"]] = TableHead.from_row(row)
    ids = {head.metadata for head in heads.values()}
    metadata = services().catalog.metadata.get_many(catalog, ids)
    infos = []
    for table in tables:
        head = heads.get(table.table_id)
        if table.external is not None:
            infos.append(older_api.external(catalog, schema, table))
        elif head is not None and head.metadata in metadata:
            infos.append(
                older_api.managed(catalog, schema, table.name, head, metadata[head.metadata], owner=table.access.owner)
            )
    return infos
