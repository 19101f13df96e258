"""How a catalog commit finds its ancestors: the one before it, and bookmarks further back.

``parents[0]`` of commit ``seq`` is commit ``seq - 1``; ``parents[k]`` is the newest one before it whose sequence number
is a multiple of ``8 ** k``. Each commit makes its own from those of the one before, without a read; and any ancestor is a
few steps away, however long the history is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from turnstile.access.core.grants import NOBODY, Access
from turnstile.catalog.core.entities import NAMESPACE, TABLE
from turnstile.catalog.core.index import IndexEntry, LayeredIndex, Segments, unpack, unpack_directory
from turnstile.catalog.core.paths import Path, below, child_key, dotted, key_of, past_subtree, path_of
from turnstile.store.core.errors import NotFound

_STEP: Final = 8


def parents_after(seq: int, id: str, parents: tuple[str, ...]) -> tuple[str, ...]:
    """``parents`` of the commit that follows commit ``id`` with number ``seq`` and with these parents."""
    made, level, distance = [id], 1, _STEP
    while distance <= seq:
        if seq % distance == 0:
            made.append(id)
        else:
            made.append(parents[level] if level < len(parents) else "")
        level, distance = level + 1, distance * _STEP
    return tuple(made)


def ancestors(seq: int, parents: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Number and id of the ancestors that commit ``seq`` names, farthest first. Commits made before there were
    bookmarks have none, and those after them have gaps."""
    for level in reversed(range(1, len(parents))):
        if parents[level]:
            yield (seq - 1) // _STEP**level * _STEP**level, parents[level]
    if parents:
        yield seq - 1, parents[0]


# -- tree -------------------------------------------------------------------------------------------------------------
# A catalog at one HEAD: the commit obj, and the tree it describes (design 2.4).


class CatalogCommit(msgspec.Struct, frozen=True, omit_defaults=True):
    """The obj that a catalog's HEAD names.

    Attributes:
        seq: position in the catalog's history, from 0, without gaps.
        parents: ids of the commits it follows, the direct one first (none for the first commit), then bookmarks
            (``core.ancestry``).
        message: what changed, for people.
        at: microseconds since the epoch; greater than that of the commit before.
        embedded: the packed index layer that wins.
        segments: the packed directory of the spilled layer (``core.segments``); empty while there is none.
        restores: whether it brought in what the commit before it did not lead to (a reset, a name for a HEAD of the past).
        restored_by: the newest commit before it that did; empty when none did.
        access: who may do what with the catalog and in it; those of its namespaces and tables are in their entities.
    """

    seq: int
    parents: tuple[str, ...]
    message: str
    at: int
    embedded: bytes
    segments: bytes = b""
    access: Access = NOBODY
    restores: bool = False
    restored_by: str = ""


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(CatalogCommit)


def encode_commit(commit: CatalogCommit) -> bytes:
    """The payload of the commit's obj."""
    return _ENCODER.encode(commit)


def decode_commit(payload: bytes) -> CatalogCommit:
    """The commit that ``encode_commit`` was given. Members that later versions add are skipped."""
    return _DECODER.decode(payload)


@dataclass(frozen=True, slots=True)
class Tree:
    """Everything a name can lead to, as of one HEAD. Immutable, so it may be cached for ever."""

    catalog: str
    head: str
    commit: CatalogCommit
    index: LayeredIndex

    @classmethod
    def of(cls, catalog: str, head: str, commit: CatalogCommit, segments: Segments) -> Tree:
        """The tree of a commit obj, whose index reads ``segments`` as it needs them.

        Raises:
            ValueError: the commit has a format this version does not know.
        """
        return cls(
            catalog, head, commit, LayeredIndex(unpack(commit.embedded), unpack_directory(commit.segments), segments)
        )

    @property
    def empty(self) -> bool:
        """Whether nothing has a name."""
        return self.index.first(below("")[0]) is None

    def find(self, path: Path) -> IndexEntry | None:
        """What the full name ``path`` leads to, if anything (I9: at most one entry)."""
        return self.index.get(key_of(path))

    def remember(self, path: Path) -> IndexEntry | None:
        """As ``find``, as far as that takes no request; None also means: not in memory."""
        return self.index.peek(key_of(path))

    def namespace(self, path: Path, field: str = "namespace") -> IndexEntry:
        """The namespace ``path``; raises NotFound."""
        return self._namespace(path, field, "check the name")

    def parent(self, path: Path, field: str = "namespace") -> IndexEntry:
        """The namespace ``path``, which something is to be put into; raises NotFound."""
        return self._namespace(path, field, "create it first, or check the name")

    def _namespace(self, path: Path, field: str, remedy: str) -> IndexEntry:
        entry = self.find(path)
        if entry is None or entry.kind != NAMESPACE:
            raise NotFound("namespace", dotted(self.catalog, *path), field=field, remedy=remedy)
        return entry

    def table(self, namespace: Path, name: str) -> IndexEntry:
        """The table ``name`` in ``namespace``; raises NotFound that says which of the two is missing."""
        entry = self.find((*namespace, name))
        if entry is None or entry.kind != TABLE:
            self.namespace(namespace)
            raise NotFound("table", dotted(self.catalog, *namespace, name), field="table", remedy="check the name")
        return entry

    def named(self, table_id: str) -> Path | None:
        """The full name of the table with this uuid, folded; None when no name leads to it. Looks at every entry."""
        return next((path_of(key) for key, entry in self.index.iterate() if entry.table_id == table_id), None)

    def children(
        self, path: Path, kind: str, after: str = "", *, reverse: bool = False
    ) -> Iterator[tuple[str, IndexEntry]]:
        """Direct children of a kind in key order, with their keys, from the first key greater than ``after``; or, in
        ``reverse``, from the last one that is less, if ``after`` is given.

        Subtrees of children are jumped over, not walked through.
        """
        if reverse:
            yield from self._children_backwards(path, kind, after)
            return
        parent = key_of(path)
        start, stop = below(parent)
        at = max(start, past_subtree(after)) if after else start
        while (found := self.index.first(at)) and (stop is None or found[0] < stop):
            child = child_key(parent, found[0])
            if child == found[0] and found[1].kind == kind:
                yield found
            at = past_subtree(child)

    def subtree(self, path: Path, after: str = "", *, reverse: bool = False) -> Iterator[tuple[str, IndexEntry]]:
        """Everything strictly below ``path``, in key order, from the first key greater than ``after``; or, in
        ``reverse``, from the last one that is less, if ``after`` is given."""
        start, stop = below(key_of(path))
        if after and reverse:
            stop = after if stop is None else min(stop, after)
        elif after:
            start = max(start, after + "\x00")
        return self.index.iterate(start, stop, reverse=reverse)

    def _children_backwards(self, path: Path, kind: str, before: str) -> Iterator[tuple[str, IndexEntry]]:
        parent = key_of(path)
        start, stop = below(parent)
        at = before if before and (stop is None or before < stop) else stop
        while (found := self.index.last(at)) and found[0] >= start:
            child = child_key(parent, found[0])  # what is found first is the end of its subtree
            entry = found[1] if child == found[0] else self.index.get(child)
            if entry is not None and entry.kind == kind:
                yield child, entry
            at = child
