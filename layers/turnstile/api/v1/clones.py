"""Clones over HTTP (docs/api.md, "Clones")."""

from __future__ import annotations

from contextlib import nullcontext

import msgspec
from chalice.app import Blueprint

from turnstile.access.clone_rights import CloneRights
from turnstile.access.core.grants import owner_for
from turnstile.access.core.rules import use_catalog
from turnstile.api.http.authorization import (
    needs,
)
from turnstile.api.http.request import body, current
from turnstile.api.http.responses import Answer
from turnstile.api.services import services
from turnstile.api.v1.changes import AsOfBody, once
from turnstile.api.v1.paths import CATALOG, catalog_of_path
from turnstile.catalog.clone.cloner import Cloner, CloneResult
from turnstile.catalog.clone.copies import Copier
from turnstile.catalog.clone.delta import DeltaCopier
from turnstile.catalog.core.entities import TABLE
from turnstile.catalog.services import CatalogServices
from turnstile.iceberg.clones import copiers
from turnstile.iceberg.files import MetadataFiles
from turnstile.store.core.names import check_identifier, check_namespace

routes = Blueprint(__name__)


class Clone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../clones``; ``from`` and ``to`` dotted, an empty ``from`` is the whole catalog; ``of`` now unless a moment
    is named."""

    source: str = msgspec.field(name="from")
    to: str
    of: AsOfBody | None = None


@routes.route(CATALOG + "/clones", methods=["POST"])
@needs((use_catalog, catalog_of_path))
def clone(catalog: str) -> Answer:
    request, name = body(Clone), check_identifier(catalog, "catalog")
    source = check_namespace(request.source, "from") if request.source else ()
    to, as_of = check_namespace(request.to, "to"), None if request.of is None else request.of.as_of("of")

    def make(by: CatalogServices) -> CloneResult:
        with nullcontext() if request.of is None else request.of.reported("of"):
            return _cloner(by).clone(name, source, to, as_of)

    return Answer(once(name, make, lambda by, seq: _cloner(by).result_of(name, to, seq or 0)), 201)


def _cloner(by: CatalogServices) -> Cloner:
    """What makes the clones of this request, by the rights of its principal."""
    principal = current().principal
    owner, files = owner_for(principal), MetadataFiles(by.world.storages, by.world.ids)
    delta: Copier = DeltaCopier(by.world, by.metadata, by.publisher)
    tables = {TABLE: delta, **copiers(by, files, owner)}
    return Cloner(by, tables, CloneRights(services().authorizers.access, principal), owner=owner)
