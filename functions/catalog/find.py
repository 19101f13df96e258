"""Path queries over HTTP (docs/path-queries.md). Glue only."""

from __future__ import annotations

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType
from wiring import services

from turnstile.core.catalog_paths import dotted
from turnstile.core.entities import Table, kind_of
from turnstile.core.errors import InvalidRequest
from turnstile.services.find import Finder, Found
from turnstile_http.params import Query

__all__ = ["routes"]

routes = Blueprint(__name__)


class FoundAnswer(msgspec.Struct, frozen=True):
    """A match: ``name`` its full name with the catalog, as it was written; ``created`` in ms."""

    name: str
    kind: str
    id: str
    comment: str | None
    created: int
    properties: dict[str, str] | UnsetType = UNSET
    format: str | UnsetType = UNSET
    location: str | UnsetType = UNSET


class Finding(msgspec.Struct, frozen=True):
    """A page of matches, and the catalog's HEAD that all pages are a view of."""

    found: list[FoundAnswer]
    head: str
    next_page_token: str | UnsetType = UNSET


@routes.route("/v1/find", methods=["GET"])
def find() -> Finding:
    asked = Query("query", "page_token", "max_results")
    text = asked.text("query")
    if text is None:
        raise InvalidRequest("query is missing", field="query", remedy="give a path query, as in /main/*")
    here = services().catalog
    page = Finder(here.world, here.reader, here.snapshots).find(
        text, page_token=asked.text("page_token"), max_results=asked.integer("max_results")
    )
    return Finding([_answer(page.catalog, one) for one in page.items], page.head, page.next_token or UNSET)


def _answer(catalog: str, found: Found) -> FoundAnswer:
    entity, name = found.entity, dotted(catalog, *found.path)
    if not isinstance(entity, Table):
        properties = entity.properties
        return FoundAnswer(name, kind_of(entity), entity.id, entity.comment, entity.created, properties)
    properties = UNSET if entity.external is None else entity.external.properties
    return FoundAnswer(
        name=name,
        kind=kind_of(entity),
        id=entity.table_id,
        comment=entity.comment,
        created=entity.created,
        properties=properties,
        format=entity.format,
        location=entity.location,
    )
