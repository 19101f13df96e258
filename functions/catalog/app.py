"""The catalog over HTTP: catalogs, tables, and what operators ask for. Glue only: parse, call one operation, render.

docs/api.md is the contract, openapi/v1.yaml its formal description.
"""

from __future__ import annotations

import allowed
import clones
import entries
import find
import namespaces
import operators
import past
import permissions
import refs
import replies
import shapes
import unity
import unity_catalogs
import unity_keys
import unity_tables
from allowed import rights
from chalice.app import Chalice
from wiring import once, opened, services, use_world

from turnstile.access.authorizer import Target
from turnstile.access.core.grants import owner_for
from turnstile.access.core.rules import (
    create_catalog,
    create_table,
    edit_table,
    modify_table,
    nobody,
    see_schema,
)
from turnstile.api.auth.settings import authentication
from turnstile.api.http.answers import Answer, created
from turnstile.api.http.env import in_lambda
from turnstile.api.http.handler import COMMIT, TOKENS, serve
from turnstile.api.http.request import Query, body, current
from turnstile.api.unity.errors import PREFIX, render
from turnstile.api.v1 import wire
from turnstile.catalog.catalogs import REALM_TREE
from turnstile.catalog.core.paths import Path
from turnstile.catalog.services import CatalogServices
from turnstile.delta.repair import Diagnosis
from turnstile.gc.collector import Report
from turnstile.store.core.names import check_identifier, check_namespace, check_uuid
from turnstile.transfer.reports import ExportReport, ImportReport

__all__ = ["app", "rights", "use_world"]

api = Chalice(app_name="turnstile-catalog", configure_logs=False)

CATALOG = "/v1/catalogs/{catalog}"
NAMESPACE = CATALOG + "/namespaces/{namespace}"
TABLE = NAMESPACE + "/tables/{table}"


def _catalog(name: str) -> str:
    return check_identifier(name, "catalog")


def _load(catalog: str, namespace: Path, table: str) -> wire.LoadedTable:
    return wire.loaded_table(services().loader_of(Target(catalog, namespace, table)).load(catalog, namespace, table))


def _owner() -> str:
    """Who owns what this request creates."""
    return owner_for(current().principal)


# -- catalogs -----------------------------------------------------------------------------------------------------


@api.route("/v1/catalogs", methods=["GET"])
@rights.judged_inside("use_catalog of each that is listed")
def list_catalogs() -> replies.Catalogs:
    Query()
    return replies.Catalogs([replies.catalog(one) for one, _ in services().visible_catalogs()])


@api.route("/v1/catalogs", methods=["POST"])
@rights.needs((create_catalog, allowed.metastore))
def create_new_catalog() -> Answer:
    name, owner = body(shapes.NewCatalog).name, _owner()
    made = once(
        REALM_TREE,
        lambda catalog: catalog.catalogs.create(name, owner=owner),
        lambda catalog, _: catalog.catalogs.get(name),
    )
    return created(replies.catalog(made))


# -- tables -------------------------------------------------------------------------------------------------------


@api.route(NAMESPACE + "/tables", methods=["GET"])
@rights.needs((see_schema, allowed.namespace))
def list_tables(catalog: str, namespace: str) -> replies.Tables:
    query = Query("as_of", "page_token", "max_results")
    as_of = query.moment()
    page = services().catalog.listings.tables(
        _catalog(catalog),
        check_namespace(namespace),
        as_of=as_of,
        page_token=query.text("page_token"),
        max_results=query.integer("max_results"),
    )
    return replies.tables(page, told=as_of is not None)


@api.route(NAMESPACE + "/staging-tables", methods=["POST"])
@rights.needs((create_table, allowed.namespace))
def stage_table(catalog: str, namespace: str) -> Answer:
    name = body(shapes.NewStagingTable).name
    made = services().catalog.staging.create(_catalog(catalog), check_namespace(namespace), name, creator=_owner())
    return created(made)


