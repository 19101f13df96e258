"""Children of one name in a tree, between bounds, from where a page before left off."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import groupby
from typing import Final

import msgspec

from turnstile.catalog.core.entities import KINDS as ICEBERG
from turnstile.catalog.core.entities import NAMESPACE, Entity, Table, id_of, kind_of
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.paths import Path, below, child_key, dotted, fold, is_below, key_of, past_subtree, path_of
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.history.moments import AsOfReader, Start
from turnstile.catalog.listing import size_of
from turnstile.catalog.paging import page_size
from turnstile.catalog.query.core.parser import parse
from turnstile.catalog.query.core.query import TYPES, Candidate, Query, Step, Value, holds, to_text
from turnstile.catalog.query.core.reach import Reach, reach_of
from turnstile.catalog.reader import CatalogReader
from turnstile.delta.core.head import TableHead
from turnstile.delta.metadata import MetadataStore
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.page_budget import PageBudget
from turnstile.store.ports import BATCH_GET_MAX, World

Child = tuple[str, IndexEntry]


def children(tree: Tree, parent: str, reach: Reach, after: str = "") -> Iterator[Child]:
    """Direct children of the key ``parent`` whose names are in reach, in key order, with their keys.

    Names out of reach are jumped over with everything below them.

    Args:
        after: the key up to which, with its whole subtree, everything was seen before: what is there is left out. Of
            what lies around it, only the way to it is seen again.
    """
    first = _resumed(parent, after)
    if reach.only is not None:
        yield from _named(tree, parent, reach.only, first)
        return
    start, stop = below(parent)
    prefix = key_of((*path_of(parent), "")) if parent else ""
    at = max(start, prefix + reach.start, first)
    if reach.stop is not None:
        stop = min(prefix + reach.stop, stop) if stop is not None else prefix + reach.stop
    while (found := next(tree.index.iterate(at, stop), None)) is not None:  # bounded: reads no segment beyond
        child = child_key(parent, found[0])
        if child == found[0]:
            yield found
        at = past_subtree(child)


def _resumed(parent: str, after: str) -> str:
    """The first key among the children of ``parent`` that is to be seen."""
    if not after or not is_below(after, parent):
        return ""
    child = child_key(parent, after)
    return past_subtree(after) if child == after else child


def _named(tree: Tree, parent: str, names: frozenset[str], first: str) -> Iterator[Child]:
    for name in sorted(names):
        path = (*path_of(parent), name)
        key = key_of(path)
        if not name or len(path_of(key)) != len(path) or key < first:  # a NUL in a name would lead to another level
            continue
        entry = tree.find(path)
        if entry is not None:
            yield key, entry


# -- find subjects ----------------------------------------------------------------------------------------------------
# What a predicate is judged on: first what the index knows, then the entity, then a Delta table's own properties.


def named(name: str, entry: IndexEntry) -> Candidate:
    """What the index says of an entry: no request. Names compare folded, so the key's last level will do."""
    known: dict[str, Value] = {"name": name, "kind": entry.kind}
    if entry.table_id:
        known["id"] = entry.table_id
    return Candidate(entry.kind, known)


def whole(entity: Entity, properties: Mapping[str, str] | None = None) -> Candidate:
    """What an entity says; ``properties`` those that are not part of it, once they are known."""
    members: dict[str, Value | None] = {name: getattr(entity, name, None) for name in TYPES}
    if kind_of(entity) in ICEBERG:
        members["format"] = "iceberg"
    members |= {"kind": kind_of(entity), "id": id_of(entity)}
    if not getattr(entity, "updated", 0):
        members["updated"] = None
    known = {name: value for name, value in members.items() if value is not None}
    return Candidate(kind_of(entity), known, whole=True, properties=_own(entity) if properties is None else properties)


