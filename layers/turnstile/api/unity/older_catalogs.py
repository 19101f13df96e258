"""Catalogs and schemas of Unity Catalog's older API."""

from __future__ import annotations

import functools
import itertools
import uuid
from typing import Final

import msgspec
from chalice.app import Blueprint

from turnstile.access.authorizer import Target
from turnstile.api.http.authorization import Params, authorized_by_view, metastore, needs, open_to_all
from turnstile.api.http.request import body, current
from turnstile.api.services import services
from turnstile.api.unity import older_api, requests
from turnstile.api.unity.errors import PREFIX, NotImplementedHere
from turnstile.api.unity.requests import query
from turnstile.catalog.core.entities import Catalog, Namespace
from turnstile.catalog.core.paths import key_of
from turnstile.catalog.namespaces import NamedNamespace, check_properties
from turnstile.rights.grants import Access, owner_for
from turnstile.rights.rules import (
    create_catalog,
    create_schema,
    edit_catalog,
    edit_schema,
    see_schema,
    use_catalog,
)
from turnstile.store.core.limits import PageBudget, response_size
from turnstile.store.core.names import check_identifier, check_namespace

routes = Blueprint(__name__)

PAGE: Final = 100
"""Most results of a page; also as many as there are when no size is asked for."""

_IDS: Final = uuid.UUID("0d6f3b64-4a4c-5b7e-9d2e-7f1f3c9a5e10")


def page_size(default: int = PAGE) -> int:
    """Returns the number of results of a page: the requested one, at most ``PAGE``; 0 leaves it to
    the server."""
    wanted = query().integer("max_results")
    return default if wanted is None else min(wanted or PAGE, PAGE)


def _catalog_of_path(params: Params) -> Target:
    return Target(requests.find_catalog(params["name"]))


def _schema_of_path(params: Params) -> Target:
    return Target(*requests.full_schema(params["full_name"]))


def _renamed_schema(params: Params) -> Target | None:
    """The schema that ``new_name`` makes of another, if the request has one; a change of case alone
    makes none."""
    new_name = body(older_api.Changed).new_name
    if new_name is None:
        return None
    source = _schema_of_path(params)
    path = check_namespace(new_name, "new_name")
    return None if key_of(path) == key_of(source.namespace) else msgspec.structs.replace(source, namespace=path)


def _catalog_of_query(_params: Params) -> Target:
    """The catalog to list; the view raises the error for a query without one."""
    return Target(requests.find_catalog(query().text("catalog_name") or ""))


def _new_schema(_params: Params) -> Target:
    request = body(older_api.NewSchema)
    return Target(requests.find_catalog(request.catalog_name), (check_identifier(request.name, "name"),))


@routes.route(PREFIX + "/metastore_summary", methods=["GET"])
@open_to_all
def metastore_summary() -> dict[str, str]:
    return {"metastore_id": _id("")}


@routes.route(PREFIX + "/catalogs", methods=["GET"])
@authorized_by_view("use_catalog of each that is listed")
def unity_catalogs() -> older_api.Catalogs:
    size = page_size()
    after = (query().text("page_token") or "").casefold()
    visible = sorted(services().visible_catalogs(), key=lambda pair: pair[0].name.casefold())
    later = [pair for pair in visible if pair[0].name.casefold() > after]
    infos = (_catalog(*pair) for pair in later[:size])
    budget = PageBudget()
    page = list(itertools.takewhile(lambda info: budget.fits(response_size(info)), infos))
    return older_api.Catalogs(page, page[-1].name if len(later) > len(page) else None)


@routes.route(PREFIX + "/catalogs", methods=["POST"])
@needs((create_catalog, metastore))
def create_unity_catalog() -> older_api.CatalogInfo:
    request = body(older_api.NewCatalog)
    owner = owner_for(current().principal)
    create = services().catalog.catalogs.create
    catalog = create(request.name, comment=request.comment, properties=request.properties, owner=owner)
    return _catalog(catalog, Access(owner))


@routes.route(PREFIX + "/catalogs/{name}", methods=["GET"])
@needs((use_catalog, _catalog_of_path))
def unity_catalog(name: str) -> older_api.CatalogInfo:
    access = services().catalog.reader.current(requests.find_catalog(name)).commit.access
    return _catalog(services().catalog.catalogs.get(name), access)


