"""Views of the Iceberg API."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from chalice.app import Blueprint

from turnstile.access.authorizer import Target
from turnstile.api.http.authorization import Params, needs
from turnstile.api.iceberg import requests, responses
from turnstile.api.iceberg.context import (
    NAMESPACE,
    ROOT,
    body,
    context_of,
    namespace_of_path,
    once,
    page,
    reading,
    seeing,
)
from turnstile.api.iceberg.requests import catalog_of
from turnstile.api.iceberg.tables import rename_source, rename_target
from turnstile.catalog.core.entities import ICEBERG_VIEW, IcebergView
from turnstile.catalog.core.paths import Path
from turnstile.iceberg.tables import Tables
from turnstile.iceberg.views import CreateView, LoadedView, ReplaceView, Views
from turnstile.rights.rules import create_table, edit_table, modify_table, see_schema, see_table
from turnstile.store.core.names import check_name

routes = Blueprint(__name__)

VIEWS: Final = NAMESPACE + "/views"
VIEW: Final = VIEWS + "/{view}"


def _view_of_path(params: Params) -> Target:
    return msgspec.structs.replace(namespace_of_path(params), table=requests.name(params["view"], "view"))


@routes.route(VIEWS, methods=["GET"])
@needs((see_schema, namespace_of_path))
def list_views(prefix: str, namespace: str) -> dict[str, Any]:
    return responses.identifiers(page(prefix, requests.namespace(namespace), ICEBERG_VIEW))


@routes.route(VIEWS, methods=["POST"])
@needs((create_table, namespace_of_path))
def create_view(prefix: str, namespace: str) -> dict[str, Any]:
    request = body(CreateView)
    path = requests.namespace(namespace)
    loaded = once(
        prefix,
        lambda context: Views(context).create(catalog_of(prefix), path, request),
        lambda _: _again(prefix, (*path, check_name(request.name, "name"))),
    )
    return responses.view(loaded)


@routes.route(NAMESPACE + "/register-view", methods=["POST"])
@needs((create_table, namespace_of_path))
def register_view(prefix: str, namespace: str) -> dict[str, Any]:
    request = body(requests.RegisterView)
    path = (*requests.namespace(namespace), check_name(request.name, "name"))
    file = request.metadata_location
    loaded = once(
        prefix,
        lambda context: Views(context).register(catalog_of(prefix), path, file),
        lambda _: _again(prefix, path),
    )
    return responses.view(loaded)


@routes.route(VIEW, methods=["GET"])
@needs((see_table, _view_of_path))
def load_view(prefix: str, namespace: str, view: str) -> dict[str, Any]:
    return responses.view(Views(reading(prefix)).load(*_path(prefix, namespace, view)))


@routes.route(VIEW, methods=["HEAD"])
@needs((see_table, _view_of_path))
def view_exists(prefix: str, namespace: str, view: str) -> None:
    Views(reading(prefix)).find(*_path(prefix, namespace, view))


@routes.route(VIEW, methods=["POST"])
@needs((modify_table, _view_of_path))
def replace_view(prefix: str, namespace: str, view: str) -> dict[str, Any]:
    request = body(ReplaceView)
    path = _path(prefix, namespace, view)
    loaded = once(
        prefix, lambda context: Views(context).replace(*path, request), lambda context: Views(context).load(*path)
    )
    return responses.view(loaded)


@routes.route(VIEW, methods=["DELETE"])
@needs((edit_table, _view_of_path))
def drop_view(prefix: str, namespace: str, view: str) -> None:
    path = _path(prefix, namespace, view)
    once(prefix, lambda context: Views(context).drop(*path), lambda _: None)


@routes.route(ROOT + "/{prefix}/views/rename", methods=["POST"])
@needs((edit_table, rename_source), (create_table, rename_target))
def rename_view(prefix: str) -> None:
    request = body(requests.Rename)
    once(
        prefix,
        lambda context: Tables(context).rename(catalog_of(prefix), *request.paths(), IcebergView),
        lambda _: None,
    )


def _again(prefix: str, path: Path) -> LoadedView:
    """The answer to a repeated request: the view that has the name now, by the rights on it."""
    return Views(context_of(seeing(prefix, path))).load(prefix, path)


def _path(prefix: str, namespace: str, view: str) -> tuple[str, Path]:
    return catalog_of(prefix), (*requests.namespace(namespace), requests.name(view, "view"))
