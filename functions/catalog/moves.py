"""Namespaces get another name, over HTTP. Glue only."""

from __future__ import annotations

import allowed
import replies
import shapes
from allowed import rights
from chalice.app import Blueprint
from wiring import once, services

from turnstile.core.access_rules import create_schema, edit_schema
from turnstile.core.names import check_identifier, check_namespace
from turnstile.services.access import Target
from turnstile.services.catalog.history import AsOf
from turnstile.services.catalog.namespaces import NamedNamespace
from turnstile.services.catalog.services import CatalogServices
from turnstile_http.bodies import body

__all__ = ["routes"]

routes = Blueprint(__name__)


@routes.route("/v1/catalogs/{catalog}/namespaces/{namespace}/rename", methods=["POST"])
@rights.needs((edit_schema, allowed.namespace), (create_schema, allowed.moved_namespace))
def rename_namespace(catalog: str, namespace: str) -> replies.NamespaceAnswer:
    asked, of, path = body(shapes.NamespaceMove), check_identifier(catalog, "catalog"), check_namespace(namespace)
    parent = path[:-1] if asked.namespace is None else allowed.parent_of(asked.namespace)

    target = (*parent, asked.name)

    def again(_: CatalogServices, seq: int | None) -> NamedNamespace:
        by = services().catalog_at(Target(of, target))
        return by.namespaces.of(by.history.tree(of, AsOf(seq=seq)), target)

    return replies.namespace(once(of, lambda by: by.namespace_mover.rename(of, path, asked.name, parent), again))
