"""Path queries over HTTP (docs/path-queries.md)."""

from __future__ import annotations

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType

from turnstile.access.authorizer import Target
from turnstile.access.core.rules import use_catalog
from turnstile.api.http.authorization import (
    Params,
    needs,
)
from turnstile.api.http.request import Query
from turnstile.api.services import services
from turnstile.api.v1.tables import EntryResponse, entry_of
from turnstile.catalog.listing import version_in
from turnstile.catalog.query.core.parser import parse
from turnstile.catalog.query.find import Finder
from turnstile.store.core.errors import InvalidRequest

routes = Blueprint(__name__)


class Finding(msgspec.Struct, frozen=True):
    """A page of matches, and the catalog's HEAD that all pages are a view of."""

    found: list[EntryResponse]
    head: str
    next_page_token: str | UnsetType = UNSET


def _query() -> tuple[Query, str]:
    """The request's members, and the query among them."""
    query = Query("query", "as_of", "page_token", "max_results")
    text = query.text("query")
    if text is None:
        raise InvalidRequest("query is missing", field="query", remedy="give a path query, as in /main/*")
    return query, text


def _catalog(_params: Params) -> Target:
    """The catalog that is searched; what is in it is authorized name by name."""
    return Target(parse(_query()[1]).catalog)


@routes.route("/v1/find", methods=["GET"])
@needs((use_catalog, _catalog))
def find() -> Finding:
    query, text = _query()
    catalog = services().catalog
    page = Finder(catalog.world, catalog.reader, catalog.as_of_reader, catalog.metadata).find(
        text, as_of=query.as_of(), page_token=query.text("page_token"), max_results=query.integer("max_results")
    )
    found = [
        entry_of(page.catalog, match.path, match.entity, version_in(page.versions, match.entity))
        for match in page.items
    ]
    return Finding(found, page.head, page.next_token or UNSET)
