"""Listings of namespaces and tables, now or as of a moment, and of snapshots: page by page, each page from the HEAD that
the first one saw, less what whoever asks may not see now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby, islice
from typing import Final, Generic, TypeVar

import msgspec

from turnstile.catalog.commit import View
from turnstile.catalog.core.entities import KINDS, NAMESPACE, TABLE, Entity, Namespace, Table, id_of
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.paths import Path, dotted, key_of, path_of
from turnstile.catalog.history.core import PARENT, SNAPSHOT, AsOf, NamedSnapshot
from turnstile.catalog.history.moments import AsOfReader, TreeAsOf
from turnstile.catalog.namespaces import NamedNamespace
from turnstile.catalog.paging import page_size
from turnstile.catalog.reader import CatalogReader
from turnstile.store.core.errors import NotFound
from turnstile.store.page_budget import PageBudget, response_size
from turnstile.store.ports import BATCH_GET_MAX

T = TypeVar("T")

_Named = tuple[str, Entity]
"""A key of the index and the entity it leads to."""

_AROUND: Final = 1_000
"""Bytes that an entry takes in an answer at most beside its own and its name: members' names, the catalog's name."""

SNAPSHOTS: Final = 100
"""Snapshots of a page at most: what is read of each has the versions of all its tables."""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some results in name order, from ``head``; ``next_token`` None on the last page; ``versions`` those of Delta tables
    by uuid, where they are known."""

    items: tuple[T, ...]
    next_token: str | None
    head: str = ""
    versions: Mapping[str, int] = {}


def size_of(key: str, entity: Entity) -> int:
    """Bytes that an entry takes of an answer at most, in whichever API: its full name may be there three times."""
    return response_size(entity) + 3 * len(key) + _AROUND


class Listings:
    """Lists what is directly below a namespace, or below the catalog's root (the empty path)."""

    def __init__(self, reader: CatalogReader, moments: AsOfReader) -> None:
        self._reader, self._moments = reader, moments

    def namespaces(
        self,
        catalog: str,
        parent: Path = (),
        *,
        deep: bool = False,
        as_of: AsOf | None = None,
        page_token: str | None = None,
        max_results: int | None = None,
    ) -> Page[NamedNamespace]:
        """Child namespaces of ``parent``; with ``deep`` all below it. One request warm, and one per hundred entities not
        seen before; for a moment of the past what ``Moments`` needs.

        Raises:
            NotFound: no such catalog or parent; no such moment.
            InvalidRequest: a token that is damaged, expired or of another listing.
        """
        moment, found, token = self._page(
            catalog, parent, NAMESPACE, as_of=as_of, page_token=page_token, max_results=max_results, deep=deep
        )
        view = View(moment.tree, self._reader.store)
        above = {path: view.written(path) for path in {path_of(key)[:-1] for key, _ in found}}
        named = [
            NamedNamespace((*above[path_of(key)[:-1]], entity.name), entity)
            for key, entity in found
            if isinstance(entity, Namespace)
        ]
        return Page(tuple(named), token, moment.tree.head)

    def tables(
        self,
        catalog: str,
        namespace: Path,
        *,
        as_of: AsOf | None = None,
        page_token: str | None = None,
        max_results: int | None = None,
    ) -> Page[Table]:
        """Tables of ``namespace``; requests and errors as ``namespaces``."""
        moment, found, token = self._page(
            catalog, namespace, TABLE, as_of=as_of, page_token=page_token, max_results=max_results
        )
        tables = tuple(entity for _, entity in found if isinstance(entity, Table))
        return Page(tables, token, moment.tree.head, moment.versions)

    def snapshots(
        self, catalog: str, *, page_token: str | None = None, max_results: int | None = None
    ) -> Page[NamedSnapshot]:
        """Snapshots of a catalog, to be told without their ``versions``, which are not counted. One request warm, and one
        for those not seen before.

        Raises:
            NotFound: no such catalog.
            InvalidRequest: as ``namespaces``.
        """
        size = min(page_size(max_results), SNAPSHOTS)
        start = self._moments.page(catalog, "", SNAPSHOT, None, page_token)
        tree, after = start.moment.tree, start.after
        some = list(islice(tree.children(PARENT, SNAPSHOT, after), size + 1))
        entities = View(tree, self._reader.store).entities([entry.obj for _, entry in some[:size]])
        page: list[NamedSnapshot] = []
        room = PageBudget()
        for key, entry in some[:size]:
            one = entities[entry.obj]
            assert isinstance(one, NamedSnapshot)
            if not room.takes(size_of(key, msgspec.structs.replace(one, versions={}))):
                break
            page.append(one)
            after = key
        return Page(tuple(page), start.following(after) if len(page) < len(some) else None, tree.head)

    def _page(
        self,
        catalog: str,
        parent: Path,
        kind: str,
        *,
        as_of: AsOf | None,
        page_token: str | None,
        max_results: int | None,
        deep: bool = False,
    ) -> tuple[TreeAsOf, list[_Named], str | None]:
        size = page_size(max_results)
        start = self._moments.page(catalog, key_of(parent), f"{kind}/deep" if deep else kind, as_of, page_token)
        moment, after = start.moment, start.after
        if parent:
            field = "parent" if kind == NAMESPACE else "namespace"
            if as_of is not None:
                self._moments.require(moment, parent, member=field)
            moment.tree.namespace(parent, field)
        below = moment.tree.subtree(parent, after) if deep else moment.tree.children(parent, kind, after)
        found, more = self._found(moment, (one for one in below if one[1].kind == kind), size)
        page: list[_Named] = []
        room = PageBudget()
        for key, entity in found:
            if not room.takes(size_of(key, entity)):
                more = True
                break
            page.append((key, entity))
            after = key
        return moment, page, start.following(after) if more else None

    def _found(self, moment: TreeAsOf, below: Iterator[tuple[str, IndexEntry]], size: int) -> tuple[list[_Named], bool]:
        """Up to ``size`` entities that whoever asks may see, by the rights of the present tree (I12), and whether there
        are more."""
        authorizer, view = self._reader.authorizer, View(moment.tree, self._reader.store)
        if authorizer is None:
            some = list(islice(below, size + 1))
            entities = view.entities([entry.obj for _, entry in some[:size]])
            return [(key, entities[entry.obj]) for key, entry in some[:size]], len(some) > size
        found: list[_Named] = []
        while len(found) <= size and (some := list(islice(below, BATCH_GET_MAX))):
            entities = view.entities([entry.obj for _, entry in some])
            for parent, group in groupby(some, key=lambda one: path_of(one[0])[:-1]):
                named = [(key, entities[entry.obj]) for key, entry in group]
                seen = authorizer.visible(moment.present, parent, [entity for _, entity in named])
                found += [one for one, visible in zip(named, seen, strict=True) if visible]
        return found[:size], len(found) > size