@api.route(NAMESPACE + "/tables", methods=["POST"])
@rights.needs((create_table, allowed.namespace))
def register_table(catalog: str, namespace: str) -> Answer:
    asked, of, path, principal = (
        body(shapes.NewTable),
        _catalog(catalog),
        check_namespace(namespace),
        current().principal,
    )

    def register(by: CatalogServices) -> None:
        by.registrar.register(of, path, asked.name, asked.table_id, comment=asked.comment, principal=principal)

    once(of, register, lambda *_: None)
    return created(_load(catalog, path, asked.name))


@api.route(TABLE + "/rename", methods=["POST"])
@rights.needs((edit_table, allowed.table), (create_table, allowed.moved))
def rename_table(catalog: str, namespace: str, table: str) -> wire.LoadedTable:
    asked = body(shapes.NewName)
    target = None if asked.namespace is None else check_namespace(asked.namespace)
    named = (_catalog(catalog), check_namespace(namespace), check_identifier(table, "table"))
    to = (*(named[1] if target is None else target), asked.name)
    path = once(named[0], lambda by: by.renamer.rename(*named, asked.name, target, external=False), lambda *_: to)
    return _load(catalog, path[:-1], path[-1])


@api.route(TABLE, methods=["DELETE"])
@rights.needs((edit_table, allowed.table))
def drop_table(catalog: str, namespace: str, table: str) -> None:
    Query()
    named = (_catalog(catalog), check_namespace(namespace), check_identifier(table, "table"))
    once(named[0], lambda by: by.dropper.drop(*named), lambda *_: None)


@api.route(NAMESPACE + "/imports", methods=["POST"])
@rights.needs((nobody, allowed.namespace), first=True)
def import_table(catalog: str, namespace: str) -> ImportReport | Answer:
    asked, path = body(shapes.Import), check_namespace(namespace)
    wanted = (_catalog(catalog), path, asked.name, asked.location)
    if asked.dry_run:
        return services().importer.dry_run(*wanted)
    services().importer.run(*wanted, owner=_owner())
    return created(_load(catalog, path, asked.name))


@api.route(TABLE + "/export", methods=["POST"])
@rights.needs((edit_table, allowed.table))
def export_table(catalog: str, namespace: str, table: str) -> ExportReport:
    wanted = (_catalog(catalog), check_namespace(namespace), check_identifier(table, "table"))
    dry_run = body(shapes.DryRun).dry_run
    return services().exporter.dry_run(*wanted) if dry_run else services().exporter.run(*wanted)


# -- operators ----------------------------------------------------------------------------------------------------


@api.route("/v1/tables", methods=["GET"])
@rights.needs((nobody, allowed.metastore))
def list_heads() -> replies.Heads:
    query = Query("page_token", "max_results")
    return operators.heads(query.text("page_token"), query.integer("max_results"))


@api.route("/v1/tables/{table_id}/publish", methods=["POST"])
@rights.needs_table(modify_table, of=allowed.uuid)
def publish(table_id: str) -> replies.PublishAnswer:
    Query()
    return operators.publish(check_uuid(table_id))


@api.route("/v1/tables/{table_id}/repair", methods=["GET"])
@rights.needs_table(modify_table, of=allowed.uuid)
def diagnose(table_id: str) -> Diagnosis:
    Query()
    return operators.diagnose(check_uuid(table_id))


@api.route("/v1/tables/{table_id}/repair", methods=["POST"])
@rights.needs_table(modify_table, of=allowed.uuid)
def repair(table_id: str) -> replies.RepairAnswer:
    Query()
    return operators.repair(check_uuid(table_id))


@api.route("/v1/gc", methods=["POST"])
@rights.needs((nobody, allowed.metastore))
def collect() -> Report:
    return operators.collect(body(shapes.Collect))


for routes in (
    unity.routes,
    unity_catalogs.routes,
    unity_tables.routes,
    unity_keys.routes,
    permissions.routes,
    find.routes,
    entries.routes,
    refs.routes,
    past.routes,
    clones.routes,
    namespaces.routes,
):
    api.register_blueprint(routes)

# Routes of the other functions: the gateway sends what no route matches here, to be told apart: 404 or 405.
app = serve(api, service="catalog", authentication=authentication(), elsewhere=COMMIT | TOKENS, shapes={PREFIX: render})

if in_lambda():
    opened()
