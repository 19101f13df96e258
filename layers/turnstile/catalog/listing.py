"""Listings and look-ups of a catalog's names, now or as of a moment. A listing is read page by
page, each page from the HEAD that the first one read, without entities that the request may not see
now, and without names that only Iceberg's clients can use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, islice, takewhile
from typing import Final, Generic, TypeVar

import msgspec

from turnstile.catalog.core.branches import shown_table
from turnstile.catalog.core.entities import ICEBERG_KINDS, NAMESPACE, TABLE, Entity, Namespace, Table, id_of
from turnstile.catalog.core.index import Item
from turnstile.catalog.core.paths import Path, dotted_name, key_of, path_of
from turnstile.catalog.history.core import PARENT, SNAPSHOT, AsOf, NamedSnapshot
from turnstile.catalog.history.reader import AsOfReader, TreeAsOf
from turnstile.catalog.namespaces import NamedNamespace, named_namespace
from turnstile.catalog.paging import page_size
from turnstile.catalog.reader import CatalogReader, View
from turnstile.store.core.errors import NotFound
from turnstile.store.core.limits import PageBudget, response_size
from turnstile.store.core.names import is_branch, is_identifier
from turnstile.store.ports import BATCH_GET_MAX, in_batches

T = TypeVar("T")

_KeyedEntity = tuple[str, Entity]
"""A key of the index and the entity that it leads to."""

_MEMBERS_BYTES: Final = 1_000
"""The most that an item takes in a response beside its entity and its name: names of members, the
catalog's name."""

SNAPSHOTS: Final = 100
"""The most named snapshots on a page: each is read with the versions of all its tables."""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some results in name order; ``next_token`` is None on the last page, ``head`` the HEAD that
    the listing reads. ``versions``: of Delta tables by uuid, where they are known."""

    items: tuple[T, ...]
    next_token: str | None
    head: str = ""
    versions: Mapping[str, int] = {}


def size_of(key: str, entity: Entity) -> int:
    """Returns the most bytes that an item takes in a response of any API, which may have its full
    name three times."""
    return response_size(entity) + 3 * len(key) + _MEMBERS_BYTES


def _first_page(items: Iterable[_KeyedEntity]) -> list[_KeyedEntity]:
    budget = PageBudget()
    return list(takewhile(lambda item: budget.fits(size_of(*item)), items))


class Listings:
    """Lists the direct children of a namespace, or of the catalog's root (the empty path)."""

    def __init__(self, reader: CatalogReader, as_of_reader: AsOfReader) -> None:
        self._reader = reader
        self._as_of_reader = as_of_reader

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
        """Returns child namespaces of ``parent``; with ``deep`` all below it. One request warm, and
        one for every hundred entities that are not cached; for a moment of the past the members of
        ``AsOfReader``. Raises NotFound (catalog, parent, moment); InvalidRequest for a token that
        is damaged, expired or of another listing.
        """
        moment, items, token = self._page(
            catalog, parent, NAMESPACE, as_of=as_of, token=page_token, size=page_size(max_results), deep=deep
        )
        view = View(moment.tree, self._reader.store)
        above = {path: view.written_levels(path) for path in {path_of(key)[:-1] for key, _ in items}}
        namespaces = [
            NamedNamespace((*above[path_of(key)[:-1]], entity.name), entity, moment.tree.catalog)
            for key, entity in items
            if isinstance(entity, Namespace)
        ]
        return Page(tuple(namespaces), token, moment.tree.head)

    def tables(
        self,
        catalog: str,
        namespace: Path,
        *,
        as_of: AsOf | None = None,
        page_token: str | None = None,
        max_results: int | None = None,
    ) -> Page[Table]:
        """Requests and errors as ``namespaces``."""
        moment, items, token = self._page(
            catalog, namespace, TABLE, as_of=as_of, token=page_token, size=page_size(max_results), deep=False
        )
        tree = moment.tree
        found = ((tree.find(path_of(key)), entity) for key, entity in items)
        tables = (
            tuple(shown_table(tree, entry, entity) for entry, entity in found if entry and isinstance(entity, Table))
            if is_branch(tree.catalog)
            else tuple(entity for _, entity in items if isinstance(entity, Table))
        )
        return Page(tables, token, moment.tree.head, moment.versions)

    def snapshots(
        self, catalog: str, *, page_token: str | None = None, max_results: int | None = None
    ) -> Page[NamedSnapshot]:
        """Returns named snapshots of a catalog, without bases of branches; none of a branch.
        Responses must leave out their ``versions``, which do not count here. One request warm, and
        one for entities that are not cached. Raises as ``namespaces``.
        """
        size = min(page_size(max_results), SNAPSHOTS)
        start = self._as_of_reader.page(catalog, "", SNAPSHOT, None, page_token)
        tree = start.moment.tree
        entries = list(islice(tree.children(PARENT, SNAPSHOT, start.after), size + 1))
        entities = self._reader.store.entities(tree.catalog, [entry.obj for _, entry in entries[:size]])
        items = {key: entities[entry.obj] for key, entry in entries[:size]}
        snapshots = {key: item for key, item in items.items() if isinstance(item, NamedSnapshot)}
        page = _first_page((key, msgspec.structs.replace(snapshot, versions={})) for key, snapshot in snapshots.items())
        token = start.following(page[-1][0]) if len(page) < len(entries) else None
        shown = (snapshots[key] for key, _ in page)
        return Page(tuple(each for each in shown if not each.branch and not is_branch(tree.catalog)), token, tree.head)

    def _page(
        self, catalog: str, parent: Path, kind: str, *, as_of: AsOf | None, token: str | None, size: int, deep: bool
    ) -> tuple[TreeAsOf, list[_KeyedEntity], str | None]:
        """Returns the trees that the listing reads, the items of the page, and the token of the
        next one."""
        start = self._as_of_reader.page(catalog, key_of(parent), f"{kind}/deep" if deep else kind, as_of, token)
        moment = start.moment
        after = start.after
        if parent:
            field = "parent" if kind == NAMESPACE else "namespace"
            if as_of is not None:
                self._as_of_reader.require(moment, parent, member=field)
            moment.tree.namespace(parent, field)
        below = moment.tree.subtree(parent, after) if deep else moment.tree.children(parent, kind, after)
        named = (item for item in below if item[1].kind == kind and all(map(is_identifier, path_of(item[0]))))
        items, more = self._visible(moment, named, size)
        page = _first_page(items)
        return moment, page, start.following(page[-1][0]) if more or len(page) < len(items) else None

    def _visible(self, moment: TreeAsOf, entries: Iterator[Item], size: int) -> tuple[list[_KeyedEntity], bool]:
        """Returns up to ``size`` items that the request may see, by the rights of the present tree
        (I12), and whether there are more."""
        authorizer = self._reader.authorizer
        view = View(moment.tree, self._reader.store)
        if authorizer is None:
            first = list(islice(entries, size + 1))
            entities = view.entities([entry.obj for _, entry in first[:size]])
            return [(key, entities[entry.obj]) for key, entry in first[:size]], len(first) > size
        visible: list[_KeyedEntity] = []
        for batch in in_batches(entries, BATCH_GET_MAX):
            entities = view.entities([entry.obj for _, entry in batch])
            for parent, group in groupby(batch, key=lambda item: path_of(item[0])[:-1]):
                items = [(key, entities[entry.obj]) for key, entry in group]
                shown = authorizer.visible(moment.present, parent, [entity for _, entity in items])
                visible += [item for item, show in zip(items, shown, strict=True) if show]
            if len(visible) > size:
                break
        return visible[:size], len(visible) > size


