"""Tables of Unity Catalog's older API: list, get, create, delete, staging. Glue only."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

import allowed
import msgspec
from allowed import rights
from chalice.app import Blueprint
from unity import staged
from unity_catalogs import PAGE, query
from wiring import services

from turnstile.access.authorizer import Target, access_of
from turnstile.access.core.grants import owner_for
from turnstile.access.core.rules import create_external, create_table, edit_table, see_schema, see_table
from turnstile.api.http.request import body, current
from turnstile.api.unity import columns, external, legacy, naming
from turnstile.api.unity.answers import is_derived
from turnstile.api.unity.errors import PREFIX, NotImplementedHere
from turnstile.api.unity.naming import require_no_clone
from turnstile.catalog.change import View
from turnstile.catalog.core.entities import External, Table
from turnstile.catalog.core.paths import Path, dotted
from turnstile.catalog.create import UUID_PROPERTY
from turnstile.catalog.load import Loader, Registered
from turnstile.delta.core.content import Content
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.metadata import Beside, DeltaMetadata, first_snapshot
from turnstile.store.core.answer_size import MOST, told
from turnstile.store.core.answer_size import PAGE as PAGE_BYTES
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.names import check_identifier

__all__ = ["routes"]

routes = Blueprint(__name__)

FIRST_PAGE: Final = 1000
"""Tables of a page when no size is asked for: some clients read only the first page."""

_FORMATS: Final = ("DELTA", "CSV", "JSON", "AVRO", "PARQUET", "ORC", "TEXT")


@routes.route(PREFIX + "/tables", methods=["GET"])
@rights.needs((see_schema, allowed.schema_of_query))
def unity_tables() -> legacy.Tables:
    asked = query()
    catalog, schema = asked.text("catalog_name"), asked.text("schema_name")
    if catalog is None or schema is None:
        missing = "catalog_name" if catalog is None else "schema_name"
        raise InvalidRequest(f"{missing} is missing", field=missing)
    catalog, path = naming.find_schema(catalog, schema)
    given = asked.integer("max_results")
    size = FIRST_PAGE if given is None else min(given or PAGE, PAGE)
    view = View(services().catalog.reader.current(catalog), services().catalog.reader.store)
    named = (view.tree.catalog, dotted(*view.written(path)))
    while True:
        page = services().catalog.listings.tables(catalog, path, page_token=asked.text("page_token"), max_results=size)
        found = legacy.Tables(_infos(*named, page.items), page.next_token)
        if told(found) <= (MOST if size == 1 else PAGE_BYTES):
            return found
        if size == 1:  # stored before there was a limit, and the schema's other tables are to be listed all the same
            return legacy.Tables([_narrowed(one) for one in found.tables], page.next_token)
        size = max(1, len(page.items) // 2)


@routes.route(PREFIX + "/tables/{full_name}", methods=["GET"])
@rights.needs((see_table, allowed.named_table))
def unity_table(full_name: str) -> legacy.TableInfo:
    return _info(naming.find_table(*naming.split_table(full_name)), services().loader)


@routes.route(PREFIX + "/tables", methods=["POST"])
@rights.needs((create_table, allowed.schema_of_body), (create_external, allowed.metastore_if_external))
def create_unity_table() -> legacy.TableInfo:
    asked = body(legacy.NewTable)
    check_identifier(asked.name, "name")
    format = (asked.data_source_format or "DELTA").upper()
    if asked.storage_location is None or format not in _FORMATS:
        missing = "storage_location" if asked.storage_location is None else "data_source_format"
        raise InvalidRequest(f"{missing} is missing or not known", field=missing)
    catalog, path = naming.find_schema(asked.catalog_name, asked.schema_name)
    if asked.table_type == "EXTERNAL":
        fields, partitions = columns.to_fields(asked.columns or [])
        services().catalog.externals.register(
            catalog,
            path,
            asked.name,
            location=asked.storage_location,
            format=format.lower(),
            about=external.checked(
                External(columns=fields, partition_columns=partitions, properties=asked.properties or {})
            ),
            comment=asked.comment,
            owner=owner_for(current().principal),
        )
    elif asked.table_type == "MANAGED" and format == "DELTA":
        table_id, _ = staged(catalog, path, asked.storage_location)
        if (asked.properties or {}).get(UUID_PROPERTY, table_id) != table_id:
            raise InvalidRequest(f"{UUID_PROPERTY} is not the staging table's", field="properties")
        services().catalog.registrar.register(
            catalog,
            path,
            asked.name,
            table_id,
            principal=current().principal,
            describe=functools.partial(_described, asked),
        )
    else:
        raise NotImplementedHere(f"tables of type {asked.table_type[:40]} are not served", field="table_type")
    return _info((catalog, path, asked.name), services().loader_of(Target(catalog, path, asked.name)))


@routes.route(PREFIX + "/tables/{full_name}", methods=["DELETE"])
@rights.needs((edit_table, allowed.named_table))
def drop_unity_table(full_name: str) -> dict[str, str]:
    services().catalog.dropper.drop(*naming.find_table(*naming.split_table(full_name)))
    return {}


@routes.route(PREFIX + "/staging-tables", methods=["POST"])
@rights.needs((create_table, allowed.schema_of_body))
def stage_unity_table() -> legacy.StagingTable:
    asked = body(legacy.NewStagingTable)
    check_identifier(asked.name, "name")
    catalog, path = naming.find_schema(asked.catalog_name, asked.schema_name)
    made = services().catalog.staging.create(catalog, path, asked.name, creator=owner_for(current().principal))
    return legacy.StagingTable(asked.name, asked.catalog_name, asked.schema_name, made.table_id, made.location)


def _described(asked: legacy.NewTable, content: Content) -> DeltaMetadata:
    """Version 0 decides; what it does not hold of the request is kept beside it."""
    made = first_snapshot(content)
    known = made.metadata.get("configuration") or {}
    given = asked.properties or {}
    kept = {key: value for key, value in given.items() if key not in known and not is_derived(key)}
    comment = None if made.metadata.get("description") else asked.comment
    return msgspec.structs.replace(made, beside=Beside(properties=kept, comment=comment))


def _info(named: tuple[str, Path, str], loader: Loader) -> legacy.TableInfo:
    found = loader.find(*named)
    if isinstance(found, Registered):
        view = View(services().catalog.reader.current(named[0]), services().catalog.reader.store)
        return legacy.external(found.catalog, dotted(*view.written(named[1])), found.table)
    require_no_clone(found)
    snapshot = services().catalog.snapshots.get(found.catalog, found.metadata)
    catalog, schema, name = naming.split_table(found.name)
    return legacy.managed(catalog, schema, name, found, snapshot, owner=_owner(named))


def _narrowed(table: legacy.TableInfo) -> legacy.TableInfo:
    """``table`` without as much of what describes it as there is no room for: columns, then properties, then comment."""
    nothing: dict[str, Any] = {"columns": [], "properties": {}, "comment": None}
    for member, empty in nothing.items():
        if told(table) <= PAGE_BYTES:
            break
        table = msgspec.structs.replace(table, **{member: empty})
    return table


def _owner(named: tuple[str, Path, str]) -> str:
    """The owner of a table that was just found: no request where its entity is cached."""
    reader = services().open_catalog.reader
    found = reader.guess(*named)
    return access_of(reader.store.entity(found.catalog, found.entity)).owner if found is not None else ""


def _infos(catalog: str, schema: str, tables: Sequence[Table]) -> list[legacy.TableInfo]:
    """A page of tables, clones left out: one request per hundred HEADs and one per hundred snapshots not seen before."""
    world, heads = services().world, dict[str, TableHead]()
    tables = [table for table in tables if table.clone is None]
    keys = [world.space.table(table.table_id) for table in tables if table.external is None]
    for at in range(0, len(keys), 100):
        for row in world.refs.read_many(keys[at : at + 100]).values():
            if row["state"] != "dropped":
                heads[row["table_id"]] = TableHead.from_row(row)
    ids = {head.metadata for head in heads.values()}
    snapshots = services().catalog.snapshots.get_many(catalog, ids)
    made = []
    for table in tables:
        head = heads.get(table.table_id)
        if table.external is not None:
            made.append(legacy.external(catalog, schema, table))
        elif head is not None and head.metadata in snapshots:
            made.append(
                legacy.managed(catalog, schema, table.name, head, snapshots[head.metadata], owner=table.access.owner)
            )
    return made
