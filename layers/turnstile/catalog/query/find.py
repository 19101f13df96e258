"""Answers path queries over a catalog's tree: level by level from the root; entries that cannot
match are pruned before they are read.

    1  the names that a level can lead to follow from its predicate: only that part of the index is
       read
    2  name, kind and id are in the index: a predicate that they decide costs no request
    3  entities are read a hundred at a time, across parents, and only the entities that 2 left
       undecided
    4  a Delta table's properties are not in the tree: its HEAD and its metadata, a hundred at a
       time, if 3 left it undecided

Each page comes from the HEAD that the first one read, without entities that the request may not see
now. Only 4 reads the present: tables commit without their catalog. As of a moment of the past 4 is
refused, since the answer could be wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

import msgspec

from turnstile.catalog.core.entities import ICEBERG_KINDS, NAMESPACE, Entity, Table, id_of, kind_of
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.paths import (
    Path,
    below,
    child_key,
    dotted_name,
    fold,
    is_below,
    key_of,
    past_subtree,
    path_of,
)
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.history.reader import AsOfReader, TreeAsOf
from turnstile.catalog.listing import size_of
from turnstile.catalog.paging import page_size
from turnstile.catalog.query.core.parser import parse
from turnstile.catalog.query.core.query import TYPES, Candidate, Query, Step, Value, holds, to_text
from turnstile.catalog.query.core.reach import Reach, reach_of
from turnstile.catalog.reader import CatalogReader
from turnstile.delta.core.head import TableHead
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.undecided import as_readers_see
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.limits import PageBudget
from turnstile.store.ports import BATCH_GET_MAX, World, parse_rows

MAX_VISITS: Final = 10_000
"""A page ends when so many entries were visited, however few of them matched: a request has
seconds, not minutes."""

CHARACTERS_PER_VISIT: Final = 1_000
"""Text of an entry that counts as one visit more: it has to be read, and compared with every part
of the query."""


class Match(msgspec.Struct, frozen=True):
    """A match, with its full name as users wrote it, without the catalog."""

    path: Path
    entity: Entity


class MatchPage(msgspec.Struct, frozen=True):
    """A page of matches in the order of their names; it may be empty although there are more.
    ``next_token`` is None on the last one; ``versions`` are the versions of Delta tables by uuid,
    where they are known.
    """

    catalog: str
    head: str
    items: tuple[Match, ...]
    next_token: str | None
    versions: Mapping[str, int] = {}


class Finder:
    """Answers path queries. One per sandbox, or per request with an authorized reader; safe for
    threads."""

    def __init__(self, world: World, reader: CatalogReader, as_of_reader: AsOfReader, metadata: MetadataStore) -> None:
        self._reader = reader
        self._as_of_reader = as_of_reader
        self._properties = TableProperties(world, metadata)

    def find(
        self, query: str, *, as_of: AsOf | None = None, page_token: str | None = None, max_results: int | None = None
    ) -> MatchPage:
        """Returns a page of matches of ``query``, now or as of a moment.

        Raises:
            InvalidRequest: the query cannot be read; the token is damaged, expired or of another
                query; or the answer depends on facts that the catalog's past does not hold:
                properties of Delta tables.
            NotFound: no such catalog; no such moment.
        """
        parsed = parse(query)
        size = page_size(max_results)
        catalog = fold(parsed.catalog)
        spelling = to_text(msgspec.structs.replace(parsed, catalog=catalog))  # the same for all spellings of the query
        start = self._as_of_reader.page(catalog, "", token_kind_of(spelling), as_of, page_token)
        walk = _Walk(self._reader, self._properties if as_of is None else None, start.moment, start.after)
        hits, end = _page(walk, parsed, size)
        token = None if end is None else start.following(end)
        moment = start.moment
        return MatchPage(moment.tree.catalog, moment.tree.head, tuple(walk.with_names(hits)), token, moment.versions)


def token_kind_of(spelling: str) -> str:
    """Returns the member ``kind`` of the page tokens of a query."""
    return f"find/{hashlib.sha256(spelling.encode()).hexdigest()[:32]}"


def whole_answer(reader: CatalogReader, tree: Tree, query: Query, visits_max: int) -> tuple[dict[str, Entity], int]:
    """Returns all matches of ``query`` in ``tree``, by index key, with the number of entries that
    were visited. Only entities that the reader's principal may see by the rights of that tree.

    Raises InvalidRequest: more than ``visits_max`` entries would be visited; the answer depends on
    properties of Delta tables, which are not in the tree.
    """
    walk = _Walk(reader, None, TreeAsOf(tree, tree))
    hits: dict[str, Entity] = {}
    for event in walk.matches(query):
        if isinstance(event, _Hit):
            assert event.entity is not None  # the last level reads all entities
            hits[event.key] = event.entity
        if walk.visits > visits_max:
            remedy = "ask for less: name the namespaces, or give names a prefix"
            raise InvalidRequest(f"more than {visits_max} entries to visit", field="query", remedy=remedy)
    return hits, walk.visits


class _Hit(msgspec.Struct, frozen=True):
    """An entry that passed its level; with its entity if that had to be read."""

    key: str
    entity: Entity | None = None


class _Progress(msgspec.Struct, frozen=True):
    """Everything up to ``key``, with everything below it, was evaluated, and its hits came before
    this."""

    key: str


_Stream = Iterator[_Hit | _Progress]


def _page(walk: _Walk, query: Query, size: int) -> tuple[list[_Hit], str | None]:
    """Some hits, and the key after which the next page begins; None when there is none."""
    hits: list[_Hit] = []
    budget = PageBudget()
    after = walk.after
    for event in walk.matches(query):
        if isinstance(event, _Hit):
            assert event.entity is not None  # the last level reads all entities
            if len(hits) == size or not budget.fits(size_of(event.key, event.entity)):
                return hits, after
            hits.append(event)
        elif walk.visits >= MAX_VISITS:
            return hits, event.key
        after = event.key
    return hits, None


class _Walk:
    """One page's way through one tree."""

    def __init__(
        self, reader: CatalogReader, properties: TableProperties | None, moment: TreeAsOf, after: str = ""
    ) -> None:
        self._store = reader.store
        self._authorizer = reader.authorizer
        self._properties = properties
        self._tree = moment.tree
        self._present = moment.present
        self.after = after
        self.visits = 0

    def matches(self, query: Query) -> _Stream:
        """The matches of the whole query, in key order, and how far that is complete."""
        stream: _Stream = iter([_Hit("")])
        for depth, step in enumerate(query.steps, 1):
            stream = self._level(stream, step, last=depth == len(query.steps))
        return stream

    def _level(self, above: _Stream, step: Step, *, last: bool) -> _Stream:
        """The children of the hits of the level above that pass this one, evaluated a hundred at a
        time, across parents. A ``_Progress`` of the level above stays behind the children that came
        before it.
        """
        reach = reach_of(step)
        waiting: list[Child] = []
        for event in above:
            if isinstance(event, _Progress):
                yield from self._evaluate(waiting, step, last=last)
                waiting = []
                yield event
                continue
            for child in _children(self._tree, event.key, reach, self.after):
                waiting.append(child)
                if len(waiting) == BATCH_GET_MAX:
                    yield from self._evaluate(waiting, step, last=last)
                    waiting = []
        yield from self._evaluate(waiting, step, last=last)

    def _evaluate(self, batch: list[Child], step: Step, *, last: bool) -> _Stream:
        if not batch:
            return
        self.visits += len(batch)
        possible: list[tuple[Child, bool | None]] = []
        for key, entry in batch:
            held = holds(step.where, _indexed_candidate(path_of(key)[-1], entry))
            if held is not False and (last or entry.kind == NAMESPACE):
                possible.append(((key, entry), held))
        if last or self._authorizer is not None or any(held is None for _, held in possible):
            yield from self._read([child for child, _ in possible], step)
        else:
            yield from (_Hit(key) for (key, _), _ in possible)
        yield _Progress(batch[-1][0])

    def _read(self, batch: Sequence[Child], step: Step) -> list[_Hit]:
        """The children of a batch that pass, evaluated with everything that can be known of
        them."""
        entities = self._store.entities(self._tree.catalog, [entry.obj for _, entry in batch])
        visible = [(child, entities[child[1].obj]) for child in self._visible(batch, entities)]
        evaluated = [(child, entity, self._holds(step, entity)) for child, entity in visible]
        properties = self._read_properties([child for child, _, held in evaluated if held is None])
        return [
            _Hit(key, entity)
            for (key, entry), entity, held in evaluated
            if (held if held is not None else self._holds(step, entity, properties.get(entry.table_id, {})))
        ]

    def _holds(self, step: Step, entity: Entity, properties: Mapping[str, str] | None = None) -> bool | None:
        candidate = entity_candidate(entity, properties)
        self.visits += _text_size(candidate) // CHARACTERS_PER_VISIT
        return holds(step.where, candidate)

    def _read_properties(self, undecided: list[Child]) -> dict[str, Mapping[str, str]]:
        """Properties of the Delta tables with a predicate that depends on them, by uuid."""
        if not undecided:
            return {}
        if self._properties is None:
            table = dotted_name(self._tree.catalog, *path_of(undecided[0][0]))
            problem = f"the query asks for properties of Delta table '{table}', which the catalog's past does not hold"
            remedy = 'as of a moment, ask Delta tables for their attributes only, or leave them out: format != "delta"'
            raise InvalidRequest(problem, field="query", remedy=remedy)
        return self._properties.read(self._tree.catalog, [entry for _, entry in undecided])

    def _visible(self, batch: Sequence[Child], entities: dict[str, Entity]) -> Iterable[Child]:
        """The children that the request may see, by the rights of the present tree (I12)."""
        if self._authorizer is None:
            yield from batch
            return
        for parent, group in groupby(batch, key=lambda child: path_of(child[0])[:-1]):
            siblings = list(group)
            objs = [entities[entry.obj] for _, entry in siblings]
            visible = self._authorizer.visible(self._present, parent, objs)
            yield from (child for child, shown in zip(siblings, visible, strict=True) if shown)

    def with_names(self, hits: Sequence[_Hit]) -> Iterator[Match]:
        """The matches with their names as users wrote them; the names of their namespaces are read
        together."""
        above = {path_of(hit.key)[:depth] for hit in hits for depth in range(1, len(path_of(hit.key)))}
        entries = {key_of(path): self._tree.namespace(path) for path in above}
        entities = self._store.entities(self._tree.catalog, [entry.obj for entry in entries.values()])
        written = {key: entities[entry.obj].name for key, entry in entries.items()}
        for hit in hits:
            path = path_of(hit.key)
            levels = [written[key_of(path[:depth])] for depth in range(1, len(path))]
            assert hit.entity is not None  # the last level reads all entities
            yield Match((*levels, hit.entity.name), hit.entity)


