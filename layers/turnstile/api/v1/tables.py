"""Tables over HTTP: list, stage, register, rename, drop, import, export; their entries in the tree,
and path queries (docs/path-queries.md)."""

from __future__ import annotations

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType

from turnstile.access.authorizer import METASTORE, Need, Target
from turnstile.access.undrop_rights import UndropRights
from turnstile.api.http.authorization import Params, needs
from turnstile.api.http.request import Query, body, current
from turnstile.api.http.responses import Answer, answer_201
from turnstile.api.services import services
from turnstile.api.v1.changes import AsOfBody, once
from turnstile.api.v1.load import LoadedTable, loaded_table
from turnstile.api.v1.paths import NAMESPACE, TABLE, namespace_names, namespace_of_path, table_names, table_of_path
from turnstile.catalog.core.entities import Entity, Table
from turnstile.catalog.core.paths import Path, dotted_name
from turnstile.catalog.history.dropped import DroppedTables
from turnstile.catalog.history.undrop import Undropper
from turnstile.catalog.listing import version_in
from turnstile.catalog.query.core.parser import parse
from turnstile.catalog.query.find import Finder, entity_candidate
from turnstile.catalog.services import CatalogServices
from turnstile.rights.grants import owner_for
from turnstile.rights.rules import (
    admin_only,
    create_external,
    create_schema,
    create_table,
    edit_table,
    see_schema,
    see_table,
    use_catalog,
)
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.names import check_identifier, check_namespace
from turnstile.transfer.reports import ExportReport, ImportReport

routes = Blueprint(__name__)


class NewStagingTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../staging-tables``; ``new_namespace``: the transaction that creates the table
    creates its namespace, too."""

    name: str
    new_namespace: bool = False


class NewTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../tables``: registers the staged table ``table_id``."""

    name: str
    table_id: str
    comment: str | None = None


class NewName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../rename``; without ``namespace`` the table stays where it is."""

    name: str
    namespace: str | None = None


class Undrop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../undrop``: another ``name`` or ``namespace`` than the table had; ``at``, a moment
    at which it was there."""

    name: str | None = None
    namespace: str | None = None
    at: AsOfBody | None = None


