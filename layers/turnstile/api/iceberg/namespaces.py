"""Configuration and namespaces of the Iceberg API."""

from __future__ import annotations

from typing import Any

import msgspec
from chalice.app import Blueprint

from turnstile.access.authorizer import Need, Target
from turnstile.api.http.authorization import Params, guard, needs
from turnstile.api.http.request import current
from turnstile.api.iceberg import requests, responses
from turnstile.api.iceberg.context import (
    NAMESPACE,
    NAMESPACES,
    ROOT,
    body,
    context_of,
    namespace_of_path,
    once,
    page,
    query,
    reading,
)
from turnstile.api.iceberg.errors import Unprocessable
from turnstile.api.iceberg.requests import catalog_of
from turnstile.api.services import services
from turnstile.catalog.core import entities
from turnstile.catalog.core.paths import Path, check_path, managed_folder
from turnstile.catalog.drop import NamespaceDropper
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.namespaces import NamedNamespace, Namespaces
from turnstile.iceberg.context import Context
from turnstile.iceberg.tables import already_exists
from turnstile.rights.grants import owner_for
from turnstile.rights.rules import create_schema, edit_schema, see_schema, use_catalog
from turnstile.store.core.errors import AlreadyExists, InvalidRequest

routes = Blueprint(__name__)


def _warehouse(_params: Params) -> Target | None:
    """The catalog that a client asks its configuration for; None when it names none, and the view
    chooses."""
    name = query().text("warehouse")
    return None if name is None else Target(requests.warehouse(name)[0])


def _only_catalog() -> str:
    """The only catalog that the principal may use; raises InvalidRequest if there are several, or
    none."""
    names = [catalog.name for catalog, _ in services().visible_catalogs()]
    if len(names) != 1:
        problem = f"warehouse is missing, and there are {len(names)} catalogs to choose from"
        raise InvalidRequest(problem, field="warehouse", remedy="name the catalog: warehouse=main")
    return names[0]


def _parent(params: Params) -> Target:
    """The namespace to list; the catalog when none is named."""
    return Target(catalog_of(params["prefix"]), _parent_path())


def _parent_path() -> Path:
    parent = query().text("parent")
    return requests.namespace(parent) if parent else ()


def _new_namespace(params: Params) -> Target:
    return Target(catalog_of(params["prefix"]), check_path(body(requests.CreateNamespace).namespace))


@routes.route(ROOT + "/config", methods=["GET"])
@needs((use_catalog, _warehouse))
def config() -> dict[str, Any]:
    named = query().text("warehouse")
    here = services()
    catalog, as_of = requests.warehouse(_only_catalog() if named is None else named)
    authorizer = guard() if named is not None else here.guard_of(Need(use_catalog, Target(catalog)))
    tree = here.catalog_for(authorizer).as_of_reader.at(catalog, as_of).tree
    if as_of is None:
        return responses.config(tree.catalog)
    # resolved once, so that all that the client reads is one view, whatever its moment would lead
    # to later
    return responses.config(requests.prefix(tree.catalog, AsOf(head=tree.head)), responses.READING)


@routes.route(NAMESPACES, methods=["GET"])
@needs((see_schema, _parent))
def list_namespaces(prefix: str) -> dict[str, Any]:
    return responses.namespaces(page(prefix, _parent_path(), entities.NAMESPACE))


@routes.route(NAMESPACES, methods=["POST"])
@needs((create_schema, _new_namespace))
def create_namespace(prefix: str) -> dict[str, Any]:
    request = body(requests.CreateNamespace)
    path = check_path(request.namespace)
    properties = dict(request.properties)
    comment = properties.pop(responses.COMMENT, None)
    owner = owner_for(current().principal)

    def create(context: Context) -> NamedNamespace:
        namespaces = _namespaces(context)
        try:
            return namespaces.create(catalog_of(prefix), path, comment=comment, properties=properties, owner=owner)
        except AlreadyExists as error:
            raise already_exists(entities.NAMESPACE, path, error.details["kind"]) from None

    def again(_: Context) -> NamedNamespace:
        by = services().guard_of(Need(see_schema, Target(catalog_of(prefix), path)))  # it may be another's by now (I12)
        return _namespaces(context_of(by)).get(prefix, path)

    return _answer(once(prefix, create, again))


@routes.route(NAMESPACE, methods=["GET"])
@needs((see_schema, namespace_of_path))
def load_namespace(prefix: str, namespace: str) -> dict[str, Any]:
    return _answer(_namespace(prefix, namespace))


def _answer(named: NamedNamespace) -> dict[str, Any]:
    return responses.namespace(named, managed_folder(services().settings.lake_root, named.catalog, named.name))


@routes.route(NAMESPACE, methods=["HEAD"])
@needs((see_schema, namespace_of_path))
def namespace_exists(prefix: str, namespace: str) -> None:
    _namespace(prefix, namespace)


def _namespace(prefix: str, namespace: str) -> NamedNamespace:
    context = reading(prefix)
    return context.catalog.entries.namespace(catalog_of(prefix), requests.namespace(namespace), context.as_of)[0]


@routes.route(NAMESPACE, methods=["DELETE"])
@needs((edit_schema, namespace_of_path))
def drop_namespace(prefix: str, namespace: str) -> None:
    def drop(context: Context) -> None:
        reader = context.catalog.reader
        tables = context.catalog.dropper
        dropper = NamespaceDropper(context.world, reader, context.committer, tables)
        dropper.drop(catalog_of(prefix), requests.namespace(namespace))

    once(prefix, drop, lambda _: None)


@routes.route(NAMESPACE + "/properties", methods=["POST"])
@needs((edit_schema, namespace_of_path))
def update_properties(prefix: str, namespace: str) -> dict[str, Any]:
    request = body(requests.UpdateProperties)
    path = requests.namespace(namespace)
    both = sorted({*request.removals} & {*request.updates})
    if both:
        raise Unprocessable(f"property {both[0][:100]!r} is to be both set and removed", field="removals")
    updated = [*request.updates]
    removed = request.removals
    responses.check_names([*removed, *updated])
    properties = dict(request.updates)
    comment: str | msgspec.UnsetType | None = properties.pop(responses.COMMENT, msgspec.UNSET)
    if responses.COMMENT in removed:
        comment = None

    def update(context: Context) -> dict[str, Any]:
        namespaces = _namespaces(context)
        before = responses.properties(namespaces.get(catalog_of(prefix), path))
        namespaces.update(prefix, path, set=properties, unset=removed, comment=comment)
        return responses.changed_properties(before, updated, removed)

    return once(prefix, update, lambda _: responses.changed_properties(removed, updated, removed))


def _namespaces(context: Context) -> Namespaces:
    by = context.catalog
    return Namespaces(context.world, by.reader, context.committer, by.expectations_check)
