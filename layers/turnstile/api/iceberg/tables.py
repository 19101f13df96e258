"""Tables of the Iceberg API, and transactions of several."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
from chalice.app import Blueprint

from turnstile.access.authorizer import Guard, Need, Target
from turnstile.api.http.authorization import Params, authorized_by_view, guard, needs
from turnstile.api.http.request import current, note
from turnstile.api.http.responses import Answer
from turnstile.api.iceberg import requests, responses
from turnstile.api.iceberg.context import (
    NAMESPACE,
    ROOT,
    body,
    context_of,
    namespace_of_path,
    once,
    page,
    query,
    reading,
    seeing,
)
from turnstile.api.iceberg.requests import catalog_of, is_past
from turnstile.api.iceberg.responses import Credentials
from turnstile.api.services import services
from turnstile.catalog.core.entities import ICEBERG_TABLE, IcebergTable, Table
from turnstile.catalog.core.paths import Path, check_path
from turnstile.iceberg.commits import Commits
from turnstile.iceberg.core.requirements import creates
from turnstile.iceberg.core.table_updates import TableChange
from turnstile.iceberg.tables import CreateTable, LoadedTable, Tables
from turnstile.rights.rules import (
    create_table,
    edit_table,
    modify_table,
    read_table,
    see_schema,
    see_table,
    write_files,
)
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.names import check_name

routes = Blueprint(__name__)

TABLE: Final = NAMESPACE + "/tables/{table}"

_EMPTY: Final = msgspec.Raw(b"")


def table_of_path(params: Params) -> Target:
    return msgspec.structs.replace(namespace_of_path(params), table=requests.name(params["table"], "table"))


def rename_source(params: Params) -> Target:
    """Returns the table or view that a rename is about."""
    path = body(requests.Rename).source.path("source")
    return Target(catalog_of(params["prefix"]), path[:-1], path[-1])


def rename_target(params: Params) -> Target:
    """Returns the namespace that a rename leads to."""
    return Target(catalog_of(params["prefix"]), check_path(body(requests.Rename).destination.namespace))


def _overwritten(params: Params) -> Target | None:
    request = body(requests.RegisterTable)
    table = check_name(request.name, "name")
    return msgspec.structs.replace(namespace_of_path(params), table=table) if request.overwrite else None


def _committed_table(params: Params) -> Target | None:
    return None if creates(body(requests.CommitTable).requirements) else table_of_path(params)


def _created_in(params: Params) -> Target | None:
    return namespace_of_path(params) if creates(body(requests.CommitTable).requirements) else None


@routes.route(NAMESPACE + "/tables", methods=["GET"])
@needs((see_schema, namespace_of_path))
def list_tables(prefix: str, namespace: str) -> dict[str, Any]:
    return responses.identifiers(page(prefix, requests.namespace(namespace), ICEBERG_TABLE))


@routes.route(NAMESPACE + "/tables", methods=["POST"])
@needs((create_table, namespace_of_path))
def create_new_table(prefix: str, namespace: str) -> Answer:
    request = body(CreateTable)
    path = requests.namespace(namespace)
    again = _Again(prefix, (*path, check_name(request.name, "name")))
    loaded = once(
        prefix,
        lambda context: Tables(context).create(prefix, path, request),
        lambda context: Tables(context).create(prefix, path, request) if request.stage_create else again.load(),
    )
    return _new(loaded, prefix, namespace, again)


@routes.route(NAMESPACE + "/register", methods=["POST"])
@needs((create_table, namespace_of_path), (edit_table, _overwritten))
def register_table(prefix: str, namespace: str) -> Answer:
    request = body(requests.RegisterTable)
    path = (*requests.namespace(namespace), check_name(request.name, "name"))
    file = request.metadata_location
    again = _Again(prefix, path)
    loaded = once(
        prefix,
        lambda context: Tables(context).register(prefix, path, file, overwrite=request.overwrite),
        lambda _: again.load(),
    )
    return _new(loaded, prefix, namespace, again)


@routes.route(TABLE, methods=["GET"])
@needs((see_table, table_of_path))
def load_table(prefix: str, namespace: str, table: str) -> Answer:
    shown = query().text("snapshots") or "all"
    if shown not in ("all", "refs"):
        raise InvalidRequest("snapshots must be all or refs", field="snapshots")
    tables = Tables(reading(prefix))
    refs_only = shown == "refs"
    entity = tables.find_any(*path_of(prefix, namespace, table))
    credentials = credentials_for(entity, prefix, namespace, guard())
    if isinstance(entity, Table):
        delta = services().delta_scans.load(entity, refs_only=refs_only)
        tag = responses.etag(delta.tag, refs_only=refs_only)
        return _unless_known(tag, credentials, lambda: responses.delta_table(delta, credentials))
    tag = responses.etag(entity.metadata, refs_only=refs_only)
    opened = partial(tables.open, entity)
    return _unless_known(tag, credentials, lambda: responses.table(opened(), credentials, refs_only=refs_only))


def _unless_known(tag: str, credentials: Credentials | None, body: Callable[[], dict[str, Any]]) -> Answer:
    """The answer with this tag; without the body if the client has it and asks for no credentials:
    its own may have ended."""
    known_tag = current().headers.get("if-none-match", "")
    if known_tag and responses.matches(known_tag, tag) and not credentials:
        return Answer(_EMPTY, 304, {"ETag": tag})
    return Answer(body(), headers={"ETag": tag})


@routes.route(TABLE, methods=["HEAD"])
@needs((see_table, table_of_path))
def table_exists(prefix: str, namespace: str, table: str) -> None:
    Tables(reading(prefix)).find_any(*path_of(prefix, namespace, table))


@routes.route(TABLE, methods=["POST"])
@needs((modify_table, _committed_table), (create_table, _created_in))
def commit_table(prefix: str, namespace: str, table: str) -> Answer:
    request = body(requests.CommitTable)
    (catalog, path) = path_of(prefix, namespace, table)
    named = request.identifier
    if named is not None and named.path("identifier") != path:
        raise InvalidRequest("the body names another table than the path", field="identifier")
    change = TableChange(path, request.requirements, request.updates)
    loaded = once(
        prefix,
        lambda context: Commits(context).commit(catalog, [change])[0],
        lambda _: _Again(catalog, path).load(),
    )
    return Answer(responses.commit_answer(loaded), headers=_tag(loaded))


@routes.route(TABLE, methods=["DELETE"])
@needs((edit_table, table_of_path))
def drop_table(prefix: str, namespace: str, table: str) -> None:
    purge = query().flag("purgeRequested")
    path = path_of(prefix, namespace, table)
    once(prefix, lambda context: Tables(context).drop(IcebergTable, *path, purge=purge), lambda _: None)


@routes.route(TABLE + "/unregister", methods=["POST"])
@needs((edit_table, table_of_path))
def unregister_table(prefix: str, namespace: str, table: str) -> Answer:
    path = path_of(prefix, namespace, table)
    loaded = once(
        prefix,
        lambda context: Tables(context).open(Tables(context).drop(IcebergTable, *path, purge=False)),
        lambda context: Tables(context).load(*path),
    )
    return Answer(responses.commit_answer(loaded))


@routes.route(TABLE + "/credentials", methods=["GET"])
@needs((read_table, table_of_path))
def table_credentials(prefix: str, namespace: str, table: str) -> dict[str, Any]:
    entity = Tables(reading(prefix)).find_any(*path_of(prefix, namespace, table))
    return responses.credentials(credentials_of(entity, prefix, namespace, guard()))


@routes.route(TABLE + "/metrics", methods=["POST"])
@needs((see_table, table_of_path))
def report_metrics(prefix: str, namespace: str, table: str) -> None:
    Tables(reading(prefix)).find_any(*path_of(prefix, namespace, table))
    note(report=body(requests.Report).report_type[:40])


@routes.route(ROOT + "/{prefix}/tables/rename", methods=["POST"])
@needs((edit_table, rename_source), (create_table, rename_target))
def rename_table(prefix: str) -> None:
    request = body(requests.Rename)
    once(prefix, lambda context: Tables(context).rename(catalog_of(prefix), *request.paths()), lambda _: None)


@routes.route(ROOT + "/{prefix}/transactions/commit", methods=["POST"])
@authorized_by_view("modify_table or create_table of each change")
def commit_transaction(prefix: str) -> None:
    changes = []
    for request in body(requests.CommitTransaction).table_changes:
        if request.identifier is None:
            raise InvalidRequest("a change names no table", field="table-changes.identifier")
        path = request.identifier.path("table-changes.identifier")
        changes.append(TableChange(path, request.requirements, request.updates))
    by = services().guard_of(*(need_of(catalog_of(prefix), change) for change in changes))
    by.authorize_now()
    guard().mark_authorized()
    once(prefix, lambda context: Commits(context).commit(prefix, changes), lambda _: [], by)


def need_of(prefix: str, change: TableChange) -> Need:
    """Returns the needs of one commit of a transaction."""
    if creates(change.requirements):
        return Need(create_table, Target(prefix, change.path[:-1]))
    return Need(modify_table, Target(prefix, change.path[:-1], change.path[-1]))


def path_of(prefix: str, namespace: str, table: str) -> tuple[str, Path]:
    return catalog_of(prefix), (*requests.namespace(namespace), requests.name(table, "table"))


class _Again:
    """The answer to a repeated request: the table that has the name now, by the rights on it."""

    def __init__(self, catalog: str, path: Path) -> None:
        self._catalog = catalog
        self._path = path
        self.guard: Guard | None = None
        """The guard by which the table was loaded; None: the request is new."""

    def load(self) -> LoadedTable:
        self.guard = seeing(self._catalog, self._path)
        return Tables(context_of(self.guard)).load(self._catalog, self._path)


def _new(loaded: LoadedTable, prefix: str, namespace: str, again: _Again) -> Answer:
    """The answer to a client that has created a table, just now or, when the request is repeated,
    before."""
    created = again.guard is None
    by = guard() if again.guard is None else again.guard
    credentials = credentials_for(loaded.entity or loaded.metadata.location, prefix, namespace, by, created=created)
    return Answer(responses.table(loaded, credentials), headers=_tag(loaded))


def _tag(loaded: LoadedTable) -> dict[str, str]:
    return {} if loaded.entity is None else {"ETag": responses.etag(loaded.entity.metadata)}


def credentials_for(
    table: IcebergTable | Table | str,
    prefix: str,
    namespace: str,
    by: Guard,
    *,
    created: bool = False,
    only_reads: bool = False,
) -> Credentials | None:
    """Credentials for a client that would like some with the table; ``only_reads``: with a scan of
    it, which writes nothing."""
    if "vended-credentials" not in current().headers.get("x-iceberg-access-delegation", ""):
        return None
    credentials = credentials_of(table, prefix, namespace, by, created=created, only_reads=only_reads)
    return credentials if credentials.vended else None


def credentials_of(
    table: IcebergTable | Table | str,
    prefix: str,
    namespace: str,
    by: Guard,
    *,
    created: bool = False,
    only_reads: bool = False,
) -> Credentials:
    """Credentials for a table's files, as far as the principal may read or write them: by the
    authorizations of ``by``, or as the owner of a table that was ``created`` just now. For a Delta
    table they are only for reading; while a table is only staged, they are for its location.
    Locations of the past are only for reading, and so are locations of a clone's source, if the
    principal may read that, too.
    """
    if isinstance(table, str):  # it has no address yet to fetch other credentials from
        return Credentials(services().credentials(table, "READ_WRITE"))
    if isinstance(table, Table):
        return _credentials_of_delta(table, prefix, namespace, by)
    owned = created and table.access.owned_by(current().principal.names)
    writes = not only_reads and not is_past(prefix) and (owned or by.may(write_files))
    if not writes and not by.may(read_table):
        return Credentials()
    vended = services().credentials(table.location, "READ_WRITE" if writes else "READ")
    for source in table.needs:
        if services().source_rights.may_read(current().principal, source):
            vended += services().credentials(source.location, "READ")
    return Credentials(vended, responses.credentials_path(prefix, requests.namespace(namespace), table.name))


def _credentials_of_delta(table: Table, prefix: str, namespace: str, by: Guard) -> Credentials:
    if not by.may(read_table):
        return Credentials()
    vended = services().credentials(services().delta_scans.head(table), "READ")
    return Credentials(vended, responses.credentials_path(prefix, requests.namespace(namespace), table.name))
