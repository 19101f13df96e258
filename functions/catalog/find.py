"""Path queries over HTTP (docs/path-queries.md). Glue only."""

from __future__ import annotations

import entries
import msgspec
from allowed import Params, rights
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType
from wiring import services

from turnstile.access.authorizer import Target
from turnstile.access.core.rules import use_catalog
from turnstile.api.http.request import Query
from turnstile.catalog.listing import version_in
from turnstile.catalog.query.core.parser import parse
from turnstile.catalog.query.find import Finder
from turnstile.store.core.errors import InvalidRequest

__all__ = ["routes"]

routes = Blueprint(__name__)


class Finding(msgspec.Struct, frozen=True):
    """A page of matches, and the catalog's HEAD that all pages are a view of."""

    found: list[entries.EntryAnswer]
    head: str
    next_page_token: str | UnsetType = UNSET


def _query() -> tuple[Query, str]:
    """The request's members, and the query among them."""
    asked = Query("query", "as_of", "page_token", "max_results")
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
    page = Finder(here.world, here.reader, here.moments, here.snapshots).find(
        text, as_of=asked.moment(), page_token=asked.text("page_token"), max_results=asked.integer("max_results")
    )
    found = [
        entries.answer(page.catalog, one.path, one.entity, version_in(page.versions, one.entity)) for one in page.items
    ]
    return Finding(found, page.head, page.next_token or UNSET)
