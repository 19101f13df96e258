"""Clones over HTTP (docs/api.md, "Clones"). Glue only."""

from __future__ import annotations

from contextlib import nullcontext

import allowed
import shapes
from allowed import rights
from chalice.app import Blueprint
from wiring import once, services

from turnstile.access.clone_rights import CloneRights
from turnstile.access.core.grants import owner_for
from turnstile.access.core.rules import use_catalog
from turnstile.api.http.answers import Answer
from turnstile.api.http.request import body, current
from turnstile.catalog.clone.cloner import Cloned, Cloner
from turnstile.catalog.clone.copies import Copier
from turnstile.catalog.clone.delta import DeltaCopier
from turnstile.catalog.core.entities import TABLE
from turnstile.catalog.services import CatalogServices
from turnstile.iceberg.cloning import copiers
from turnstile.iceberg.files import MetadataFiles
from turnstile.store.core.names import check_identifier, check_namespace

__all__ = ["routes"]

routes = Blueprint(__name__)


@routes.route("/v1/catalogs/{catalog}/clones", methods=["POST"])
@rights.needs((use_catalog, allowed.catalog))
def clone(catalog: str) -> Answer:
    asked, name = body(shapes.Clone), check_identifier(catalog, "catalog")
    source = check_namespace(asked.source, "from") if asked.source else ()
    to, when = check_namespace(asked.to, "to"), None if asked.of is None else asked.of.moment("of")

    def make(by: CatalogServices) -> Cloned:
        with nullcontext() if asked.of is None else asked.of.told("of"):
            return _cloner(by).clone(name, source, to, when)

    return Answer(once(name, make, lambda by, seq: _cloner(by).told(name, to, seq or 0)), 201)


def _cloner(by: CatalogServices) -> Cloner:
    """What makes the clones of this request, and judges them by whoever asks."""
    principal = current().principal
    owner, files = owner_for(principal), MetadataFiles(by.world.storages, by.world.ids)
    delta: Copier = DeltaCopier(by.world, by.snapshots, by.publisher)
    tables = {TABLE: delta, **copiers(by, files, owner)}
    return Cloner(by, tables, CloneRights(services().judges.access, principal), owner=owner)