# -- entries ----------------------------------------------------------------------------------------------------------
# What a full name leads to in a catalog's tree, now or as of a moment.


class Entry(msgspec.Struct, frozen=True):
    """A name of a tree.

    Attributes:
        catalog: its name as it was written.
        head: the HEAD whose tree it is.
        path: the full name as it was written, without the catalog.
        version: of the Delta table, where the tree or the snapshot that was asked for says one.
    """

    catalog: str
    head: str
    path: Path
    entity: Entity
    version: int | None = None


class Entries:
    """Looks names up; rights are those of the present tree (I12).

    Args:
        reader: watched, where whoever asks is to be judged.
    """

    def __init__(self, reader: CatalogReader, moments: AsOfReader) -> None:
        self._reader, self._moments = reader, moments

    def namespace(self, catalog: str, path: Path, as_of: AsOf | None) -> tuple[NamedNamespace, str]:
        """A namespace, and the HEAD that had it. What ``Moments.at`` takes, and one request for entities that are new.

        Raises:
            NotFound: no such catalog, moment or namespace.
        """
        moment = self._moments.at(catalog, as_of)
        if as_of is not None:
            self._moments.require(moment, path)
        view = View(moment.tree, self._reader.store)
        entity = view.entity(moment.tree.namespace(path).obj)
        assert isinstance(entity, Namespace)
        return NamedNamespace(view.written(path), entity), moment.tree.head

    def table(self, catalog: str, namespace: Path, name: str, as_of: AsOf | None) -> Entry:
        """A table or view of any format; requests and errors as ``namespace``."""
        moment, path = self._moments.at(catalog, as_of), (*namespace, name)
        if as_of is not None:
            self._moments.require(moment, path, "table", "table")
        found = moment.tree.find(path)
        if found is None or found.kind not in (TABLE, *KINDS):
            moment.tree.namespace(namespace)
            raise NotFound("table", dotted(catalog, *path), field="table", remedy="check the name")
        view = View(moment.tree, self._reader.store)
        entity = view.entity(found.obj)
        written = (*view.written(namespace), entity.name)
        return Entry(moment.tree.catalog, moment.tree.head, written, entity, version_in(moment.versions, entity))


def version_in(versions: Mapping[str, int], entity: Entity) -> int | None:
    """The version of a Delta table that a tree tells with its snapshot's ``versions``: a clone's never changes."""
    if isinstance(entity, Table) and entity.clone is not None:
        return entity.clone.version
    return versions.get(id_of(entity))