def _own(entity: Entity) -> Mapping[str, str] | None:
    """An entity's properties; None for a Delta table, which has them beside its HEAD."""
    if isinstance(entity, Table):
        return None if entity.external is None else entity.external.properties
    return getattr(entity, "properties", {})  # an Iceberg table's are in its metadata file, which nobody opens for this


def characters(subject: Candidate) -> int:
    """How much text there is to compare with a query."""
    said = [value for value in subject.attributes.values() if isinstance(value, str)]
    properties = subject.properties or {}
    return sum(map(len, said)) + sum(map(len, properties)) + sum(map(len, properties.values()))


class TableProperties:
    """Properties of Delta tables, as their HEADs have them now."""

    def __init__(self, world: World, snapshots: MetadataStore) -> None:
        self._refs, self._space, self._snapshots = world.refs, world.space, snapshots

    def of(self, catalog: str, entries: Iterable[IndexEntry]) -> dict[str, Mapping[str, str]]:
        """By table uuid; one request per hundred HEADs, and one per hundred of their snapshots that are not cached.
        Tables that are gone are left out."""
        keys = [self._space.table(entry.table_id) for entry in entries if entry.table_id]
        if not keys:
            return {}
        heads = [TableHead.from_row(row) for row in self._refs.read_many(keys).values()]
        found = self._snapshots.get_many(catalog, {head.metadata for head in heads})
        return {
            head.table_id: {**said.beside.properties, **(said.metadata.get("configuration") or {})}
            for head in heads
            if (said := found.get(head.metadata)) is not None
        }


# -- find -------------------------------------------------------------------------------------------------------------
# Path queries over a catalog's tree: level by level from the root, what cannot match pruned before it is read.
#
#     1  which names a level can lead to at all follows from its predicate: the index is read there only
#     2  name, kind and id are in the index: a predicate that they decide costs no request
#     3  entities are read a hundred at a time, across parents, and only those that 2 left open
#     4  a Delta table's properties are not in the tree: its HEAD and its metadata, a hundred at a time, if 3 left it open
#
# A query is answered page by page, each from the HEAD that the first one saw, less what whoever asks may not see now. Only
# 4 looks at the present: tables commit without their catalog. As of a moment of the past 4 is refused, not guessed.


AT_ONCE: Final = BATCH_GET_MAX
"""Entries that are judged together, so that one request reads what they need."""

LOOKS: Final = 10_000
"""A page ends when so many entries were looked at, however few of them matched: a request has seconds, not minutes."""

LOOK_CHARACTERS: Final = 1_000
"""Text of an entry that counts as one look more: it has to be read, and compared with every part of the query."""


class Match(msgspec.Struct, frozen=True):
    """What matched: its full name as it was written, without the catalog, and its entity."""

    path: Path
    entity: Entity


class MatchPage(msgspec.Struct, frozen=True):
    """A page of matches in the order of their names, from ``head`` of ``catalog``; perhaps none although there are more
    pages. ``next_token`` None on the last one; ``versions`` those of Delta tables by uuid, where they are known."""

    catalog: str
    head: str
    items: tuple[Match, ...]
    next_token: str | None
    versions: Mapping[str, int] = {}


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

    def __init__(self, world: World, reader: CatalogReader, moments: AsOfReader, snapshots: MetadataStore) -> None:
        self._reader, self._moments = reader, moments
        self._properties = TableProperties(world, snapshots)

    def find(
        self, query: str, *, as_of: AsOf | None = None, page_token: str | None = None, max_results: int | None = None
    ) -> MatchPage:
        """A page of what ``query`` leads to, now or as of a moment.

        Raises:
            InvalidRequest: the query cannot be read, or the token is damaged, expired or of another query; or the answer
                depends on what the catalog's past does not hold: properties of Delta tables.
            NotFound: no such catalog; no such moment.
        """
        asked = parse(query)
        size, catalog = page_size(max_results), fold(asked.catalog)
        kind = f"find/{_digest(replace(asked, catalog=catalog))}"
        start = self._moments.page(catalog, "", kind, as_of, page_token)
        walk = _Walk(self._reader, self._properties if as_of is None else None, start)
        found, end = _page(walk, asked, size)
        token, moment = None if end is None else start.following(end), start.moment
        return MatchPage(moment.tree.catalog, moment.tree.head, tuple(walk.named(found)), token, moment.versions)


