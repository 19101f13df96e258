"""Catalogs and schemas of Unity Catalog's older API. Glue only."""

from __future__ import annotations

import functools
import itertools
import uuid

import allowed
import msgspec
from allowed import rights
from chalice.app import Blueprint
from wiring import services

from turnstile.access.core.grants import Access, owner_for
from turnstile.access.core.rules import (
    create_catalog,
    create_schema,
    edit_catalog,
    edit_schema,
    see_schema,
    use_catalog,
)
from turnstile.api.http.request import Query, body, current
from turnstile.api.unity import legacy, naming
from turnstile.api.unity.errors import PREFIX, NotImplementedHere
from turnstile.catalog.core.entities import Catalog, Namespace
from turnstile.catalog.namespaces import NamedNamespace, fitting
from turnstile.store.core.answer_size import Room, told
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.names import check_identifier, check_namespace

__all__ = ["PAGE", "page_size", "query", "routes"]

routes = Blueprint(__name__)

PAGE = 100
_IDS = uuid.UUID("0d6f3b64-4a4c-5b7e-9d2e-7f1f3c9a5e10")


def query() -> Query:
    """The request's query; members this API does not know are skipped."""
    return Query(*current().query)


def page_size(asked: Query) -> int:
    """How many results a page has: what was asked for, at most ``PAGE``; 0 leaves it to the server."""
    return min(asked.integer("max_results") or PAGE, PAGE)


@routes.route(PREFIX + "/metastore_summary", methods=["GET"])
@rights.for_everybody
def metastore_summary() -> dict[str, str]:
    return {"metastore_id": _id("")}


@routes.route(PREFIX + "/catalogs", methods=["GET"])
@rights.judged_inside("use_catalog of each that is listed")
def unity_catalogs() -> legacy.Catalogs:
    asked = query()
    size, after = page_size(asked), (asked.text("page_token") or "").casefold()
    found = sorted(services().visible_catalogs(), key=lambda one: one[0].name.casefold())
    later = [one for one in found if one[0].name.casefold() > after]
    room = Room()
    page = list(itertools.takewhile(lambda one: room.takes(told(one)), (_catalog(*one) for one in later[:size])))
    return legacy.Catalogs(page, page[-1].name if len(later) > len(page) else None)


@routes.route(PREFIX + "/catalogs", methods=["POST"])
@rights.needs((create_catalog, allowed.metastore))
def create_unity_catalog() -> legacy.CatalogInfo:
    asked = body(legacy.NewCatalog)
    owner = owner_for(current().principal)
    made = services().catalog.catalogs.create(
        asked.name, comment=asked.comment, properties=asked.properties, owner=owner
    )
    return _catalog(made, Access(owner))


@routes.route(PREFIX + "/catalogs/{name}", methods=["GET"])
@rights.needs((use_catalog, allowed.named_catalog))
def unity_catalog(name: str) -> legacy.CatalogInfo:
    access = services().catalog.reader.current(naming.find_catalog(name)).commit.access
    return _catalog(services().catalog.catalogs.get(name), access)


@routes.route(PREFIX + "/catalogs/{name}", methods=["PATCH"])
@rights.needs((edit_catalog, allowed.named_catalog))
def update_unity_catalog(name: str) -> legacy.CatalogInfo:
    asked, name = body(legacy.ChangedCatalog), naming.find_catalog(name)
    access = services().catalog.reader.current(name).commit.access
    if asked.new_name is not None and asked.new_name != services().catalog.catalogs.get(name).name:
        raise NotImplementedHere("catalogs cannot be renamed", field="new_name")
    changed = services().catalog.catalogs.update(name, comment=asked.comment, properties=asked.properties)
    return _catalog(changed, access)


@routes.route(PREFIX + "/catalogs/{name}", methods=["DELETE"])
@rights.needs((edit_catalog, allowed.named_catalog), first=True)
def drop_unity_catalog(name: str) -> dict[str, str]:
    services().catalog.catalogs.drop(naming.find_catalog(name), force=query().flag("force"))
    return {}


@routes.route(PREFIX + "/schemas", methods=["GET"])
@rights.needs((see_schema, allowed.catalog_of_query))
def unity_schemas() -> legacy.Schemas:
    asked = query()
    catalog = asked.text("catalog_name")
    if catalog is None:
        raise InvalidRequest("catalog_name is missing", field="catalog_name")
    page = services().catalog.listings.namespaces(
        naming.find_catalog(catalog), deep=True, page_token=asked.text("page_token"), max_results=page_size(asked)
    )
    name = services().catalog.reader.current(catalog).catalog
    return legacy.Schemas([_schema(name, one) for one in page.items], page.next_token)


@routes.route(PREFIX + "/schemas", methods=["POST"])
@rights.needs((create_schema, allowed.new_schema))
def create_unity_schema() -> legacy.SchemaInfo:
    asked = body(legacy.NewSchema)
    check_identifier(asked.name, "name")
    made = services().catalog.namespaces.create(
        naming.find_catalog(asked.catalog_name),
        (asked.name,),
        comment=asked.comment,
        properties=asked.properties,
        owner=owner_for(current().principal),
    )
    return _schema(_kept(asked.catalog_name), made)


@routes.route(PREFIX + "/schemas/{full_name}", methods=["GET"])
@rights.needs((see_schema, allowed.named_schema))
def unity_schema(full_name: str) -> legacy.SchemaInfo:
    catalog, path = naming.find_schema(*naming.split_schema(full_name))
    return _schema(_kept(catalog), services().catalog.namespaces.get(catalog, path))


@routes.route(PREFIX + "/schemas/{full_name}", methods=["PATCH"])
@rights.needs((edit_schema, allowed.named_schema), (create_schema, allowed.renamed_schema))
def update_unity_schema(full_name: str) -> legacy.SchemaInfo:
    asked = body(legacy.ChangedSchema)
    catalog, path = naming.find_schema(*naming.split_schema(full_name))
    kept, alter = _kept(catalog), functools.partial(_changed, asked)
    if asked.new_name is None:
        return _schema(kept, services().catalog.namespaces.alter(catalog, path, alter))
    *parent, name = check_namespace(asked.new_name, "new_name")
    return _schema(kept, services().catalog.namespace_mover.rename(catalog, path, name, tuple(parent), alter=alter))


@routes.route(PREFIX + "/schemas/{full_name}", methods=["DELETE"])
@rights.needs((edit_schema, allowed.named_schema))
def drop_unity_schema(full_name: str) -> dict[str, str]:
    catalog, path = naming.find_schema(*naming.split_schema(full_name))
    services().catalog.namespace_dropper.drop(catalog, path, cascade=query().flag("force"))
    return {}


def _catalog(found: Catalog, access: Access) -> legacy.CatalogInfo:
    return legacy.catalog(found, _id(found.name), access.owner)


def _changed(asked: legacy.ChangedSchema, old: Namespace) -> Namespace:
    """A schema as a request wants it, its name apart."""
    properties = old.properties if asked.properties is None else asked.properties
    comment = old.comment if asked.comment is msgspec.UNSET else asked.comment
    return fitting(msgspec.structs.replace(old, properties=properties, comment=comment))


def _schema(catalog: str, found: NamedNamespace) -> legacy.SchemaInfo:
    return legacy.schema(catalog, found.name, found.entity)


def _kept(catalog: str) -> str:
    """The catalog's name as it was written."""
    return services().catalog.reader.current(catalog).catalog


def _id(name: str) -> str:
    """A uuid for what has none: the realm, and catalogs made before they had one."""
    return str(uuid.uuid5(_IDS, f"{services().world.space.realm}/{name.casefold()}"))
