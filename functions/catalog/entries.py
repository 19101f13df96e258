"""What the tree says of a name: the entry of a table, now or as of a moment (docs/api.md). Glue only."""

from __future__ import annotations

import allowed
import msgspec
from allowed import rights
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType
from wiring import services

from turnstile.access.core.rules import see_table
from turnstile.api.http.request import Query
from turnstile.catalog.core.entities import Entity
from turnstile.catalog.core.paths import Path, dotted
from turnstile.catalog.query.find import whole
from turnstile.store.core.names import check_identifier, check_namespace

__all__ = ["EntryAnswer", "answer", "routes"]

routes = Blueprint(__name__)

_TOLD = ("id", "kind", "created", "comment", "format", "location")


class EntryAnswer(msgspec.Struct, frozen=True):
    """A name and what it leads to: ``name`` with the catalog, as it was written; ``created`` in ms; ``metadata_location``
    of Iceberg's tables and views; ``version`` of a Delta table where it is known; ``head`` whose tree it is, where the
    answer has no other place for it."""

    name: str
    kind: str
    id: str
    created: int
    comment: str | UnsetType = UNSET
    properties: dict[str, str] | UnsetType = UNSET
    format: str | UnsetType = UNSET
    location: str | UnsetType = UNSET
    metadata_location: str | UnsetType = UNSET
    version: int | UnsetType = UNSET
    head: str | UnsetType = UNSET


def answer(catalog: str, path: Path, entity: Entity, version: int | None) -> EntryAnswer:
    """What the tree says of an entity: the attributes that predicates may name, and properties where the tree has them."""
    said = whole(entity)
    members = {name: said.attributes[name] for name in _TOLD if name in said.attributes}
    made: EntryAnswer = msgspec.convert({"name": dotted(catalog, *path), **members}, EntryAnswer)
    return msgspec.structs.replace(
        made,
        properties=UNSET if said.properties is None else dict(said.properties),
        metadata_location=getattr(entity, "metadata", UNSET),
        version=UNSET if version is None else version,
    )


@routes.route("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}/entry", methods=["GET"])
@rights.needs((see_table, allowed.table))
def table_entry(catalog: str, namespace: str, table: str) -> EntryAnswer:
    as_of = Query("as_of").moment()
    found = services().catalog.entries.table(
        check_identifier(catalog, "catalog"), check_namespace(namespace), check_identifier(table, "table"), as_of
    )
    told = answer(found.catalog, found.path, found.entity, found.version)
    return msgspec.structs.replace(told, head=found.head)
