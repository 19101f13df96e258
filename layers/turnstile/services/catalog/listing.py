"""Listings of namespaces and tables, page by page, each page from the HEAD that the first one saw."""

from __future__ import annotations

from itertools import islice
from typing import Generic, TypeVar

import msgspec

from turnstile.core.catalog_paths import Path, fold, key_of
from turnstile.core.entities import NAMESPACE, TABLE, Namespace, Table
from turnstile.core.tree import Tree
from turnstile.ports import Clock
from turnstile.services.catalog.change import View
from turnstile.services.catalog.namespaces import NamedNamespace
from turnstile.services.catalog.paging import Token, bad_token, from_text, page_size, to_text
from turnstile.services.catalog.reader import CatalogReader

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some results in name order; ``next_token`` None on the last page."""

    items: tuple[T, ...]
    next_token: str | None


class Listings:
    """Lists what is directly below a namespace, or below the catalog's root (the empty path)."""

    def __init__(self, reader: CatalogReader, clock: Clock) -> None:
        self._reader, self._clock = reader, clock

    def namespaces(
        self, catalog: str, parent: Path = (), *, page_token: str | None = None, max_results: int | None = None
    ) -> Page[NamedNamespace]:
        """Child namespaces of ``parent``. One request warm, and one per hundred entities not seen before.

        Raises:
            NotFound: no such catalog or parent.
            InvalidRequest: a token that is damaged, expired or of another listing.
        """
        view, objs, token = self._page(catalog, parent, NAMESPACE, page_token, max_results)
        above = view.written(parent)
        found = view.entities(objs)
        entities = [entity for entity in (found[obj] for obj in objs) if isinstance(entity, Namespace)]
        return Page(tuple(NamedNamespace((*above, entity.name), entity) for entity in entities), token)

    def tables(
        self, catalog: str, namespace: Path, *, page_token: str | None = None, max_results: int | None = None
    ) -> Page[Table]:
        """Tables of ``namespace``; requests and errors as ``namespaces``."""
        view, objs, token = self._page(catalog, namespace, TABLE, page_token, max_results)
        found = view.entities(objs)
        return Page(tuple(entity for entity in (found[obj] for obj in objs) if isinstance(entity, Table)), token)

    def _page(
        self, catalog: str, parent: Path, kind: str, page_token: str | None, max_results: int | None
    ) -> tuple[View, list[str], str | None]:
        size, now = page_size(max_results), self._clock.now_ms()
        if page_token:
            token = from_text(page_token, now)
            if (token.catalog, token.parent, token.kind) != (fold(catalog), key_of(parent), kind):
                raise bad_token("belongs to another listing")
            tree, after, began = self._pinned(catalog, token.head), token.after, token.began
        else:
            tree, after, began = self._reader.current(catalog), "", now
        if parent:
            tree.namespace(parent, "parent" if kind == NAMESPACE else "namespace")
        found = list(islice(tree.children(parent, kind, after), size + 1))
        more = None
        if len(found) > size:
            found.pop()
            last = found[-1][0] if found else after
            more = to_text(Token(fold(catalog), tree.head, key_of(parent), kind, last, began))
        return View(tree, self._reader.store), [entry.obj for _, entry in found], more

    def _pinned(self, catalog: str, head: str) -> Tree:
        tree = self._reader.store.find_tree(catalog, head)
        if tree is None:
            raise bad_token("has expired")
        return tree
