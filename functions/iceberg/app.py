"""Iceberg's REST catalog over HTTP: configuration, namespaces, transactions. Glue only: parse, call one operation, render.

docs/iceberg.md says what is served and how, openapi/iceberg.yaml describes it formally.
"""

from __future__ import annotations

from typing import Any

import allowed
import msgspec
import tables
import views
from allowed import rights
from asked import BODIES, body
from chalice.app import Chalice
from wiring import once, opened, services, use_world

from turnstile.access.core.grants import owner_for
from turnstile.access.core.rules import create_schema, edit_schema, see_schema, use_catalog
from turnstile.api.auth.settings import authentication
from turnstile.api.http.authorization import guard
from turnstile.api.http.env import in_lambda
from turnstile.api.http.handler import serve
from turnstile.api.http.request import Query, current
from turnstile.api.iceberg import naming, requests
from turnstile.api.iceberg import responses as answers
from turnstile.api.iceberg.errors import PREFIX, Unprocessable, render
from turnstile.catalog.drop import NamespaceDropper
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.namespaces import NamedNamespace, Namespaces
from turnstile.iceberg.commits import Commits, TableChange
from turnstile.iceberg.context import Context
from turnstile.iceberg.listing import Listing
from turnstile.store.core.errors import InvalidRequest

__all__ = ["app", "rights", "use_world"]

api = Chalice(app_name="turnstile-iceberg", configure_logs=False)

ROOT = PREFIX + "/v1"
NAMESPACES = ROOT + "/{prefix}/namespaces"
NAMESPACE = NAMESPACES + "/{namespace}"


@api.route(ROOT + "/config", methods=["GET"])
@rights.needs((use_catalog, allowed.warehouse))
def config() -> dict[str, Any]:
    named = Query(*current().query).text("warehouse")
    if named is None:
        raise InvalidRequest("warehouse is missing", field="warehouse", remedy="name the catalog: warehouse=main")
    catalog, as_of = naming.warehouse(named)
    found = services().context().catalog.as_of_reader.at(catalog, as_of).tree
    if as_of is None:
        return answers.config(found.catalog)
    # resolved once, so that all that the client reads is one view, whatever its moment would lead to later
    return answers.config(naming.prefix(found.catalog, AsOf(head=found.head)), answers.READING)


# -- namespaces -----------------------------------------------------------------------------------------------------


@api.route(NAMESPACES, methods=["GET"])
@rights.needs((see_schema, allowed.parent))
def list_namespaces(prefix: str) -> dict[str, Any]:
    query = Query(*current().query)
    parent = query.text("parent")
    found = Listing(services().reading(prefix)).namespaces(
        allowed.catalog(prefix),
        naming.namespace(parent) if parent else (),
        tables.page_token(),
        query.integer("pageSize"),
    )
    return answers.namespaces(found)


@api.route(NAMESPACES, methods=["POST"])
@rights.needs((create_schema, allowed.new_namespace))
def create_namespace(prefix: str) -> dict[str, Any]:
    asked = body(requests.CreateNamespace)
    path, given = naming.levels(asked.namespace), dict(asked.properties)
    comment, owner = given.pop(answers.COMMENT, None), owner_for(current().principal)

    def create(context: Context) -> NamedNamespace:
        found = _namespaces(context)
        return found.create(allowed.catalog(prefix), path, comment=comment, properties=given, owner=owner)

    return answers.namespace(once(prefix, create, lambda context: _namespaces(context).get(prefix, path)))


@api.route(NAMESPACE, methods=["GET"])
@rights.needs((see_schema, allowed.namespace))
def load_namespace(prefix: str, namespace: str) -> dict[str, Any]:
    return answers.namespace(_namespace(prefix, namespace))


@api.route(NAMESPACE, methods=["HEAD"])
@rights.needs((see_schema, allowed.namespace))
def namespace_exists(prefix: str, namespace: str) -> None:
    _namespace(prefix, namespace)


def _namespace(prefix: str, namespace: str) -> NamedNamespace:
    """A namespace, now or then."""
    context = services().reading(prefix)
    return context.catalog.entries.namespace(allowed.catalog(prefix), naming.namespace(namespace), context.as_of)[0]


@api.route(NAMESPACE, methods=["DELETE"])
@rights.needs((edit_schema, allowed.namespace))
def drop_namespace(prefix: str, namespace: str) -> None:
    def drop(context: Context) -> None:
        catalog = context.catalog
        dropper = NamespaceDropper(context.world, catalog.reader, context.committer, catalog.dropper)
        dropper.drop(allowed.catalog(prefix), naming.namespace(namespace))

    once(prefix, drop, lambda _: None)


@api.route(NAMESPACE + "/properties", methods=["POST"])
@rights.needs((edit_schema, allowed.namespace))
def update_properties(prefix: str, namespace: str) -> dict[str, Any]:
    asked, path = body(requests.UpdateProperties), naming.namespace(namespace)
    both = sorted({*asked.removals} & {*asked.updates})
    if both:
        raise Unprocessable(f"property {both[0][:100]!r} is to be both set and removed", field="removals")
    answers.check_names([*asked.removals, *asked.updates])
    given = dict(asked.updates)
    comment: str | msgspec.UnsetType | None = given.pop(answers.COMMENT, msgspec.UNSET)
    if answers.COMMENT in asked.removals:
        comment = None

    def update(context: Context) -> dict[str, Any]:
        found = _namespaces(context)
        before = answers.properties(found.get(allowed.catalog(prefix), path))
        found.update(prefix, path, set=given, unset=asked.removals, comment=comment)
        return answers.changed_properties(before, [*asked.updates], asked.removals)

    def again(_: Context) -> dict[str, Any]:
        return answers.changed_properties(asked.removals, [*asked.updates], asked.removals)

    return once(prefix, update, again)


def _namespaces(context: Context) -> Namespaces:
    return Namespaces(context.world, context.catalog.reader, context.committer)


# -- several tables at once -----------------------------------------------------------------------------------------


@api.route(ROOT + "/{prefix}/transactions/commit", methods=["POST"])
@rights.authorized_by_view("modify_table or create_table of each change")
def commit_transaction(prefix: str) -> None:
    changes = []
    for asked in body(requests.CommitTransaction).table_changes:
        if asked.identifier is None:
            raise InvalidRequest("a change names no table", field="table-changes.identifier")
        path = (*naming.levels(asked.identifier.namespace), naming.name(asked.identifier.name))
        changes.append(TableChange(path, asked.requirements, asked.updates))
    judge = services().guard_of([allowed.need_of(allowed.catalog(prefix), change) for change in changes])
    judge.authorize_now()
    guard().mark_authorized()
    once(prefix, lambda context: Commits(context).commit(prefix, changes), lambda _: [], judge)


for routes in (tables.routes, views.routes):
    api.register_blueprint(routes)

app = serve(api, service="iceberg", authentication=authentication(), shapes={PREFIX: render}, bodies=BODIES)

if in_lambda():
    opened()
