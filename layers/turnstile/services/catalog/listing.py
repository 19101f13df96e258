"""Listings of namespaces and tables, page by page, each page from the HEAD that the first one saw, less what whoever
asks may not see now."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice
from typing import Final, Generic, TypeVar

import msgspec

from turnstile.core.catalog_paths import Path, fold, key_of, path_of
from turnstile.core.entities import NAMESPACE, TABLE, Entity, Namespace, Table, encode
from turnstile.core.index import IndexEntry
from turnstile.core.tree import Tree
from turnstile.ports import Clock
from turnstile.services.catalog.change import View
from turnstile.services.catalog.namespaces import NamedNamespace
from turnstile.services.catalog.paging import Token, bad_token, from_text, page_size, to_text
from turnstile.services.catalog.reader import CatalogReader

T = TypeVar("T")

_Named = tuple[str, Entity]
"""A key of the index and the entity it leads to."""

PAGE_BYTES: Final = 2_000_000
"""A page ends early beyond this: a Lambda answer holds 6 MB, and entities grow when they become JSON."""

_AT_ONCE: Final = 100
"""Entities that one request reads."""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some results in name order; ``next_token`` None on the last page."""

    items: tuple[T, ...]
    next_token: str | None


class Listings:
    """Lists what is directly below a namespace, or below the catalog's root (the empty path)."""

    def __init__(self, reader: CatalogReader, clock: Clock) -> None:
        self._reader, self._clock = reader, clock

    def namespaces(
        self,
        catalog: str,
        parent: Path = (),
        *,
        deep: bool = False,
        page_token: str | None = None,
        max_results: int | None = None,
    ) -> Page[NamedNamespace]:
        """Child namespaces of ``parent``; with ``deep`` all below it. One request warm, and one per hundred entities not
        seen before.

        Raises:
            NotFound: no such catalog or parent.
            InvalidRequest: a token that is damaged, expired or of another listing.
        """
        view, found, token = self._page(catalog, parent, NAMESPACE, page_token, max_results, deep=deep)
        above = {path: view.written(path) for path in {path_of(key)[:-1] for key, _ in found}}
        named = [
            NamedNamespace((*above[path_of(key)[:-1]], entity.name), entity)
            for key, entity in found
            if isinstance(entity, Namespace)
        ]
        return Page(tuple(named), token)

    def tables(
        self, catalog: str, namespace: Path, *, page_token: str | None = None, max_results: int | None = None
    ) -> Page[Table]:
        """Tables of ``namespace``; requests and errors as ``namespaces``."""
        _, found, token = self._page(catalog, namespace, TABLE, page_token, max_results)
        return Page(tuple(entity for _, entity in found if isinstance(entity, Table)), token)

    def _page(
        self,
        catalog: str,
        parent: Path,
        kind: str,
        page_token: str | None,
        max_results: int | None,
        *,
        deep: bool = False,
    ) -> tuple[View, list[_Named], str | None]:
        size, now, sort = page_size(max_results), self._clock.now_ms(), f"{kind}/deep" if deep else kind
        if page_token:
            given = from_text(page_token, now)
            if (given.catalog, given.parent, given.kind) != (fold(catalog), key_of(parent), sort):
                raise bad_token("belongs to another listing")
            present = None if self._reader.watch is None else self._reader.current(catalog)
            tree, after, began = self._pinned(catalog, given.head), given.after, given.began
        else:
            present = tree = self._reader.current(catalog)
            after, began = "", now
        if parent:
            tree.namespace(parent, "parent" if kind == NAMESPACE else "namespace")
        view = View(tree, self._reader.store)
        below = tree.subtree(parent, after) if deep else tree.children(parent, kind, after)
        found, more = self._found(view, present, (one for one in below if one[1].kind == kind), size)
        page: list[_Named] = []
        room = PAGE_BYTES
        for key, entity in found:
            room -= len(encode(entity))
            if page and room < 0:
                more = True
                break
            page.append((key, entity))
            after = key
        token = Token(fold(catalog), tree.head, key_of(parent), sort, after, began)
        return view, page, to_text(token) if more else None

    def _found(
        self, view: View, present: Tree | None, below: Iterator[tuple[str, IndexEntry]], size: int
    ) -> tuple[list[_Named], bool]:
        """Up to ``size`` entities that whoever asks may see, by the rights of the ``present`` tree (I12), and whether
        there are more."""
        watch = self._reader.watch
        if watch is None or present is None:
            some = list(islice(below, size + 1))
            entities = view.entities([entry.obj for _, entry in some[:size]])
            return [(key, entities[entry.obj]) for key, entry in some[:size]], len(some) > size
        found: list[_Named] = []
        while len(found) <= size and (some := list(islice(below, _AT_ONCE))):
            entities = view.entities([entry.obj for _, entry in some])
            for parent, group in groupby(some, key=lambda one: path_of(one[0])[:-1]):
                named = [(key, entities[entry.obj]) for key, entry in group]
                seen = watch.visible(present, parent, [entity for _, entity in named])
                found += [one for one, visible in zip(named, seen, strict=True) if visible]
        return found[:size], len(found) > size

    def _pinned(self, catalog: str, head: str) -> Tree:
        tree = self._reader.store.find_tree(catalog, head)
        if tree is None:
            raise bad_token("has expired")
        return tree