def _digest(query: Query) -> str:
    """Tells queries apart, however they are spelled."""
    return hashlib.sha256(to_text(query).encode()).hexdigest()[:32]


def _page(walk: _Walk, query: Query, size: int) -> tuple[list[_Hit], str | None]:
    """Some matches, and the key after which the next page begins; None when there is none."""
    found: list[_Hit] = []
    budget, after = PageBudget(), walk.after
    for one in walk.matches(query):
        if isinstance(one, _Hit):
            assert one.entity is not None  # the last level reads what it tells
            if len(found) == size or not budget.fits(size_of(one.key, one.entity)):
                return found, after
            found.append(one)
        elif walk.looks >= LOOKS:
            return found, one.key
        after = one.key
    return found, None


class _Walk:
    """One page's way through one tree."""

    def __init__(self, reader: CatalogReader, properties: TableProperties | None, start: Start) -> None:
        self._store, self._watch, self._properties = reader.store, reader.authorizer, properties
        self._tree, self._present, self.after = start.moment.tree, start.moment.present, start.after
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
        judged = [(child, entity, self._holds(step, whole(entity))) for child, entity in seen]
        undecided = [(child, entity) for child, entity, held in judged if held is None]
        known = self._known(undecided)
        return [
            _Hit(child[0], entity)
            for child, entity, held in judged
            if (held if held is not None else self._holds(step, whole(entity, known.get(child[1].table_id, {}))))
        ]

    def _holds(self, step: Step, subject: Candidate) -> bool | None:
        self.looks += characters(subject) // LOOK_CHARACTERS
        return holds(step.where, subject)

    def _known(self, undecided: list[tuple[Child, Entity]]) -> dict[str, Mapping[str, str]]:
        """Properties of Delta tables that the predicate asks for, by uuid."""
        if self._properties is None and undecided:
            key = undecided[0][0][0]
            raise InvalidRequest(
                f"the query asks for properties of Delta table '{dotted(self._tree.catalog, *path_of(key))}', which the "
                "catalog's past does not hold",
                field="query",
                remedy='as of a moment, ask Delta tables for their attributes only, or leave them out: format != "delta"',
            )
        return {} if self._properties is None else self._properties.of(self._tree.catalog, [c[1] for c, _ in undecided])

    def _visible(self, batch: Sequence[Child], entities: dict[str, Entity]) -> Iterable[Child]:
        """Those that whoever asks may see, by the rights of the present tree (I12)."""
        if self._watch is None:
            yield from batch
            return
        for parent, group in groupby(batch, key=lambda child: path_of(child[0])[:-1]):
            some = list(group)
            seen = self._watch.visible(self._present, parent, [entities[entry.obj] for _, entry in some])
            yield from (child for child, visible in zip(some, seen, strict=True) if visible)

    def named(self, hits: Sequence[_Hit]) -> Iterator[Match]:
        """The matches with their names as they were written: their namespaces' are read together."""
        above = {path_of(hit.key)[:depth] for hit in hits for depth in range(1, len(path_of(hit.key)))}
        entries = {key_of(path): self._tree.namespace(path) for path in above}
        entities = self._store.entities(self._tree.catalog, [entry.obj for entry in entries.values()])
        written = {key: entities[entry.obj].name for key, entry in entries.items()}
        for hit in hits:
            path = path_of(hit.key)
            levels = [written[key_of(path[:depth])] for depth in range(1, len(path))]
            assert hit.entity is not None  # the last level reads what it tells
            yield Match((*levels, hit.entity.name), hit.entity)
