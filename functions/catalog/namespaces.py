"""Namespaces over HTTP. Glue only."""

from __future__ import annotations

from functools import partial

import allowed
import replies
import shapes
from allowed import rights
from chalice.app import Blueprint
from msgspec import UNSET
from wiring import once, services

from turnstile.access.authorizer import Target
from turnstile.access.core.grants import owner_for
from turnstile.access.core.rules import create_schema, edit_schema, see_schema
from turnstile.api.http.answers import Answer, created
from turnstile.api.http.request import Query, body, current
from turnstile.catalog.core.paths import Path
from turnstile.catalog.history.log import AsOf
from turnstile.catalog.namespaces import NamedNamespace
from turnstile.catalog.services import CatalogServices
from turnstile.store.core.names import check_identifier, check_namespace

__all__ = ["routes"]

routes = Blueprint(__name__)

CATALOG = "/v1/catalogs/{catalog}"
NAMESPACE = CATALOG + "/namespaces/{namespace}"


@routes.route(CATALOG + "/namespaces", methods=["GET"])
@rights.needs((see_schema, allowed.parent))
def list_namespaces(catalog: str) -> replies.Namespaces:
    query = Query("parent", "as_of", "page_token", "max_results")
    parent, as_of = query.text("parent"), query.moment()
    page = services().catalog.listings.namespaces(
        check_identifier(catalog, "catalog"),
        check_namespace(parent, "parent") if parent else (),
        as_of=as_of,
        page_token=query.text("page_token"),
        max_results=query.integer("max_results"),
    )
    return replies.namespaces(page, told=as_of is not None)


@routes.route(CATALOG + "/namespaces", methods=["POST"])
@rights.needs((create_schema, allowed.new_namespace))
def create_namespace(catalog: str) -> Answer:
    asked, of, owner = body(shapes.NewNamespace), check_identifier(catalog, "catalog"), owner_for(current().principal)
    path = check_namespace(asked.name, "name")

    def create(by: CatalogServices) -> NamedNamespace:
        return by.namespaces.create(of, path, comment=asked.comment, properties=asked.properties, owner=owner)

    return created(replies.namespace(once(of, create, partial(_as_left, of, path))))


@routes.route(NAMESPACE, methods=["GET"])
@rights.needs((see_schema, allowed.namespace))
def get_namespace(catalog: str, namespace: str) -> replies.NamespaceAnswer:
    as_of = Query("as_of").moment()
    found, head = services().catalog.entries.namespace(
        check_identifier(catalog, "catalog"), check_namespace(namespace), as_of
    )
    return replies.namespace(found, head if as_of is not None else UNSET)


@routes.route(NAMESPACE, methods=["PATCH"])
@rights.needs((edit_schema, allowed.namespace))
def update_namespace(catalog: str, namespace: str) -> replies.NamespaceAnswer:
    asked, of, path = body(shapes.NamespaceUpdate), check_identifier(catalog, "catalog"), check_namespace(namespace)

    def update(by: CatalogServices) -> NamedNamespace:
        return by.namespaces.update(
            of, path, set=asked.set, unset=asked.unset, merge=asked.merge, comment=asked.comment
        )

    return replies.namespace(once(of, update, partial(_as_left, of, path)))


@routes.route(NAMESPACE, methods=["DELETE"])
@rights.needs((edit_schema, allowed.namespace))
def drop_namespace(catalog: str, namespace: str) -> None:
    cascade = Query("cascade").flag("cascade")
    of, path = check_identifier(catalog, "catalog"), check_namespace(namespace)
    once(of, lambda by: by.namespace_dropper.drop(of, path, cascade=cascade), lambda *_: None)


@routes.route(NAMESPACE + "/rename", methods=["POST"])
@rights.needs((edit_schema, allowed.namespace), (create_schema, allowed.moved_namespace))
def rename_namespace(catalog: str, namespace: str) -> replies.NamespaceAnswer:
    asked, of, path = body(shapes.NamespaceMove), check_identifier(catalog, "catalog"), check_namespace(namespace)
    parent = path[:-1] if asked.namespace is None else allowed.parent_of(asked.namespace)
    target = (*parent, asked.name)

    def again(_: CatalogServices, seq: int | None) -> NamedNamespace:
        by = services().catalog_at(Target(of, target))
        return by.namespaces.of(by.history.tree(of, AsOf(seq=seq)), target)

    return replies.namespace(once(of, lambda by: by.namespace_mover.rename(of, path, asked.name, parent), again))


def _as_left(catalog: str, path: Path, by: CatalogServices, seq: int | None) -> NamedNamespace:
    """A namespace as commit ``seq`` left it, for whoever may see it now."""
    return by.namespaces.of(by.history.tree(catalog, AsOf(seq=seq)), path)
