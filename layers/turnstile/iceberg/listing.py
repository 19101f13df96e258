"""Lists namespaces, tables and views: in pages of the HEAD that the first page read, or all at
once.

Without ``pageToken`` the specification requires everything in one response; with it, even empty,
pages.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from turnstile.catalog.core.entities import ICEBERG_TABLE, TABLE, Entity, kind_of
from turnstile.catalog.core.paths import Path, key_of
from turnstile.catalog.history.reader import TreeAsOf
from turnstile.catalog.paging import MAX_PAGE
from turnstile.catalog.reader import View
from turnstile.iceberg.context import Context
from turnstile.iceberg.scans.delta_scans import is_readable
from turnstile.store.core.errors import InvalidRequest, TooLarge
from turnstile.store.core.limits import PageBudget, response_size
from turnstile.store.ports import BATCH_GET_MAX, in_batches

MAX_ALL: Final = 50_000
"""Names in a response without pages, if their bytes fit as well."""


class Names(msgspec.Struct, frozen=True):
    """Names as they were written, below ``namespace``; ``next_token`` None on the last page."""

    namespace: Path
    names: tuple[str, ...]
    next_token: str | None


class Listing:
    """Lists the direct children of a namespace, or of the catalog's root (the empty path)."""

    def __init__(self, context: Context) -> None:
        self._catalog = context.catalog
        self._as_of = context.as_of

    def names(self, catalog: str, parent: Path, kind: str, token: str | None, size: int | None) -> Names:
        """Returns names of a kind, at most ``size`` in a page; in the present, Delta tables are
        among Iceberg tables. One request when warm, and one for each ``BATCH_GET_MAX`` entities
        that are not cached.

        Args:
            token: None for everything; empty for the first page; else of the page before.

        Raises NotFound; InvalidRequest for a token that is damaged, expired or of another listing,
        or a size below 1; TooLarge if everything was requested, and does not fit a response.
        """
        if size is not None and size < 1:
            raise InvalidRequest(f"pageSize must not be {size}", field="pageSize", remedy="use 1 or more")
        limit = MAX_ALL if token is None else min(size or MAX_PAGE, MAX_PAGE)
        reader = self._catalog.as_of_reader
        start = reader.page(catalog, key_of(parent), kind, self._as_of, token, member="pageToken")
        as_of = start.moment
        if parent:
            if self._as_of is not None:
                reader.require(as_of, parent)
            as_of.tree.namespace(parent)
        view = View(as_of.tree, self._catalog.reader.store)
        namespace = view.written_levels(parent)
        budget = PageBudget()
        frame = response_size({"namespace": namespace, "name": ""}) + 1
        page = list[str]()
        after = start.after
        for key, entity in islice(self._visible(view, as_of, parent, kind, after), limit + 1):
            name = str(getattr(entity, "name", ""))
            if len(page) == limit or not budget.fits(frame + response_size(name)):
                if token is not None:
                    return Names(namespace, tuple(page), start.following(after))
                message = f"more names than fit an answer: {len(page)} do"
                raise TooLarge(message, field="pageToken", remedy="ask for pages: pageToken=")
            page.append(name)
            after = key
        return Names(namespace, tuple(page), None)

    def _visible(
        self, view: View, as_of: TreeAsOf, parent: Path, kind: str, after: str
    ) -> Iterator[tuple[str, Entity]]:
        """Children that the principal may see, with their keys, by the rights of the present tree
        (I12)."""
        children = view.tree.children(parent, kind, after)
        authorizer = self._catalog.reader.authorizer
        if kind == ICEBERG_TABLE and self._as_of is None:
            children = heapq.merge(children, view.tree.children(parent, TABLE, after), key=lambda item: item[0])
        for some in in_batches(children, BATCH_GET_MAX):
            entities = view.entities([entry.obj for _, entry in some])
            named = [(key, entities[entry.obj]) for key, entry in some]
            named = [(key, entity) for key, entity in named if kind_of(entity) != TABLE or is_readable(entity)]
            if authorizer is None:
                yield from named
                continue
            seen = authorizer.visible(as_of.present, parent, [entity for _, entity in named])
            yield from (child for child, visible in zip(named, seen, strict=True) if visible)