class Import(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../imports``; a dry run unless told otherwise. ``take_over``: the catalog that
    decided about the table is lost."""

    name: str
    location: str
    dry_run: bool = True
    take_over: bool = False


class DryRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../export``; a dry run unless told otherwise."""

    dry_run: bool = True


class ListedTable(msgspec.Struct, frozen=True):
    """A table in a listing; ``created`` in ms; ``version`` where it is known: as of a snapshot, and
    of a clone."""

    name: str
    table_id: str
    format: str
    location: str
    created: int
    version: int | UnsetType = UNSET


class Tables(msgspec.Struct, frozen=True):
    """A page of tables; ``head`` as for namespaces."""

    tables: list[ListedTable]
    next_page_token: str | UnsetType = UNSET
    head: str | UnsetType = UNSET


class EntryResponse(msgspec.Struct, frozen=True):
    """A name and its entity: ``name`` with the catalog, as it was written; ``created`` in ms;
    ``metadata_location`` of Iceberg's tables and views; ``version`` of a Delta table if it is
    known; ``head`` of the tree, if no page has it.
    """

    name: str
    kind: str
    id: str
    created: int
    comment: str | UnsetType = UNSET
    properties: dict[str, str] | UnsetType = UNSET
    format: str | UnsetType = UNSET
    location: str | UnsetType = UNSET
    metadata_location: str | UnsetType = UNSET
    version: int | UnsetType = UNSET
    head: str | UnsetType = UNSET


class Finding(msgspec.Struct, frozen=True):
    """A page of matches, and the catalog's HEAD that all pages are a view of."""

    found: list[EntryResponse]
    head: str
    next_page_token: str | UnsetType = UNSET


def _namespace_that_is_there(params: Params) -> Target | None:
    return None if body(NewStagingTable).new_namespace else namespace_of_path(params)


def _namespace_to_be(params: Params) -> Target | None:
    return namespace_of_path(params) if body(NewStagingTable).new_namespace else None


def _target_namespace(params: Params) -> Target:
    to = body(NewName).namespace
    return namespace_of_path(params if to is None else {**params, "namespace": to})


def _undrop_namespace(params: Params) -> Target:
    to = body(Undrop).namespace
    return namespace_of_path(params if to is None else {**params, "namespace": to})


@routes.route(NAMESPACE + "/tables", methods=["GET"])
@needs((see_schema, namespace_of_path))
def list_tables(catalog: str, namespace: str) -> Tables:
    query = Query("as_of", "page_token", "max_results")
    as_of = query.as_of()
    (of, path) = namespace_names(catalog, namespace)
    token = query.text("page_token")
    most = query.integer("max_results")
    page = services().catalog.listings.tables(of, path, as_of=as_of, page_token=token, max_results=most)
    tables = [_list_entry(table, version_in(page.versions, table)) for table in page.items]
    return Tables(tables, page.next_token or UNSET, UNSET if as_of is None else page.head)


@routes.route(NAMESPACE + "/staging-tables", methods=["POST"])
@needs((create_table, _namespace_that_is_there), (create_schema, _namespace_to_be))
def stage_table(catalog: str, namespace: str) -> Answer:
    sent = body(NewStagingTable)
    owner = owner_for(current().principal)
    path = namespace_names(catalog, namespace)
    is_new = sent.new_namespace
    return answer_201(services().catalog.staging.create(*path, sent.name, creator=owner, new_namespace=is_new))


@routes.route(NAMESPACE + "/tables", methods=["POST"])
@needs((create_table, namespace_of_path))
def register_table(catalog: str, namespace: str) -> Answer:
    request = body(NewTable)
    of, path = namespace_names(catalog, namespace)
    principal = current().principal

    def register(by: CatalogServices) -> None:
        by.registrar.register(of, path, request.name, request.table_id, comment=request.comment, principal=principal)

    once(of, register, lambda *_: None)
    return answer_201(_load(catalog, path, request.name))


@routes.route(TABLE + "/rename", methods=["POST"])
@needs((edit_table, table_of_path), (create_table, _target_namespace))
def rename_table(catalog: str, namespace: str, table: str) -> LoadedTable:
    request = body(NewName)
    target = None if request.namespace is None else check_namespace(request.namespace)
    names = table_names(catalog, namespace, table)
    to = (*(names[1] if target is None else target), request.name)
    path = once(names[0], lambda by: by.renamer.rename(*names, request.name, target, external=False), lambda *_: to)
    return _load(catalog, path[:-1], path[-1])


@routes.route(TABLE, methods=["DELETE"])
@needs((edit_table, table_of_path))
def drop_table(catalog: str, namespace: str, table: str) -> None:
    Query()
    names = table_names(catalog, namespace, table)
    once(names[0], lambda by: by.dropper.drop(*names), lambda *_: None)


@routes.route(TABLE + "/undrop", methods=["POST"])
@needs((create_table, _undrop_namespace))
def undrop_table(catalog: str, namespace: str, table: str) -> EntryResponse:
    request = body(Undrop)
    (of, *_) = table_names(catalog, namespace, table)
    path = (*check_namespace(namespace), table)
    parent = path[:-1] if request.namespace is None else check_namespace(request.namespace)
    to = (*parent, table if request.name is None else check_identifier(request.name, "name"))
    at = None if request.at is None else request.at.as_of("at")

    def undrop(by: CatalogServices) -> Path:
        return _undropper(by).undrop(of, path, to, at)

    restored = once(of, undrop, lambda *_: to)
    seeing = services().guard_of(Need(see_table, Target(of, restored[:-1], restored[-1])))
    resolved = services().catalog_for(seeing).entries.table(of, restored[:-1], restored[-1], None)
    return _entry(resolved.catalog, resolved.path, resolved.entity, resolved.version)


def _undropper(by: CatalogServices) -> Undropper:
    """The object that brings tables back, by the rights of this request's principal."""
    rights = UndropRights(services().authorizers.access, current().principal)
    dropped = DroppedTables(by.world, by.reader, by.history, by.limits.history_ms)
    return Undropper(by.world, by.reader, by.committer, dropped, rights=rights, elsewhere=_require_create_external)


def _require_create_external() -> None:
    """Raises PermissionDenied unless the principal may use locations that the catalog did not
    choose."""
    services().guard_of(Need(create_external, METASTORE)).authorize_now()


@routes.route(NAMESPACE + "/imports", methods=["POST"])
@needs((admin_only, namespace_of_path), first=True)
def import_table(catalog: str, namespace: str) -> ImportReport | Answer:
    request = body(Import)
    path = check_namespace(namespace)
    names = (check_identifier(catalog, "catalog"), path, request.name, request.location)
    if request.dry_run:
        return services().importer.dry_run(*names, take_over=request.take_over)
    services().importer.run(*names, owner=owner_for(current().principal), take_over=request.take_over)
    return answer_201(_load(catalog, path, request.name))


@routes.route(TABLE + "/export", methods=["POST"])
@needs((edit_table, table_of_path))
def export_table(catalog: str, namespace: str, table: str) -> ExportReport:
    names = table_names(catalog, namespace, table)
    dry_run = body(DryRun).dry_run
    return services().exporter.dry_run(*names) if dry_run else services().exporter.run(*names)


@routes.route(TABLE + "/entry", methods=["GET"])
@needs((see_table, table_of_path))
def table_entry(catalog: str, namespace: str, table: str) -> EntryResponse:
    as_of = Query("as_of").as_of()
    resolved = services().catalog.entries.table(*table_names(catalog, namespace, table), as_of)
    entry = _entry(resolved.catalog, resolved.path, resolved.entity, resolved.version)
    return msgspec.structs.replace(entry, head=resolved.head)


def _searched_catalog(_params: Params) -> Target:
    """The catalog that is searched; its entries are authorized name by name."""
    return Target(parse(_path_query()[1]).catalog)


@routes.route("/v1/find", methods=["GET"])
@needs((use_catalog, _searched_catalog))
def find() -> Finding:
    query, text = _path_query()
    catalog = services().catalog
    finder = Finder(catalog.world, catalog.reader, catalog.as_of_reader, catalog.metadata)
    as_of = query.as_of()
    token = query.text("page_token")
    most = query.integer("max_results")
    page = finder.find(text, as_of=as_of, page_token=token, max_results=most)
    entries = [_entry(page.catalog, row.path, row.entity, version_in(page.versions, row.entity)) for row in page.items]
    return Finding(entries, page.head, page.next_token or UNSET)


def _path_query() -> tuple[Query, str]:
    query = Query("query", "as_of", "page_token", "max_results")
    text = query.text("query")
    if text is None:
        raise InvalidRequest("query is missing", field="query", remedy="give a path query, as in /main/*")
    return query, text


_ATTRIBUTES = ("id", "kind", "created", "comment", "format", "location")


def _entry(catalog: str, path: Path, entity: Entity, version: int | None) -> EntryResponse:
    """The tree's entry of an entity: the attributes that predicates may name, and properties where
    it has them."""
    candidate = entity_candidate(entity)
    attributes = {name: candidate.attributes[name] for name in _ATTRIBUTES if name in candidate.attributes}
    entry: EntryResponse = msgspec.convert({"name": dotted_name(catalog, *path), **attributes}, EntryResponse)
    return msgspec.structs.replace(
        entry,
        properties=UNSET if candidate.properties is None else dict(candidate.properties),
        metadata_location=getattr(entity, "metadata", UNSET),
        version=UNSET if version is None else version,
    )


def _list_entry(table: Table, version: int | None) -> ListedTable:
    shown = UNSET if version is None else version
    return ListedTable(table.name, table.table_id, table.format, table.location, table.created, shown)


def _load(catalog: str, namespace: Path, table: str) -> LoadedTable:
    return loaded_table(services().loader_of(Target(catalog, namespace, table)).load(catalog, namespace, table))
