"""Tables of Unity Catalog's older API: list, get, create, delete, staging."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from chalice.app import Blueprint

from turnstile.access.authorizer import Target, access_of
from turnstile.api.http.authorization import Params, TargetOf, needs
from turnstile.api.http.request import body, current
from turnstile.api.services import services
from turnstile.api.unity import columns, external, older_api, requests
from turnstile.api.unity.delta_tables import metastore_if_external, register_external, staging_table_at
from turnstile.api.unity.errors import PREFIX, NotImplementedHere
from turnstile.api.unity.older_catalogs import page_size
from turnstile.api.unity.requests import query, require_no_clone
from turnstile.api.unity.table_update import beside_log
from turnstile.catalog.core.branches import NOT_KNOWN
from turnstile.catalog.core.entities import ICEBERG_VIEW, External, Table
from turnstile.catalog.core.paths import Path, dotted_name
from turnstile.catalog.core.rows import AWAITED
from turnstile.catalog.create import UUID_PROPERTY
from turnstile.catalog.load import Loader, RegisteredTable
from turnstile.catalog.reader import View
from turnstile.delta.core.content import Content
from turnstile.delta.core.head import DROPPED, TableHead
from turnstile.delta.core.metadata import DeltaMetadata, first_metadata
from turnstile.delta.undecided import as_readers_see
from turnstile.rights.grants import owner_for
from turnstile.rights.rules import create_external, create_table, edit_table, see_schema, see_table
from turnstile.store.core.errors import ErrorType, InvalidRequest, NotFound, StateConflict
from turnstile.store.core.limits import PAGE_BYTES, RESPONSE_BYTES_MAX, response_size
from turnstile.store.core.names import check_identifier
from turnstile.store.ports import BATCH_GET_MAX, parse_rows

routes = Blueprint(__name__)

FIRST_PAGE: Final = 1000
"""Tables of a page when no size is asked for: some clients read only the first page."""

_VIEWS: Final = "view:"
"""How the token of a page of views begins; the name of the last view before it follows."""

_FORMATS: Final = ("DELTA", "CSV", "JSON", "AVRO", "PARQUET", "ORC", "TEXT")
_TABLE_TYPES: Final = ("MANAGED", "EXTERNAL", "STREAMING_TABLE", "MATERIALIZED_VIEW", "METRIC_VIEW", "VIEW")
"""Types that Unity Catalog knows."""


def _table_of_path(params: Params) -> Target:
    return Target(*requests.full_table(params["full_name"]))


def _schema_of_query(_params: Params) -> Target:
    """The schema to list; the view raises the error for a query without one."""
    members = query()
    return Target(*requests.find_schema(members.text("catalog_name") or "", members.text("schema_name") or ""))


def _schema_of(shape: type[older_api.NewTable | older_api.NewStagingTable]) -> TargetOf:
    """The schema in which something is created."""
    return lambda _: Target(*requests.find_schema(body(shape).catalog_name, body(shape).schema_name))


@routes.route(PREFIX + "/tables", methods=["GET"])
@needs((see_schema, _schema_of_query))
def unity_tables() -> older_api.Tables:
    catalog, path = requests.find_schema(
        requests.required_member("catalog_name"), requests.required_member("schema_name")
    )
    size = page_size(FIRST_PAGE)
    return _for_client(_page_of_tables(catalog, path, size, query().text("page_token")))


def _page_of_tables(catalog: str, path: Path, size: int, token: str | None) -> older_api.Tables:
    if token is not None and token.startswith(_VIEWS):
        return _views(catalog, path, token.removeprefix(_VIEWS), size)
    view = View(services().catalog.reader.current(catalog), services().catalog.reader.store)
    names = (view.tree.catalog, dotted_name(*view.written_levels(path)))
    while True:
        page = services().catalog.listings.tables(catalog, path, page_token=token, max_results=size)
        tables = older_api.Tables(_infos(*names, page.items), page.next_token)
        if response_size(tables) <= (RESPONSE_BYTES_MAX if size == 1 else PAGE_BYTES):
            return tables if tables.next_page_token is not None else _with_views(tables, catalog, path, size)
        if size == 1:  # stored before there was a limit, and the schema's other tables are to be listed all the same
            return older_api.Tables([_narrow(table) for table in tables.tables], page.next_token)
        size = max(1, len(page.items) // 2)


@routes.route(PREFIX + "/tables/{full_name}", methods=["GET"])
@needs((see_table, _table_of_path))
def unity_table(full_name: str) -> older_api.TableInfo:
    names = requests.full_table(full_name)
    try:
        return _info(names, services().loader)
    except NotFound:
        if (view := _view(names)) is not None:
            return view
        raise


@routes.route(PREFIX + "/tables", methods=["POST"])
@needs((create_table, _schema_of(older_api.NewTable)), (create_external, metastore_if_external(older_api.NewTable)))
def create_unity_table() -> older_api.TableInfo:
    request = body(older_api.NewTable)
    check_identifier(request.name, "name")
    columns.check_nothing_hidden(request.row_filter, request.columns or [])
    names = (*requests.find_schema(request.catalog_name, request.schema_name), request.name)
    if request.table_type in ("VIEW", "METRIC_VIEW"):
        from turnstile.api.unity import views

        views.create(request, names)
        made = views.find(names)
        assert made is not None, "a view that was made is there"
        return made
    format = (request.data_source_format or "DELTA").upper()
    if request.storage_location is None or format not in _FORMATS:
        missing = "storage_location" if request.storage_location is None else "data_source_format"
        raise InvalidRequest(f"{missing} is missing or not known", field=missing)
    location = request.storage_location
    properties = request.properties or {}
    if request.table_type == "EXTERNAL":
        fields, partitions = columns.to_fields(request.columns or [])
        about = external.without_foreign_uuid(
            External(columns=fields, partition_columns=partitions, properties=properties)
        )
        register_external(names, location, about, request.comment, format.lower())
    elif request.table_type == "MANAGED" and format == "DELTA":
        table_id, _ = staging_table_at(*names[:2], location)
        if properties.get(UUID_PROPERTY, table_id) != table_id:
            raise InvalidRequest(f"{UUID_PROPERTY} is not the staging table's", field="properties")
        _register_managed(request, names, table_id)
    elif request.table_type not in _TABLE_TYPES:
        raise InvalidRequest(f"table_type has to be one of {', '.join(_TABLE_TYPES)}", field="table_type")
    else:
        raise NotImplementedHere(f"{format} tables of type {request.table_type} are not served", field="table_type")
    return _info(names, services().loader_of(Target(*names)))


@routes.route(PREFIX + "/tables/{full_name}", methods=["DELETE"])
@needs((edit_table, _table_of_path))
def drop_unity_table(full_name: str) -> dict[str, str]:
    names = requests.full_table(full_name)
    try:
        services().catalog.dropper.drop(*names)
    except NotFound:
        from turnstile.api.unity import views

        if not views.drop(names):
            raise
    return {}


@routes.route(PREFIX + "/staging-tables", methods=["POST"])
@needs((create_table, _schema_of(older_api.NewStagingTable)))
def stage_unity_table() -> older_api.StagingTable:
    request = body(older_api.NewStagingTable)
    check_identifier(request.name, "name")
    catalog, path = requests.find_schema(request.catalog_name, request.schema_name)
    table = services().catalog.staging.create(catalog, path, request.name, creator=owner_for(current().principal))
    return older_api.StagingTable(
        request.name, request.catalog_name, request.schema_name, table.table_id, table.location
    )


def _view(names: tuple[str, Path, str]) -> older_api.TableInfo | None:
    """The view that the name leads to. Modules for views are loaded with the first one."""
    from turnstile.api.unity import views

    return views.find(names)


def _has_views(catalog: str, path: Path) -> bool:
    reader = services().catalog.reader
    return next(iter(reader.current(catalog).children(path, ICEBERG_VIEW)), None) is not None


def _views(catalog: str, path: Path, after: str, size: int) -> older_api.Tables:
    """A page of views; they follow the tables."""
    from turnstile.api.unity import views

    while True:
        infos, last = views.page(catalog, path, after, size)
        page = older_api.Tables(infos, None if last is None else f"{_VIEWS}{last}")
        if size == 1 or response_size(page) <= PAGE_BYTES:
            return page
        size = max(1, len(infos) // 2)


def _with_views(tables: older_api.Tables, catalog: str, path: Path, size: int) -> older_api.Tables:
    """The last page of tables, with the first views where it has room for them, else with the token
    of the first page of views."""
    if not _has_views(catalog, path):
        return tables
    room = size - len(tables.tables)
    if room > 0:
        more = _views(catalog, path, "", room)
        both = older_api.Tables([*tables.tables, *more.tables], more.next_page_token)
        if response_size(both) <= PAGE_BYTES:
            return both
    return older_api.Tables(tables.tables, _VIEWS)


def _register_managed(request: older_api.NewTable, names: tuple[str, Path, str], table_id: str) -> None:
    """Registers a managed table: at once if its version 0 exists, else as a table that awaits
    version 0."""
    principal = current().principal
    describe = functools.partial(_describe_zero, request)
    try:
        services().catalog.registrar.register(*names, table_id, principal=principal, describe=describe)
    except (NotFound, StateConflict) as error:
        if error.type not in (ErrorType.NO_SUCH_COMMIT, ErrorType.STAGING_TABLE_USED):
            raise
        if error.type == ErrorType.STAGING_TABLE_USED and not _is_awaited(table_id):
            raise
        fields, partitions = columns.to_fields(request.columns or [])
        columns.check_partitions(partitions, fields)
        about = External(columns=fields, partition_columns=partitions, properties=request.properties or {})
        services().catalog.awaiting.register(
            *names, table_id, about=about, comment=request.comment, principal=principal
        )


def _is_awaited(table_id: str) -> bool:
    row = services().world.refs.read(services().world.space.staging(table_id))
    return row is not None and row["state"] == AWAITED


def _describe_zero(request: older_api.NewTable, content: Content) -> DeltaMetadata:
    """Version 0 decides; members of the request that it lacks are stored beside it."""
    metadata = first_metadata(content)
    beside = beside_log(metadata, request.properties or {}, request.comment)
    return msgspec.structs.replace(metadata, beside=beside)


def _info(names: tuple[str, Path, str], loader: Loader) -> older_api.TableInfo:
    entry = loader.find(*names)
    if isinstance(entry, RegisteredTable):
        view = View(services().catalog.reader.current(names[0]), services().catalog.reader.store)
        return older_api.external(entry.catalog, dotted_name(*view.written_levels(names[1])), entry.table)
    require_no_clone(entry)
    metadata = services().catalog.metadata.get(entry.catalog, entry.metadata)
    catalog, _, rest = entry.name.partition(".")
    schema, _, name = rest.rpartition(".")
    return older_api.coordinated_table(catalog, schema, name, entry, metadata, owner=_owner(names))


def _for_client(page: older_api.Tables) -> older_api.Tables:
    """Returns the page, for DuckDB without the columns of tables that it cannot read: it parses the
    columns of the whole list, and would read no table of the schema."""
    if not current().headers.get("user-agent", "").startswith("duckdb/"):
        return page
    tables = [
        table if columns.is_read_by_duckdb(table.columns) else msgspec.structs.replace(table, columns=[])
        for table in page.tables
    ]
    return older_api.Tables(tables, page.next_page_token)


def _narrow(table: older_api.TableInfo) -> older_api.TableInfo:
    """``table`` without the parts for which a page has no room: the columns, then the properties,
    then the comment."""
    nothing: dict[str, Any] = {"columns": [], "properties": {}, "comment": None}
    for member, empty in nothing.items():
        if response_size(table) > PAGE_BYTES:
            table = msgspec.structs.replace(table, **{member: empty})
    return table


def _owner(names: tuple[str, Path, str]) -> str:
    """The owner of a table that was just read: no request where its entity is cached."""
    reader = services().open_reader
    table = reader.guess(*names)
    return access_of(reader.store.entity(table.catalog, table.entity)).owner if table is not None else ""


def _head_id(table: Table) -> str:
    """The uuid of the HEAD that describes a listed table: of a branch's table without one of its
    own, that of the catalog's table."""
    if table.origin is not None and table.origin.version == NOT_KNOWN:
        return table.origin.source
    return table.table_id