class Entry(msgspec.Struct, frozen=True):
    """The entity of a full name; ``catalog`` and ``path`` as written, ``version`` of a Delta table
    where the tree or the requested snapshot has one."""

    catalog: str
    head: str
    path: Path
    entity: Entity
    version: int | None = None


class Entries:
    """Looks full names up, now or as of a moment; rights come from the present tree (I12)."""

    def __init__(self, reader: CatalogReader, as_of_reader: AsOfReader) -> None:
        self._reader = reader
        self._as_of_reader = as_of_reader

    def namespace(self, catalog: str, path: Path, as_of: AsOf | None) -> tuple[NamedNamespace, str]:
        """Returns a namespace, and the HEAD that has it. Requests of ``AsOfReader.at``, and one for
        entities that are not cached. Raises NotFound."""
        moment = self._as_of_reader.at(catalog, as_of)
        if as_of is not None:
            self._as_of_reader.require(moment, path)
        view = View(moment.tree, self._reader.store)
        return named_namespace(view, path), moment.tree.head

    def table(self, catalog: str, namespace: Path, name: str, as_of: AsOf | None) -> Entry:
        """Returns a table or view of any format; requests and errors as ``namespace``."""
        moment = self._as_of_reader.at(catalog, as_of)
        path = (*namespace, name)
        if as_of is not None:
            self._as_of_reader.require(moment, path, "table", "table")
        entry = moment.tree.find(path)
        if entry is None or entry.kind not in (TABLE, *ICEBERG_KINDS):
            moment.tree.namespace(namespace)
            raise NotFound("table", dotted_name(catalog, *path), field="table", remedy="check the name")
        view = View(moment.tree, self._reader.store)
        entity = view.entity(entry.obj)
        if isinstance(entity, Table):
            entity = shown_table(moment.tree, entry, entity)
        written = (*view.written_levels(namespace), entity.name)
        return Entry(moment.tree.catalog, moment.tree.head, written, entity, version_in(moment.versions, entity))


def version_in(versions: Mapping[str, int], entity: Entity) -> int | None:
    """Returns the version of a Delta table in a tree with a snapshot of these ``versions``; a
    clone's never changes."""
    if isinstance(entity, Table) and entity.clone is not None:
        return entity.clone.version
    return versions.get(id_of(entity))
