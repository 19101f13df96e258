"""Path queries over a catalog's tree: level by level from the root, what cannot match pruned before it is read.

    1  which names a level can lead to at all follows from its predicate: the index is read there only
    2  name, kind and id are in the index: a predicate that they decide costs no request
    3  entities are read a hundred at a time, across parents, and only those that 2 left open
    4  a Delta table's properties are not in the tree: its HEAD and its metadata, a hundred at a time, if 3 left it open

A query is answered page by page, each from the HEAD that the first one saw, less what whoever asks may not see now. Only
4 looks at the present: tables commit without their catalog.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import groupby
from typing import Final

import msgspec

from turnstile.core.catalog_paths import Path, fold, key_of, path_of
from turnstile.core.entities import NAMESPACE, Entity, encode
from turnstile.core.path_query.parser import parse
from turnstile.core.path_query.query import Query, Step, holds
from turnstile.core.path_query.reach import reach_of
from turnstile.core.path_query.scan import Child, children
from turnstile.core.path_query.text import to_text
from turnstile.core.tree import Tree
from turnstile.services.catalog.listing import PAGE_BYTES
from turnstile.services.catalog.paging import Token, bad_token, from_text, page_size
from turnstile.services.catalog.paging import to_text as token_text
from turnstile.services.catalog.reader import CatalogReader
from turnstile.services.find_subjects import TableProperties, named, whole
from turnstile.services.metadata import Snapshots
from turnstile.world import World

AT_ONCE: Final = 100
"""Entries that are judged together, so that one request reads what they need."""

LOOKS: Final = 10_000
"""A page ends when so many entries were looked at, however few of them matched: a request has seconds, not minutes."""


class Found(msgspec.Struct, frozen=True):
    """What matched: its full name as it was written, without the catalog, and its entity."""

    path: Path
    entity: Entity


class Finding(msgspec.Struct, frozen=True):
    """A page of matches in the order of their names, from ``head`` of ``catalog``; perhaps none although there are more
    pages. ``next_token`` None on the last one."""

    catalog: str
    head: str
    items: tuple[Found, ...]
    next_token: str | None


class _Hit(msgspec.Struct, frozen=True):
    """An entry that passed its level; ``entity`` if it had to be read."""

    key: str
    entity: Entity | None = None


class _Passed(msgspec.Struct, frozen=True):
    """Everything up to ``key``, with what is below it, was judged, and what matched has been told."""

    key: str


_Stream = Iterator[_Hit | _Passed]


class Finder:
    """Answers path queries. One per sandbox, or per request with a watched reader; safe for threads."""

    def __init__(self, world: World, reader: CatalogReader, snapshots: Snapshots) -> None:
        self._clock, self._reader = world.clock, reader
        self._properties = TableProperties(world, snapshots)

    def find(self, query: str, *, page_token: str | None = None, max_results: int | None = None) -> Finding:
        """A page of what ``query`` leads to.

        Raises:
            InvalidRequest: the query cannot be read, or the token is damaged, expired or of another query.
            NotFound: no such catalog.
        """
        asked, now = parse(query), self._clock.now_ms()
        size, catalog = page_size(max_results), fold(asked.catalog)
        kind = f"find/{_digest(replace(asked, catalog=catalog))}"
        if page_token:
            given = from_text(page_token, now)
            if (given.catalog, given.kind) != (catalog, kind):
                raise bad_token("belongs to another query")
            present = None if self._reader.watch is None else self._reader.current(catalog)
            pinned = self._reader.store.find_tree(catalog, given.head)
            if pinned is None:
                raise bad_token("has expired")
            tree, after, began = pinned, given.after, given.began
        else:
            present = tree = self._reader.current(catalog)
            after, began = "", now
        walk = _Walk(self._reader, self._properties, tree, present or tree, after)
        found, end = _page(walk, asked, size)
        token = None if end is None else token_text(Token(catalog, tree.head, "", kind, end, began))
        return Finding(tree.catalog, tree.head, tuple(walk.named(found)), token)


def _digest(query: Query) -> str:
    """Tells queries apart, however they are spelled."""
    return hashlib.sha256(to_text(query).encode()).hexdigest()[:32]


def _page(walk: _Walk, query: Query, size: int) -> tuple[list[_Hit], str | None]:
    """Some matches, and the key after which the next page begins; None when there is none."""
    found: list[_Hit] = []
    room, after = PAGE_BYTES, walk.after
    for one in walk.matches(query):
        if isinstance(one, _Hit):
            room -= len(encode(one.entity)) if one.entity is not None else 0
            if len(found) == size or (found and room < 0):
                return found, after
            found.append(one)
        elif walk.looks >= LOOKS:
            return found, one.key
        after = one.key
    return found, None


class _Walk:
    """One page's way through one tree."""

    def __init__(
        self, reader: CatalogReader, properties: TableProperties, tree: Tree, present: Tree, after: str
    ) -> None:
        self._store, self._watch, self._properties = reader.store, reader.watch, properties
        self._tree, self._present, self.after = tree, present, after
        self.looks = 0

    def matches(self, query: Query) -> _Stream:
        """What the whole query leads to, in key order, and how far that is true."""
        root: _Stream = iter([_Hit("")])
        *above, last = query.steps
        return self._level(reduce(self._inner, above, root), last, last=True)

    def _inner(self, above: _Stream, step: Step) -> _Stream:
        return self._level(above, step, last=False)

    def _level(self, above: _Stream, step: Step, *, last: bool) -> _Stream:
        """The children of what passed the level before that pass this one.

        They are judged a hundred at a time whatever their parents; a ``_Passed`` of the level before overtakes none.
        """
        reach = reach_of(step)
        waiting: list[Child] = []
        for one in above:
            if isinstance(one, _Passed):
                yield from self._judged(waiting, step, last=last)
                waiting = []
                yield one
                continue
            for child in children(self._tree, one.key, reach, self.after):
                waiting.append(child)
                if len(waiting) == AT_ONCE:
                    yield from self._judged(waiting, step, last=last)
                    waiting = []
        yield from self._judged(waiting, step, last=last)

    def _judged(self, batch: list[Child], step: Step, *, last: bool) -> _Stream:
        if not batch:
            return
        self.looks += len(batch)
        possible: list[tuple[Child, bool | None]] = []
        for key, entry in batch:
            held = holds(step.where, named(path_of(key)[-1], entry))
            if held is not False and (last or entry.kind == NAMESPACE):
                possible.append(((key, entry), held))
        certain = [_Hit(key) for (key, _), _ in possible]
        read = last or self._watch is not None or any(held is None for _, held in possible)
        yield from self._read([child for child, _ in possible], step) if read else certain
        yield _Passed(batch[-1][0])

    def _read(self, batch: Sequence[Child], step: Step) -> list[_Hit]:
        """Those of a batch that pass, judged with all that can be known of them."""
        entities = self._store.entities(self._tree.catalog, [entry.obj for _, entry in batch])
        seen = [(child, entities[child[1].obj]) for child in self._visible(batch, entities)]
        judged = [(child, entity, holds(step.where, whole(entity))) for child, entity in seen]
        undecided = [(child[1], entity) for child, entity, held in judged if held is None]
        known = self._properties.of(self._tree.catalog, [entry for entry, _ in undecided])
        return [
            _Hit(child[0], entity)
            for child, entity, held in judged
            if (held if held is not None else holds(step.where, whole(entity, known.get(child[1].table_id, {}))))
        ]

    def _visible(self, batch: Sequence[Child], entities: dict[str, Entity]) -> Iterable[Child]:
        """Those that whoever asks may see, by the rights of the present tree (I12)."""
        if self._watch is None:
            yield from batch
            return
        for parent, group in groupby(batch, key=lambda child: path_of(child[0])[:-1]):
            some = list(group)
            seen = self._watch.visible(self._present, parent, [entities[entry.obj] for _, entry in some])
            yield from (child for child, visible in zip(some, seen, strict=True) if visible)

    def named(self, hits: Sequence[_Hit]) -> Iterator[Found]:
        """The matches with their names as they were written: their namespaces' are read together."""
        above = {path_of(hit.key)[:depth] for hit in hits for depth in range(1, len(path_of(hit.key)))}
        entries = {key_of(path): self._tree.namespace(path) for path in above}
        entities = self._store.entities(self._tree.catalog, [entry.obj for entry in entries.values()])
        written = {key: entities[entry.obj].name for key, entry in entries.items()}
        for hit in hits:
            path = path_of(hit.key)
            levels = [written[key_of(path[:depth])] for depth in range(1, len(path))]
            assert hit.entity is not None  # the last level reads what it tells
            yield Found((*levels, hit.entity.name), hit.entity)