Child = tuple[str, IndexEntry]
"""An index entry with its key."""


def _children(tree: Tree, parent: str, reach: Reach, after: str) -> Iterator[Child]:
    """Returns the direct children of the key ``parent`` whose names are in reach, in key order.
    Names out of reach are skipped with everything below them. Of an earlier page, which ended with
    the key ``after``, only its ancestors are shown.
    """
    first = _first_child(parent, after)
    if reach.only is not None:
        yield from _children_named(tree, parent, reach.only, first)
        return
    start, stop = below(parent)
    prefix = key_of((*path_of(parent), "")) if parent else ""
    at = max(start, prefix + reach.start, first)
    if reach.stop is not None:
        stop = min(prefix + reach.stop, stop) if stop is not None else prefix + reach.stop
    while (entry := next(tree.index.iterate(at, stop), None)) is not None:  # bounded: reads no segment beyond
        child = child_key(parent, entry[0])
        if child == entry[0]:
            yield entry
        at = past_subtree(child)


def _first_child(parent: str, after: str) -> str:
    """The first key among the children of ``parent`` that is not left out."""
    if not after or not is_below(after, parent):
        return ""
    child = child_key(parent, after)
    return past_subtree(after) if child == after else child


def _children_named(tree: Tree, parent: str, names: frozenset[str], first: str) -> Iterator[Child]:
    for name in sorted(names):
        path = (*path_of(parent), name)
        key = key_of(path)
        if not name or len(path_of(key)) != len(path) or key < first:  # a NUL in a name would lead to another level
            continue
        if (entry := tree.find(path)) is not None:
            yield key, entry


