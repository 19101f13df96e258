"""Views over HTTP. Glue only."""

from __future__ import annotations

from typing import Any

import allowed
from allowed import rights
from asked import body
from chalice.app import Blueprint
from tables import page_token
from wiring import once, services

from turnstile.access.core.rules import create_table, edit_table, modify_table, see_schema, see_table
from turnstile.api.http.request import Query, current
from turnstile.api.iceberg import naming, requests
from turnstile.api.iceberg import responses as answers
from turnstile.api.iceberg.errors import PREFIX
from turnstile.catalog.core.entities import ICEBERG_VIEW
from turnstile.catalog.core.paths import Path
from turnstile.iceberg.listing import Listing
from turnstile.iceberg.tables import Tables
from turnstile.iceberg.views import CreateView, ReplaceView, Views

__all__ = ["routes"]

routes = Blueprint(__name__)

VIEWS = PREFIX + "/v1/{prefix}/namespaces/{namespace}/views"
VIEW = VIEWS + "/{view}"


@routes.route(VIEWS, methods=["GET"])
@rights.needs((see_schema, allowed.namespace))
def list_views(prefix: str, namespace: str) -> dict[str, Any]:
    size = Query(*current().query).integer("pageSize")
    found = Listing(services().reading(prefix)).names(
        allowed.catalog(prefix), naming.namespace(namespace), ICEBERG_VIEW, page_token(), size
    )
    return answers.identifiers(found)


@routes.route(VIEWS, methods=["POST"])
@rights.needs((create_table, allowed.namespace))
def create_view(prefix: str, namespace: str) -> dict[str, Any]:
    asked, path = body(CreateView), naming.namespace(namespace)
    done = once(
        prefix,
        lambda context: Views(context).create(allowed.catalog(prefix), path, asked),
        lambda context: Views(context).load(prefix, path, asked.name),
    )
    return answers.view(done)


@routes.route(VIEW, methods=["GET"])
@rights.needs((see_table, allowed.view))
def load_view(prefix: str, namespace: str, view: str) -> dict[str, Any]:
    return answers.view(Views(services().reading(prefix)).load(*_path(prefix, namespace, view)))


@routes.route(VIEW, methods=["HEAD"])
@rights.needs((see_table, allowed.view))
def view_exists(prefix: str, namespace: str, view: str) -> None:
    Views(services().reading(prefix)).find(*_path(prefix, namespace, view))


@routes.route(VIEW, methods=["POST"])
@rights.needs((modify_table, allowed.view))
def replace_view(prefix: str, namespace: str, view: str) -> dict[str, Any]:
    asked, path = body(ReplaceView), _path(prefix, namespace, view)
    done = once(
        prefix, lambda context: Views(context).replace(*path, asked), lambda context: Views(context).load(*path)
    )
    return answers.view(done)


@routes.route(VIEW, methods=["DELETE"])
@rights.needs((edit_table, allowed.view))
def drop_view(prefix: str, namespace: str, view: str) -> None:
    catalog, path, name = _path(prefix, namespace, view)
    once(
        prefix,
        lambda context: Tables(context).drop(catalog, (*path, name), purge=True, what="view"),
        lambda _: None,
    )


@routes.route(PREFIX + "/v1/{prefix}/views/rename", methods=["POST"])
@rights.needs((edit_table, allowed.renamed), (create_table, allowed.moved))
def rename_view(prefix: str) -> None:
    asked = body(requests.Rename)
    once(prefix, lambda context: Tables(context).rename(allowed.catalog(prefix), *asked.paths(), "view"), lambda _: None)


def _path(prefix: str, namespace: str, view: str) -> tuple[str, Path, str]:
    return allowed.catalog(prefix), naming.namespace(namespace), naming.name(view, "view")
