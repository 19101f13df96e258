"""Catalogs over HTTP."""

from __future__ import annotations

import msgspec
from chalice.app import Blueprint

from turnstile.access.core.grants import owner_for
from turnstile.access.core.rules import create_catalog
from turnstile.api.http.authorization import (
    authorized_by_view,
    metastore,
    needs,
)
from turnstile.api.http.request import Query, body, current
from turnstile.api.http.responses import Answer, created
from turnstile.api.services import services
from turnstile.api.v1.changes import once
from turnstile.catalog.catalogs import REALM_TREE
from turnstile.catalog.core.entities import Catalog

routes = Blueprint(__name__)


class NewCatalog(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /v1/catalogs``."""

    name: str


class CatalogResponse(msgspec.Struct, frozen=True):
    """A catalog; ``created`` in ms."""

    name: str
    created: int


class Catalogs(msgspec.Struct, frozen=True):
    """All catalogs."""

    catalogs: list[CatalogResponse]


@routes.route("/v1/catalogs", methods=["GET"])
@authorized_by_view("use_catalog of each that is listed")
def list_catalogs() -> Catalogs:
    Query()
    return Catalogs([_response(catalog) for catalog, _ in services().visible_catalogs()])


@routes.route("/v1/catalogs", methods=["POST"])
@needs((create_catalog, metastore))
def create_new_catalog() -> Answer:
    name, owner = body(NewCatalog).name, owner_for(current().principal)
    catalog = once(REALM_TREE, lambda by: by.catalogs.create(name, owner=owner), lambda by, _: by.catalogs.get(name))
    return created(_response(catalog))


def _response(catalog: Catalog) -> CatalogResponse:
    return CatalogResponse(catalog.name, catalog.created)
