"""Unity Catalog's API, the hot part: configuration, load, update, and the older commits endpoint. Glue only."""

from __future__ import annotations

import preview
from allowed import catalog_of_query, rights, unity_table_of_path
from chalice.app import Blueprint
from wiring import services

from turnstile.access.core.rules import modify_table, read_table, see_table, use_catalog
from turnstile.api.http.handler import note
from turnstile.api.http.request import Query, body, current
from turnstile.api.unity import answers, external, naming, requests
from turnstile.api.unity import answers as config
from turnstile.api.unity.errors import DELTA, PREFIX
from turnstile.api.unity.naming import require_no_clone
from turnstile.api.unity.plan import plan
from turnstile.api.unity.update import after
from turnstile.catalog.load import Registered
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.names import MAX_VERSION, check_uuid

__all__ = ["routes"]

routes = Blueprint(__name__)

TABLE = DELTA + "/catalogs/{catalog}/schemas/{schema}/tables/{table}"
PREVIEW = PREFIX + "/delta/preview/commits"


@routes.route(DELTA + "/config", methods=["GET"])
@rights.needs((use_catalog, catalog_of_query))
def configuration() -> config.Config:
    query = Query(*current().query)
    name = query.text("catalog")
    if name is None:
        raise InvalidRequest("catalog is missing", field="catalog")
    found = config.negotiate(query.text("protocol-versions"))
    services().reader.current(naming.find_catalog(name))
    return found


@routes.route(TABLE, methods=["GET"])
@rights.needs((see_table, unity_table_of_path))
def load_table(catalog: str, schema: str, table: str) -> answers.LoadTable:
    found = services().loader.find(*naming.find_table(catalog, schema, table))
    if isinstance(found, Registered):
        external.require_delta(found.table)
        return answers.external(found)
    return answers.table(services().loader.loaded(require_no_clone(found)))


@routes.route(TABLE, methods=["HEAD"])
@rights.needs((see_table, unity_table_of_path))
def table_exists(catalog: str, schema: str, table: str) -> None:
    services().loader.find(*naming.find_table(catalog, schema, table))


@routes.route(TABLE, methods=["POST"])
@rights.needs((modify_table, unity_table_of_path))
def update_table(catalog: str, schema: str, table: str) -> answers.LoadTable:
    asked = plan(body(requests.Update))
    named = naming.find_table(catalog, schema, table)
    found = services().loader.find(*named)
    if isinstance(found, Registered):
        external.require_delta(found.table)
        changed, etag = services().externals.update(
            *named,
            found.table.table_id,
            lambda etag, old: external.updated(asked, etag, old, services().world.clock.now_ms()),
        )
        return answers.external_table(changed, etag)
    note(table_id=found.table_id)
    head = services().updater.update(require_no_clone(found), asked)
    with after(asked):
        return answers.table(services().loader.loaded(head))


@routes.route(PREVIEW, methods=["GET"])
@rights.needs_table(read_table, of=lambda _: preview.asked().table_id)
def preview_commits() -> preview.UnityCommits:
    asked = preview.asked()
    end = MAX_VERSION if asked.end_version is None else asked.end_version
    head = require_no_clone(services().commits.head(asked.table_id))
    return preview.rendered(services().commits.of(head, asked.start_version, end))


@routes.route(PREVIEW, methods=["POST"])
@rights.needs_table(modify_table, of=lambda _: check_uuid(body(preview.Posted).table_id))
def preview_commit() -> dict[str, str]:
    asked = preview.posted(body(preview.Posted))
    head = services().commits.head(asked.uuid)
    preview.check_place(require_no_clone(head), asked)
    services().updater.update(head, asked)
    return {}