@routes.route(PREFIX + "/catalogs/{name}", methods=["PATCH"])
@needs((edit_catalog, _catalog_of_path))
def update_unity_catalog(name: str) -> older_api.CatalogInfo:
    request = body(older_api.Changed)
    name = requests.find_catalog(name)
    access = services().catalog.reader.current(name).commit.access
    if request.new_name is not None and request.new_name != services().catalog.catalogs.get(name).name:
        raise NotImplementedHere("catalogs cannot be renamed", field="new_name")
    changed = services().catalog.catalogs.update(name, comment=request.comment, properties=request.properties or None)
    return _catalog(changed, access)


@routes.route(PREFIX + "/catalogs/{name}", methods=["DELETE"])
@needs((edit_catalog, _catalog_of_path), first=True)
def drop_unity_catalog(name: str) -> dict[str, str]:
    services().catalog.catalogs.drop(requests.find_catalog(name), force=query().flag("force"))
    return {}


@routes.route(PREFIX + "/schemas", methods=["GET"])
@needs((see_schema, _catalog_of_query))
def unity_schemas() -> older_api.Schemas:
    catalog = requests.find_catalog(requests.required_member("catalog_name"))
    page = services().catalog.listings.namespaces(
        catalog, deep=True, page_token=query().text("page_token"), max_results=page_size()
    )
    written = _written_name(catalog)
    return older_api.Schemas([_schema(written, namespace) for namespace in page.items], page.next_token)


@routes.route(PREFIX + "/schemas", methods=["POST"])
@needs((create_schema, _new_schema))
def create_unity_schema() -> older_api.SchemaInfo:
    request = body(older_api.NewSchema)
    check_identifier(request.name, "name")
    catalog = requests.find_catalog(request.catalog_name)
    owner = owner_for(current().principal)
    namespace = services().catalog.namespaces.create(
        catalog, (request.name,), comment=request.comment, properties=request.properties, owner=owner
    )
    return _schema(_written_name(request.catalog_name), namespace)


@routes.route(PREFIX + "/schemas/{full_name}", methods=["GET"])
@needs((see_schema, _schema_of_path))
def unity_schema(full_name: str) -> older_api.SchemaInfo:
    catalog, path = requests.full_schema(full_name)
    return _schema(_written_name(catalog), services().catalog.namespaces.get(catalog, path))


@routes.route(PREFIX + "/schemas/{full_name}", methods=["PATCH"])
@needs((edit_schema, _schema_of_path), (create_schema, _renamed_schema))
def update_unity_schema(full_name: str) -> older_api.SchemaInfo:
    request = body(older_api.Changed)
    catalog, path = requests.full_schema(full_name)
    written = _written_name(catalog)
    alter = functools.partial(_changed_schema, request)
    if request.new_name is None:
        return _schema(written, services().catalog.namespaces.alter(catalog, path, alter))
    *parent, name = check_namespace(request.new_name, "new_name")
    return _schema(written, services().catalog.namespace_mover.rename(catalog, path, name, tuple(parent), alter=alter))


@routes.route(PREFIX + "/schemas/{full_name}", methods=["DELETE"])
@needs((edit_schema, _schema_of_path))
def drop_unity_schema(full_name: str) -> dict[str, str]:
    catalog, path = requests.full_schema(full_name)
    services().catalog.namespace_dropper.drop(catalog, path, cascade=query().flag("force"))
    return {}


def _catalog(catalog: Catalog, access: Access) -> older_api.CatalogInfo:
    return older_api.catalog(catalog, _id(catalog.name), access.owner)


def _changed_schema(request: older_api.Changed, old: Namespace) -> Namespace:
    """A schema as a request wants it, its name apart."""
    properties = request.properties or old.properties
    comment = old.comment if request.comment is msgspec.UNSET else request.comment
    return check_properties(msgspec.structs.replace(old, properties=properties, comment=comment), old)


def _schema(catalog: str, namespace: NamedNamespace) -> older_api.SchemaInfo:
    return older_api.schema(catalog, namespace.name, namespace.entity)


def _written_name(catalog: str) -> str:
    """The catalog's name as it was written."""
    return services().catalog.reader.current(catalog).catalog


def _id(name: str) -> str:
    return id_of(services().world.space.realm, name)


def id_of(realm: str, name: str) -> str:
    """Returns a uuid for entities without one: the realm (its name is empty), and old catalogs."""
    return str(uuid.uuid5(_IDS, f"{realm}/{name.casefold()}"))
