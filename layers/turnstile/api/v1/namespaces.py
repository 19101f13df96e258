"""Catalogs and namespaces over HTTP."""

from __future__ import annotations

from functools import partial

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType

from turnstile.access.authorizer import Need, Target
from turnstile.api.http.authorization import Params, authorized_by_view, metastore, needs
from turnstile.api.http.request import Query, body, current
from turnstile.api.http.responses import Answer, answer_201
from turnstile.api.services import services
from turnstile.api.v1.changes import once
from turnstile.api.v1.paths import CATALOG, NAMESPACE, namespace_names, namespace_of_path
from turnstile.catalog.core.entities import Catalog
from turnstile.catalog.core.merges import Merge
from turnstile.catalog.core.paths import Path, dotted_name, key_of
from turnstile.catalog.core.tree import REALM_TREE
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.namespaces import NamedNamespace
from turnstile.catalog.services import CatalogServices
from turnstile.rights.grants import owner_for
from turnstile.rights.rules import create_catalog, create_schema, edit_schema, see_schema, use_catalog
from turnstile.store.core.names import check_identifier, check_namespace

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
    return Catalogs([_catalog(catalog) for catalog, _ in services().visible_catalogs()])


@routes.route("/v1/catalogs", methods=["POST"])
@needs((create_catalog, metastore))
def create_new_catalog() -> Answer:
    name = body(NewCatalog).name
    owner = owner_for(current().principal)

    def again(by: CatalogServices, _seq: int | None) -> Catalog:
        services().guard_of(Need(use_catalog, Target(name))).authorize_now()  # it may be another's by now (I12)
        return by.catalogs.get(name)

    return answer_201(_catalog(once(REALM_TREE, lambda by: by.catalogs.create(name, owner=owner), again)))


def _catalog(catalog: Catalog) -> CatalogResponse:
    return CatalogResponse(catalog.name, catalog.created)


class NewNamespace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../namespaces``; ``name`` dotted."""

    name: str
    comment: str | None = None
    properties: dict[str, str] = {}


class NamespaceUpdate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``PATCH .../namespaces/{ns}``; a null comment removes it."""

    comment: str | UnsetType | None = UNSET
    set: dict[str, str] = {}
    unset: list[str] = []
    merge: dict[str, Merge] = {}


class NamespaceMove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../namespaces/{ns}/rename``; a null ``namespace`` leaves it where it is, an empty one
    is the top."""

    name: str
    namespace: str | None = None


class NamespaceResponse(msgspec.Struct, frozen=True):
    """A namespace under its full dotted name; ``created`` in ms; ``head``: the HEAD that had it, in
    an answer as of a moment."""

    name: str
    comment: str | None
    properties: dict[str, str]
    created: int
    head: str | UnsetType = UNSET


class Namespaces(msgspec.Struct, frozen=True):
    """A page of namespaces; ``head`` as for one."""

    namespaces: list[NamespaceResponse]
    next_page_token: str | UnsetType = UNSET
    head: str | UnsetType = UNSET


def _listed_parent(params: Params) -> Target:
    parent = Query(*current().query).text("parent")
    return Target(check_identifier(params["catalog"], "catalog"), _parent(parent, "parent"))


def _new_namespace(params: Params) -> Target:
    return Target(check_identifier(params["catalog"], "catalog"), check_namespace(body(NewNamespace).name, "name"))


def _moved_namespace(params: Params) -> Target | None:
    """The namespace that a rename makes of another; a change of case alone makes none."""
    request = body(NamespaceMove)
    source = namespace_of_path(params)
    path = (*_new_parent(request, source.namespace), check_identifier(request.name, "name"))
    same = key_of(path) == key_of(source.namespace)
    return None if same else msgspec.structs.replace(source, namespace=path)


def _new_parent(request: NamespaceMove, path: Path) -> Path:
    return path[:-1] if request.namespace is None else _parent(request.namespace)


def _parent(name: str | None, field: str = "namespace") -> Path:
    """The namespace of that name; without one the catalog's top."""
    return check_namespace(name, field) if name else ()


