"""A catalog at one HEAD: the commit obj, and the tree of names that it describes (design 2.4).

A commit names its ancestors. ``parents[0]`` of commit ``seq`` is commit ``seq - 1``; ``parents[k]``
is the newest earlier commit with a sequence number that is a multiple of ``8 ** k``, a bookmark. A
commit computes its parents from the parents of the commit before it, without a read, and any
ancestor is a few steps away however long the history is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from turnstile.catalog.core.entities import ICEBERG_TABLE, ICEBERG_VIEW, NAMESPACE, TABLE
from turnstile.catalog.core.index import IndexEntry, Item, LayeredIndex, Segments, unpack, unpack_directory
from turnstile.catalog.core.paths import Path, below, child_key, dotted_name, key_of, past_subtree, path_of
from turnstile.rights.grants import NO_ACCESS, Access
from turnstile.store.core.errors import NotFound

REALM_TREE: Final = "."
"""The realm's own tree, which lists its catalogs. No catalog can have this name."""

_STEP: Final = 8
_OTHERS: Final = {
    ICEBERG_TABLE: "it is an Iceberg table: use a client of Iceberg's API (docs/iceberg.md)",
    ICEBERG_VIEW: "it is a view",
}
"""Remedies for names of entities of other kinds. The caller may see the entity: rights are checked
before."""


def parents_after(seq: int, id: str, parents: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the ``parents`` of the commit that follows commit ``id``, which has number ``seq``
    and these parents."""
    following = [id]
    level = 1
    distance = _STEP
    while distance <= seq:
        if seq % distance == 0:
            following.append(id)
        else:
            following.append(parents[level] if level < len(parents) else "")
        level = level + 1
        distance = distance * _STEP
    return tuple(following)


def ancestors(seq: int, parents: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Yields number and id of the ancestors that commit ``seq`` names, farthest first. Commits of
    versions without bookmarks name only the direct one, and later ones may have gaps."""
    for level in reversed(range(1, len(parents))):
        if parents[level]:
            yield (seq - 1) // _STEP**level * _STEP**level, parents[level]
    if parents:
        yield seq - 1, parents[0]


class CatalogCommit(msgspec.Struct, frozen=True, omit_defaults=True):
    """The obj that a catalog's HEAD names.

    Attributes:
        seq: position in the catalog's history, from 0, without gaps.
        parents: ids of its ancestors, the direct one first, then the bookmarks; empty for the first
            commit.
        at: microseconds since the epoch; greater than that of the commit before.
        embedded, segments: the packed embedded layer and directory of segments of the index.
        access: rights on the catalog; rights on its namespaces and tables are in their entities.
        restores: whether it brought back entities that the commit before it did not lead to (a
            reset, a name for a HEAD of the past).
        restored_by: the newest commit before it that did; empty if none did.
        incarnation: of a branch, an id that its creation and each update choose; from it the uuids
            of tables follow that have no HEAD of their own yet. Empty for a catalog, and for a
            branch that an earlier release wrote.
    """

    seq: int
    parents: tuple[str, ...]
    message: str
    at: int
    embedded: bytes
    segments: bytes = b""
    access: Access = NO_ACCESS
    restores: bool = False
    restored_by: str = ""
    incarnation: str = ""


encode_commit: Final[Callable[[CatalogCommit], bytes]] = msgspec.msgpack.Encoder().encode
decode_commit: Final = msgspec.msgpack.Decoder(CatalogCommit).decode
"""From and to the payload of an obj. Members of later versions are skipped."""


@dataclass(frozen=True, slots=True)
class Tree:
    """All names of a catalog as of one HEAD. Immutable, so it may be cached for ever."""

    catalog: str
    head: str
    commit: CatalogCommit
    index: LayeredIndex

    @classmethod
    def of(cls, catalog: str, head: str, commit: CatalogCommit, segments: Segments) -> Tree:
        """Returns the tree of a commit obj. Raises ValueError if it has a format this version does
        not know."""
        index = LayeredIndex(unpack(commit.embedded), unpack_directory(commit.segments), segments)
        return cls(catalog, head, commit, index)

    @property
    def empty(self) -> bool:
        return self.index.first(below("")[0]) is None

    def find(self, path: Path) -> IndexEntry | None:
        """Returns the entry of ``path`` (I9: at most one entry)."""
        return self.index.get(key_of(path))

    def peek(self, path: Path) -> IndexEntry | None:
        """As ``find`` without a request. None may also mean that it is not in memory."""
        return self.index.peek(key_of(path))

    def namespace(self, path: Path, field: str = "namespace", remedy: str = "check the name") -> IndexEntry:
        entry = self.find(path)
        if entry is None or entry.kind != NAMESPACE:
            raise NotFound("namespace", dotted_name(self.catalog, *path), field=field, remedy=remedy)
        return entry

    def parent(self, path: Path, field: str = "namespace") -> IndexEntry:
        """As ``namespace``, for something to be created in it."""
        return self.namespace(path, field, "create it first, or check the name")

    def table(self, namespace: Path, name: str) -> IndexEntry:
        """Returns the table ``name`` in ``namespace``. Raises NotFound, for the one of the two that
        is missing."""
        entry = self.find((*namespace, name))
        if entry is None or entry.kind != TABLE:
            self.namespace(namespace)
            remedy = _OTHERS.get(entry.kind, "check the name") if entry is not None else "check the name"
            raise NotFound("table", dotted_name(self.catalog, *namespace, name), field="table", remedy=remedy)
        return entry

    def name_of(self, table_id: str) -> Path | None:
        """Returns the full name of the table with this uuid, folded. Reads every entry."""
        return next((path_of(key) for key, entry in self.index.iterate() if entry.table_id == table_id), None)

    def children(self, path: Path, kind: str, after: str = "", *, reverse: bool = False) -> Iterator[Item]:
        """Yields the direct children of a kind in key order, with their keys, from the first key
        greater than ``after``; in ``reverse`` from the last key less than ``after``, if given. Does
        not read subtrees of children.
        """
        if reverse:
            yield from self._children_backwards(path, kind, after)
            return
        parent = key_of(path)
        start, stop = below(parent)
        at = max(start, past_subtree(after)) if after else start
        while (item := self.index.first(at)) and (stop is None or item[0] < stop):
            child = child_key(parent, item[0])
            if child == item[0] and item[1].kind == kind:
                yield item
            at = past_subtree(child)

    def subtree(self, path: Path, after: str = "", *, reverse: bool = False) -> Iterator[Item]:
        """As ``children``, everything strictly below ``path``."""
        start, stop = below(key_of(path))
        if after and reverse:
            stop = after if stop is None else min(stop, after)
        elif after:
            start = max(start, after + "\x00")
        return self.index.iterate(start, stop, reverse=reverse)

    def _children_backwards(self, path: Path, kind: str, before: str) -> Iterator[Item]:
        parent = key_of(path)
        start, stop = below(parent)
        at = before if before and (stop is None or before < stop) else stop
        while (item := self.index.last(at)) and item[0] >= start:
            child = child_key(parent, item[0])  # the last key of a subtree comes first
            entry = item[1] if child == item[0] else self.index.get(child)
            if entry is not None and entry.kind == kind:
                yield child, entry
            at = child
