"""Path queries over HTTP (docs/path-queries.md). Glue only."""

from __future__ import annotations

import msgspec
from allowed import Params, rights
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType
from wiring import services

from turnstile.core.access_rules import use_catalog
from turnstile.core.catalog_paths import dotted
from turnstile.core.errors import InvalidRequest
from turnstile.core.path_query.parser import parse
from turnstile.services.access import Target
from turnstile.services.find import Finder, Found
from turnstile.services.find_subjects import whole
from turnstile_http.params import Query

__all__ = ["routes"]

routes = Blueprint(__name__)


class FoundAnswer(msgspec.Struct, frozen=True):
    """A match: ``name`` its full name with the catalog, as it was written; ``created`` in ms."""

    name: str
    kind: str
    id: str
    created: int
    comment: str | UnsetType = UNSET
    properties: dict[str, str] | UnsetType = UNSET
    format: str | UnsetType = UNSET
    location: str | UnsetType = UNSET


class Finding(msgspec.Struct, frozen=True):
    """A page of matches, and the catalog's HEAD that all pages are a view of."""

    found: list[FoundAnswer]
    head: str
    next_page_token: str | UnsetType = UNSET


def _query() -> tuple[Query, str]:
    """The request's members, and the query among them."""
    asked = Query("query", "page_token", "max_results")
    text = asked.text("query")
    if text is None:
        raise InvalidRequest("query is missing", field="query", remedy="give a path query, as in /main/*")
    return asked, text


def _catalog(_params: Params) -> Target:
    """The catalog that is searched; what is in it is judged name by name."""
    return Target(parse(_query()[1]).catalog)


@routes.route("/v1/find", methods=["GET"])
@rights.needs((use_catalog, _catalog))
def find() -> Finding:
    asked, text = _query()
    here = services().catalog
    page = Finder(here.world, here.reader, here.snapshots).find(
        text, page_token=asked.text("page_token"), max_results=asked.integer("max_results")
    )
    return Finding([_answer(page.catalog, one) for one in page.items], page.head, page.next_token or UNSET)


def _answer(catalog: str, found: Found) -> FoundAnswer:
    """What the tree says of a match: the attributes that predicates may name, and properties where the tree has them."""
    said = whole(found.entity)
    members = {name: said.attributes[name] for name in ("id", "kind", "created", "comment", "format", "location")
               if name in said.attributes}  # fmt: skip
    properties = UNSET if said.properties is None else dict(said.properties)
    answer: FoundAnswer = msgspec.convert({"name": dotted(catalog, *found.path), **members}, FoundAnswer)
    return msgspec.structs.replace(answer, properties=properties)