def _as_on_branch(info: older_api.TableInfo, table: Table) -> older_api.TableInfo:
    """The listed table of a branch, with the uuid and the location that it will have."""
    properties = {**(info.properties or {}), UUID_PROPERTY: table.table_id}
    return msgspec.structs.replace(
        info, table_id=table.table_id, storage_location=table.location, properties=properties
    )


def _infos(catalog: str, schema: str, tables: Sequence[Table]) -> list[older_api.TableInfo]:
    """A page of tables, clones and tables with damaged rows left out: one request per hundred
    HEADs, one per hundred metadata objs not yet seen."""
    world = services().world
    tables = [table for table in tables if table.clone is None]
    keys = [world.space.table(_head_id(table)) for table in tables if table.external is None]
    batches = [world.refs.read_many(keys[at : at + BATCH_GET_MAX]) for at in range(0, len(keys), BATCH_GET_MAX)]
    found = parse_rows(TableHead, (row for batch in batches for row in batch.values()), [])
    heads = as_readers_see(world, {head.table_id: head for head in found if head.state != DROPPED})
    metadata = services().catalog.metadata.get_many(catalog, {head.metadata for head in heads.values()})
    infos = []
    for table in tables:
        head = heads.get(_head_id(table))
        if table.external is not None:
            infos.append(older_api.external(catalog, schema, table))
        elif head is not None and head.metadata in metadata:
            current = metadata[head.metadata]
            owner = table.access.owner
            info = older_api.coordinated_table(catalog, schema, table.name, head, current, owner=owner)
            infos.append(_as_on_branch(info, table) if _head_id(table) != table.table_id else info)
    return infos