def _indexed_candidate(name: str, entry: IndexEntry) -> Candidate:
    """The facts of an entry from the index: no request. Names compare folded, so the key's last
    level is enough."""
    id: dict[str, Value] = {"id": entry.table_id} if entry.table_id else {}
    return Candidate(entry.kind, {"name": name, "kind": entry.kind, **id})


def entity_candidate(entity: Entity, properties: Mapping[str, str] | None = None) -> Candidate:
    """Returns the facts of an entity; ``properties`` are a Delta table's, once they were read."""
    kind = kind_of(entity)
    members: dict[str, Value | None] = {name: getattr(entity, name, None) for name in TYPES}
    members |= {"kind": kind, "id": id_of(entity), "updated": members["updated"] or None}
    if kind in ICEBERG_KINDS:
        members["format"] = "iceberg"
    attributes = {name: value for name, value in members.items() if value is not None}
    properties = _own_properties(entity) if properties is None else properties
    return Candidate(kind, attributes, whole=True, properties=properties)


def _own_properties(entity: Entity) -> Mapping[str, str] | None:
    """An entity's properties; None for a Delta table, which has them beside its HEAD."""
    if isinstance(entity, Table):
        return None if entity.external is None else entity.external.properties
    return getattr(entity, "properties", {})  # an Iceberg table's are in its metadata file, which is not read here


def _text_size(candidate: Candidate) -> int:
    """How many characters there are to compare with a query."""
    properties = candidate.properties or {}
    values = (*candidate.attributes.values(), *properties, *properties.values())
    return sum(len(value) for value in values if isinstance(value, str))


class TableProperties:
    """Reads properties of Delta tables, as their HEADs have them now."""

    def __init__(self, world: World, metadata: MetadataStore) -> None:
        self._world = world
        self._refs = world.refs
        self._space = world.space
        self._metadata = metadata

    def read(self, catalog: str, entries: Iterable[IndexEntry]) -> dict[str, Mapping[str, str]]:
        """Returns properties by table uuid: one request per hundred HEADs, and one per hundred objs
        of metadata that are not cached. Tables that are gone, or have damaged rows, are left
        out."""
        keys = [self._space.table(entry.table_id) for entry in entries if entry.table_id]
        if not keys:
            return {}
        rows = self._refs.read_many(keys)
        found = parse_rows(TableHead, rows.values(), [])
        heads = list(as_readers_see(self._world, {head.key: head for head in found}).values())
        stored = self._metadata.get_many(catalog, {head.metadata for head in heads})
        return {
            head.table_id: {**metadata.beside.properties, **(metadata.metadata.get("configuration") or {})}
            for head in heads
            if (metadata := stored.get(head.metadata)) is not None
        }