@routes.route(CATALOG + "/namespaces", methods=["GET"])
@needs((see_schema, _listed_parent))
def list_namespaces(catalog: str) -> Namespaces:
    query = Query("parent", "as_of", "page_token", "max_results")
    parent = query.text("parent")
    as_of = query.as_of()
    of = check_identifier(catalog, "catalog")
    path = _parent(parent, "parent")
    token = query.text("page_token")
    most = query.integer("max_results")
    page = services().catalog.listings.namespaces(of, path, as_of=as_of, page_token=token, max_results=most)
    namespaces = [_response(namespace) for namespace in page.items]
    return Namespaces(namespaces, page.next_token or UNSET, UNSET if as_of is None else page.head)


@routes.route(CATALOG + "/namespaces", methods=["POST"])
@needs((create_schema, _new_namespace))
def create_namespace(catalog: str) -> Answer:
    request = body(NewNamespace)
    of = check_identifier(catalog, "catalog")
    owner = owner_for(current().principal)
    path = check_namespace(request.name, "name")

    def create(by: CatalogServices) -> NamedNamespace:
        return by.namespaces.create(of, path, comment=request.comment, properties=request.properties, owner=owner)

    return answer_201(_response(once(of, create, partial(_as_left, of, path))))


@routes.route(NAMESPACE, methods=["GET"])
@needs((see_schema, namespace_of_path))
def get_namespace(catalog: str, namespace: str) -> NamespaceResponse:
    as_of = Query("as_of").as_of()
    named, head = services().catalog.entries.namespace(*namespace_names(catalog, namespace), as_of)
    return _response(named, head if as_of is not None else UNSET)


@routes.route(NAMESPACE, methods=["PATCH"])
@needs((edit_schema, namespace_of_path))
def update_namespace(catalog: str, namespace: str) -> NamespaceResponse:
    request = body(NamespaceUpdate)
    of, path = namespace_names(catalog, namespace)

    def update(by: CatalogServices) -> NamedNamespace:
        return by.namespaces.update(
            of, path, set=request.set, unset=request.unset, merge=request.merge, comment=request.comment
        )

    return _response(once(of, update, partial(_as_left, of, path)))


@routes.route(NAMESPACE, methods=["DELETE"])
@needs((edit_schema, namespace_of_path))
def drop_namespace(catalog: str, namespace: str) -> None:
    cascade = Query("cascade").flag("cascade")
    of, path = namespace_names(catalog, namespace)
    once(of, lambda by: by.namespace_dropper.drop(of, path, cascade=cascade), lambda *_: None)


@routes.route(NAMESPACE + "/rename", methods=["POST"])
@needs((edit_schema, namespace_of_path), (create_schema, _moved_namespace))
def rename_namespace(catalog: str, namespace: str) -> NamespaceResponse:
    request = body(NamespaceMove)
    of, path = namespace_names(catalog, namespace)
    parent = _new_parent(request, path)
    target = (*parent, request.name)

    def again(_: CatalogServices, seq: int | None) -> NamedNamespace:
        by = services().catalog_at(Target(of, target))
        return by.namespaces.of(by.history.tree(of, AsOf(seq=seq)), target)

    return _response(once(of, lambda by: by.namespace_mover.rename(of, path, request.name, parent), again))


def _as_left(catalog: str, path: Path, by: CatalogServices, seq: int | None) -> NamedNamespace:
    """A namespace as commit ``seq`` left it, for a principal that may see it now."""
    return by.namespaces.of(by.history.tree(catalog, AsOf(seq=seq)), path)


def _response(named: NamedNamespace, head: str | UnsetType = UNSET) -> NamespaceResponse:
    entity = named.entity
    return NamespaceResponse(dotted_name(*named.name), entity.comment, entity.properties, entity.created, head)
