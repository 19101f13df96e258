"""Listings of namespaces, tables and views: page by page from the HEAD that the first page saw, or all at once.

Without ``pageToken`` the specification wants everything in one answer; with it, even an empty one, pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from turnstile.catalog.commit import View
from turnstile.catalog.core.entities import NAMESPACE, Entity
from turnstile.catalog.core.paths import Path, key_of
from turnstile.catalog.history.reader import TreeAsOf
from turnstile.catalog.paging import MAX_PAGE
from turnstile.iceberg.context import Context
from turnstile.store.batches import batched
from turnstile.store.core.errors import InvalidRequest, TooLarge
from turnstile.store.page_budget import PageBudget, response_size
from turnstile.store.ports import BATCH_GET_MAX

MAX_ALL: Final = 50_000
"""Names in an answer without pages, as long as they fit it: that is a matter of bytes."""


class Names(msgspec.Struct, frozen=True):
    """Names as they were written, below ``namespace``; ``next_token`` None on the last page."""

    namespace: Path
    names: tuple[str, ...]
    next_token: str | None


class Listing:
    """Lists what is directly below a namespace, or below the catalog's root (the empty path)."""

    def __init__(self, context: Context) -> None:
        self._reader, self._as_of_reader, self._as_of = (
            context.catalog.reader,
            context.catalog.as_of_reader,
            context.as_of,
        )

    def names(self, catalog: str, parent: Path, kind: str, token: str | None, size: int | None) -> Names:
        """Names of a kind. One request warm, and one per hundred entities not seen before.

        Args:
            token: None: everything; empty: the first page; else the page after.
            size: most names of a page.

        Raises:
            NotFound: no such catalog or namespace.
            InvalidRequest: a token that is damaged, expired or of another listing; a size that is none.
            TooLarge: everything was asked for, and it is too much.
        """
        if size is not None and size < 1:
            raise InvalidRequest(f"pageSize must not be {size}", field="pageSize", remedy="use 1 or more")
        most = MAX_ALL if token is None else min(size or MAX_PAGE, MAX_PAGE)
        start = self._as_of_reader.page(catalog, key_of(parent), kind, self._as_of, token, member="pageToken")
        moment = start.moment
        if parent:
            if self._as_of is not None:
                self._as_of_reader.require(moment, parent)
            moment.tree.namespace(parent)
        view = View(moment.tree, self._reader.store)
        written, budget = view.written(parent), PageBudget()
        around = response_size({"namespace": written, "name": ""}) + 1  # a name needs no escapes
        page: list[str] = []
        after = start.after
        for key, entity in islice(self._visible(view, moment, parent, kind, after), most + 1):
            name = str(getattr(entity, "name", ""))
            if len(page) == most or not budget.fits(around + len(name)):
                if token is not None:
                    return Names(written, tuple(page), start.following(after))
                raise TooLarge(
                    f"more names than fit an answer: {len(page)} do",
                    field="pageToken",
                    remedy="ask for pages: pageToken=",
                )
            page.append(name)
            after = key
        return Names(written, tuple(page), None)

    def namespaces(self, catalog: str, parent: Path, token: str | None, size: int | None) -> Names:
        """Child namespaces of ``parent``; as ``names``."""
        return self.names(catalog, parent, NAMESPACE, token, size)

    def _visible(
        self, view: View, moment: TreeAsOf, parent: Path, kind: str, after: str
    ) -> Iterator[tuple[str, Entity]]:
        """Children with their keys that whoever asks may see, by the rights of the present tree (I12)."""
        children, authorizer = view.tree.children(parent, kind, after), self._reader.authorizer
        for some in batched(children, BATCH_GET_MAX):
            entities = view.entities([entry.obj for _, entry in some])
            named = [(key, entities[entry.obj]) for key, entry in some]
            if authorizer is None:
                yield from named
                continue
            seen = authorizer.visible(moment.present, parent, [entity for _, entity in named])
            yield from (one for one, visible in zip(named, seen, strict=True) if visible)
