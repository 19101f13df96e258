"""The Delta API, the hot part: configuration, load, update."""

from __future__ import annotations

from chalice.app import Blueprint

from turnstile.access.authorizer import Target
from turnstile.api.http.authorization import Params, guard, needs
from turnstile.api.http.request import body, note
from turnstile.api.services import services
from turnstile.api.unity import external, requests, responses
from turnstile.api.unity.errors import DELTA
from turnstile.api.unity.requests import TABLE, require_no_clone, table_of_path
from turnstile.api.unity.table_update import table_update
from turnstile.api.unity.updater import after_update
from turnstile.catalog.core.entities import ICEBERG_VIEW, Table, is_awaited, without_head
from turnstile.catalog.core.paths import Path
from turnstile.catalog.load import Found, Loader, RegisteredTable
from turnstile.delta.core.head import TableHead
from turnstile.maintenance.holders import is_held
from turnstile.rights.rules import modify_table, see_table, use_catalog
from turnstile.store.core.errors import NotFound, UnsupportedTable

routes = Blueprint(__name__)


def _catalog_of_query(_params: Params) -> Target:
    """The catalog that the query names; the view raises its errors."""
    return Target(requests.find_catalog(requests.query().text("catalog") or ""))


@routes.route(DELTA + "/config", methods=["GET"])
@needs((use_catalog, _catalog_of_query))
def configuration() -> responses.Config:
    name = requests.required_member("catalog")
    config = responses.negotiate(requests.query().text("protocol-versions"))
    services().reader.current(requests.find_catalog(name))
    return config


@routes.route(TABLE, methods=["GET"])
@needs((see_table, table_of_path))
def load_table(catalog: str, schema: str, table: str) -> responses.LoadTable:
    loader = services().loader
    names = requests.find_table(catalog, schema, table)
    try:
        target = loader.find_details(*names)
    except NotFound:
        _refuse_view(names)
        raise
    if isinstance(target.table, RegisteredTable):
        require_version(external.require_delta(target.table.table))
        return responses.external(target.table.table, target.table.etag)
    return table_response(loader, target, require_no_clone(target.table))


@routes.route(TABLE, methods=["HEAD"])
@needs((see_table, table_of_path))
def table_exists(catalog: str, schema: str, table: str) -> None:
    services().loader.find(*requests.find_table(catalog, schema, table))


@routes.route(TABLE, methods=["POST"])
@needs((modify_table, table_of_path))
def update_table(catalog: str, schema: str, table: str) -> responses.LoadTable:
    update = table_update(body(requests.Update))
    names = requests.find_table(catalog, schema, table)
    loader = services().loader
    target = loader.find_details(*names)
    entry = target.table
    if isinstance(entry, RegisteredTable):
        require_version(external.require_delta(entry.table))

        def change(etag: str, old: Table) -> Table:
            return external.updated_table(update, etag, old, services().world.clock.now_ms())

        return responses.external(*services().catalog.externals.update(*names, entry.table.table_id, change))
    note(table_id=entry.table_id)
    head = services().updater.update(require_no_clone(entry), update, guard().principal.name)
    with after_update(update):
        return table_response(loader, target, head)


def _refuse_view(names: tuple[str, Path, str]) -> None:
    """Raises UnsupportedTable, which sends engines to the older API, if the name leads to a
    view."""
    reader = services().reader
    entry = reader.current(names[0]).find((*names[1], names[2]))
    if entry is not None and entry.kind == ICEBERG_VIEW:
        raise UnsupportedTable(
            f"'{names[2]}' is a view, not a Delta table", field="table", remedy="load it by the older API"
        )


def require_version(table: Table) -> None:
    """Raises StateConflict for a managed table that awaits version 0."""
    if is_awaited(table):
        raise without_head(table, "")


def table_response(loader: Loader, target: Found, head: TableHead) -> responses.LoadTable:
    """Returns the response with the coordinated table ``target``, as of ``head``."""
    world = services().world
    history_ms = services().limits.history_ms
    held = is_held(world, loader.reader.store, head, target.tree, target.owner)
    return responses.table(loader.state_at(head), files_needed=held, history_ms=history_ms)
