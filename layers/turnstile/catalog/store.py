"""The objs of catalog trees: commits, index segments and entities, read through caches that never
need invalidation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from turnstile.catalog.changes.waiting import ChangeQueue
from turnstile.catalog.core.branches import OWN, BranchTables, no_own_log
from turnstile.catalog.core.entities import Entity, decode, encode, kind_of
from turnstile.catalog.core.index import Index, unpack
from turnstile.catalog.core.paths import Path
from turnstile.catalog.core.tree import CatalogCommit, Tree, decode_commit, encode_commit
from turnstile.store.cache import Lru
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.limits import SpillLimits
from turnstile.store.core.names import is_branch, is_commit_id
from turnstile.store.core.rows import COMMIT, ENTITY_PREFIX, SEGMENT
from turnstile.store.ports import Obj, World

_TREES_BYTES: Final = 32 * 1024 * 1024
_SEGMENTS_BYTES: Final = 64 * 1024 * 1024
_ENTITIES_BYTES: Final = 16 * 1024 * 1024
_DECODED: Final = 8  # a decoded index takes several times its packed size


@dataclass(frozen=True, slots=True)
class _Draft:
    """A commit that is about to be written."""

    tree: Tree
    entities: Mapping[str, Entity]
    segments: Mapping[str, Index]


class CatalogStore:
    """Reads and writes the objs of catalogs. One per sandbox; safe for threads. In ``queue`` the
    changes of this sandbox wait for each other. Objs that a group of them is about to write are
    read as if they were stored (``show``). ``branch_tables`` gives tables of branches HEADs of
    their own; None where none can be given. Look-ups raise TurnstileError for an obj that is
    missing, which I9 excludes unless tables were restored apart from each other; ``find_*`` return
    None.
    """

    def __init__(
        self, world: World, limits: SpillLimits | None = None, branch_tables: BranchTables | None = None
    ) -> None:
        self.limits = limits or SpillLimits()
        self.branch_tables = branch_tables
        self.queue = ChangeQueue()
        self._objs = world.objs
        self._space = world.space
        self._ids = world.ids
        self._clock = world.clock
        self._trees: Lru[tuple[str, str], Tree] = Lru(_TREES_BYTES)
        self._segments: Lru[tuple[str, str], Index] = Lru(_SEGMENTS_BYTES)
        self._entities: Lru[tuple[str, str], Entity] = Lru(_ENTITIES_BYTES)
        self._drafts: dict[tuple[str, str], _Draft] = {}

    def new_commit_id(self) -> str:
        """Never used before, so HEADs never repeat (I9)."""
        return COMMIT.id(self._ids.obj_id())

    def new_entity_id(self, catalog: str) -> str:
        return ENTITY_PREFIX + self._ids.obj_id() + (OWN if is_branch(catalog) else "")

    def new_segment_id(self) -> str:
        return SEGMENT.id(self._ids.obj_id())

    def make_own(self, catalog: str, path: Path) -> Tree:
        """Returns the tree of a branch in which the Delta table ``path`` has a HEAD of its own.
        Raises UnsupportedTable where none can be given to it here."""
        if self.branch_tables is None:
            raise no_own_log(catalog, path)
        return self.branch_tables.make_own(catalog, path)

    def show(self, tree: Tree, entities: Mapping[str, Entity], segments: Mapping[str, Index]) -> None:
        """Shows a commit that is about to be written to readers of its tree, until ``hide``: its
        ids are new, so no other reader asks for them."""
        folded = tree.catalog.casefold()
        self._drafts[folded, tree.head] = _Draft(tree, entities, segments)
        self._drafts.update({(folded, id): self._drafts[folded, tree.head] for id in (*entities, *segments)})

    def hide(self, trees: Sequence[Tree]) -> None:
        """Ends ``show``: unwritten objs are gone."""
        for tree in trees:
            folded = tree.catalog.casefold()
            draft = self._drafts.pop((folded, tree.head), None)
            for id in (*draft.entities, *draft.segments) if draft is not None else ():
                self._drafts.pop((folded, id), None)

    def cached_tree(self, catalog: str, head: str) -> Tree | None:
        """Returns the tree at ``head`` if it is cached: no request."""
        tree = self._trees.get((catalog.casefold(), head))
        draft = self._drafts.get((catalog.casefold(), head)) if tree is None else None
        return tree if draft is None else draft.tree

    def tree(self, catalog: str, head: str, segment: str = "") -> Tree:
        """Returns the tree at ``head``: at most one request, none when cached. In the same request
        ``segment`` is read, which will be needed next."""
        tree = self.cached_tree(catalog, head)
        if tree is None and segment and self.peek(catalog, segment) is None:
            objs = self._objs.get_many(self._space.objs(catalog), [head, segment])
            if segment in objs:
                self._cache_segment(catalog, segment, objs[segment].decode_with(unpack))
            tree = self._cache_tree(catalog, objs[head]) if head in objs else None
        elif tree is None:
            tree = self.find_tree(catalog, head)
        if tree is None:
            raise TurnstileError(f"catalog commit {head} is missing", remedy="restore the objs table")
        return tree

    def find_tree(self, catalog: str, head: str) -> Tree | None:
        """Returns the tree at a HEAD that may be gone, or may never have been one: at most one
        request."""
        tree = self.cached_tree(catalog, head)
        obj = self._commit_obj(catalog, head) if tree is None else None
        return self._cache_tree(catalog, obj) if obj is not None else tree

    def find_commit(self, catalog: str, id: str) -> CatalogCommit | None:
        """Returns a commit that may be gone, or may never have been one, without its tree: at most
        one request."""
        tree = self.cached_tree(catalog, id)
        if tree is not None:
            return tree.commit
        obj = self._commit_obj(catalog, id)
        return obj.decode_with(decode_commit) if obj is not None else None

    def _commit_obj(self, catalog: str, id: str) -> Obj | None:
        obj = self._objs.get(self._space.objs(catalog), id) if is_commit_id(id) else None
        return obj if obj is not None and obj.type == COMMIT.name else None

    def segments(self, catalog: str) -> StoredSegments:
        return StoredSegments(self, catalog)

    def segment(self, catalog: str, id: str) -> Index:
        """Returns an index segment: at most one request, none when cached."""
        index = self.peek(catalog, id)
        if index is not None:
            return index
        obj = self._objs.get(self._space.objs(catalog), id)
        if obj is None:
            raise TurnstileError(f"catalog index segment {id} is missing", remedy="restore the objs table")
        return self._cache_segment(catalog, id, obj.decode_with(unpack))

    def peek(self, catalog: str, id: str) -> Index | None:
        """Returns the segment if it is cached: no request."""
        index = self._segments.get((catalog.casefold(), id))
        draft = self._drafts.get((catalog.casefold(), id)) if index is None else None
        return index if draft is None else draft.segments[id]

    def entities(self, catalog: str, ids: Sequence[str]) -> dict[str, Entity]:
        """Returns entities by id: one request for every hundred that are not cached."""
        folded = catalog.casefold()
        cached = {id: self._entities.get((folded, id)) for id in ids}
        entities = {id: entity for id, entity in cached.items() if entity is not None}
        if self._drafts:
            drafts = {id: self._drafts.get((folded, id)) for id in ids if id not in entities}
            entities.update({id: draft.entities[id] for id, draft in drafts.items() if draft is not None})
        missing = [id for id in ids if id not in entities]
        objs = self._objs.get_many(self._space.objs(catalog), missing) if missing else {}
        for id, obj in objs.items():
            entities[id] = obj.decode_with(decode)
            self._entities.put((folded, id), entities[id], len(obj.payload) * _DECODED)
        for id in missing:
            if id not in entities:
                raise TurnstileError(f"catalog entity {id} is missing", remedy="restore the objs table")
        return entities

    def entity(self, catalog: str, id: str) -> Entity:
        return self.entities(catalog, [id])[id]

    def write(
        self,
        catalog: str,
        commit_id: str,
        commit: CatalogCommit,
        entities: Mapping[str, Entity],
        segments: Mapping[str, Index] = MappingProxyType({}),
        *,
        before: Mapping[str, CatalogCommit] = MappingProxyType({}),
    ) -> None:
        """Makes a commit, its new entities and segments durable, before any HEAD names them (I9),
        and so the commits ``before`` it of the same swap. One batch. Raises TooLarge if an obj
        exceeds the limit of the port; nothing was written then.
        """
        space = self._space.objs(catalog)
        created = self._clock.now_ms() * 1000
        commits = {**before, commit_id: commit}
        objs = [Obj(space, id, COMMIT.name, encode_commit(each), created) for id, each in commits.items()]
        objs += [Obj(space, id, kind_of(entity), encode(entity), created) for id, entity in entities.items()]
        objs += [Obj(space, id, SEGMENT.name, index.packed_bytes, created) for id, index in segments.items()]
        self._objs.put_many(objs)
        for id, entity in entities.items():
            self._entities.put((catalog.casefold(), id), entity, 1024)
        for id, index in segments.items():
            self._cache_segment(catalog, id, index)

    def delete(self, catalog: str, id: str) -> None:
        """Deletes an obj of a lost attempt. It is unreferenced, and stays so."""
        self._objs.delete(self._space.objs(catalog), id)

    def adopt(self, tree: Tree) -> None:
        """Caches a tree that this sandbox has written."""
        self._cache(tree, len(tree.commit.embedded))

    def _cache_tree(self, catalog: str, obj: Obj) -> Tree:
        segments = self.segments(catalog)
        tree = obj.decode_with(lambda payload: Tree.of(catalog, obj.id, decode_commit(payload), segments))
        return self._cache(tree, len(obj.payload))

    def _cache(self, tree: Tree, size: int) -> Tree:
        self._trees.put((tree.catalog.casefold(), tree.head), tree, 1024 + size * _DECODED)
        return tree

    def _cache_segment(self, catalog: str, id: str, index: Index) -> Index:
        self._segments.put((catalog.casefold(), id), index, 1024 + len(index.packed_bytes) * _DECODED)
        return index


@dataclass(frozen=True, slots=True)
class StoredSegments:
    """``core.index.Segments`` of one catalog."""

    store: CatalogStore
    catalog: str

    def load(self, id: str) -> Index:
        return self.store.segment(self.catalog, id)

    def peek(self, id: str) -> Index | None:
        return self.store.peek(self.catalog, id)
