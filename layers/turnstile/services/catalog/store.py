"""The objs of catalog trees: commits and entities, read through caches that never need invalidation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from turnstile.core.entities import Entity, decode, encode, kind_of
from turnstile.core.errors import TooLarge, TurnstileError
from turnstile.core.tree import CatalogCommit, Tree, decode_commit, encode_commit
from turnstile.ports import Obj
from turnstile.services.catalog.lru import Lru
from turnstile.world import World

OBJ_BUDGET: Final = 350_000
"""Bytes of one obj: DynamoDB's 400 kB less keys and attributes, as Polaris has it."""

_TREES_BYTES: Final = 64 * 1024 * 1024
_ENTITIES_BYTES: Final = 16 * 1024 * 1024
_DECODED: Final = 8  # a decoded index takes several times its packed size
_BATCH: Final = 100  # what one request of the port takes


class CatalogStore:
    """Reads and writes commit and entity objs. One per sandbox; safe for threads."""

    def __init__(self, world: World) -> None:
        self._objs, self._space, self._ids, self._clock = world.objs, world.space, world.ids, world.clock
        self._trees: Lru[tuple[str, str], Tree] = Lru(_TREES_BYTES)
        self._entities: Lru[tuple[str, str], Entity] = Lru(_ENTITIES_BYTES)

    def new_commit_id(self) -> str:
        """A fresh id for a commit obj; never used before, so HEADs never repeat (I9)."""
        return f"commit/{self._ids.obj_id()}"

    def new_entity_id(self) -> str:
        """A fresh id for an entity obj."""
        return f"entity/{self._ids.obj_id()}"

    def cached_tree(self, catalog: str, head: str) -> Tree | None:
        """The tree at ``head`` if this sandbox has it: no request."""
        return self._trees.get((catalog.casefold(), head))

    def tree(self, catalog: str, head: str) -> Tree:
        """The tree at ``head``: at most one request, none when cached.

        Raises:
            TurnstileError: the obj is missing, which I9 excludes unless tables were restored apart from each other.
        """
        known = self.cached_tree(catalog, head)
        if known is not None:
            return known
        found = self.find_tree(catalog, head)
        if found is None:
            raise TurnstileError(f"catalog commit {head} is missing", remedy="restore the objs table")
        return found

    def find_tree(self, catalog: str, head: str) -> Tree | None:
        """The tree at a HEAD that may be gone (paging, time travel): at most one request."""
        known = self.cached_tree(catalog, head)
        if known is not None:
            return known
        obj = self._objs.get(self._space.objs(catalog), head)
        if obj is None or obj.type != "commit":
            return None
        return self._remember(Tree.of(catalog, head, decode_commit(obj.payload)), len(obj.payload))

    def entities(self, catalog: str, ids: Sequence[str]) -> dict[str, Entity]:
        """Entities by id: one request per hundred that are not cached."""
        fold = catalog.casefold()
        found: dict[str, Entity] = {}
        missing: list[str] = []
        for id in ids:
            known = self._entities.get((fold, id))
            if known is None:
                missing.append(id)
            else:
                found[id] = known
        for at in range(0, len(missing), _BATCH):
            wanted = missing[at : at + _BATCH]
            for id, obj in self._objs.get_many(self._space.objs(catalog), wanted).items():
                found[id] = decode(obj.payload)
                self._entities.put((fold, id), found[id], len(obj.payload) * _DECODED)
        for id in missing:
            if id not in found:
                raise TurnstileError(f"catalog entity {id} is missing", remedy="restore the objs table")
        return found

    def entity(self, catalog: str, id: str) -> Entity:
        """One entity: at most one request."""
        return self.entities(catalog, [id])[id]

    def write(self, catalog: str, commit_id: str, commit: CatalogCommit, entities: Mapping[str, Entity]) -> None:
        """Make a commit and its new entities durable, before any HEAD names them (I9). One batch.

        Raises:
            TooLarge: an obj over ``OBJ_BUDGET``; nothing was written.
        """
        space, created = self._space.objs(catalog), self._clock.now_ms() * 1000
        objs = [Obj(space, commit_id, "commit", encode_commit(commit), created)]
        objs += [Obj(space, id, kind_of(entity), encode(entity), created) for id, entity in entities.items()]
        for obj in objs:
            if len(obj.payload) > OBJ_BUDGET:
                raise TooLarge(
                    f"a catalog {obj.type} of {len(obj.payload)} bytes is over the limit",
                    remedy="use another catalog" if obj.type == "commit" else "shorten its comment or properties",
                    limit=OBJ_BUDGET,
                    size=len(obj.payload),
                )
        self._objs.put_many(objs)
        for id, entity in entities.items():
            self._entities.put((catalog.casefold(), id), entity, 1024)

    def adopt(self, tree: Tree) -> None:
        """Cache a tree that this sandbox made itself."""
        self._remember(tree, len(tree.commit.embedded))

    def delete(self, catalog: str, id: str) -> None:
        """Remove an obj of a lost attempt, which nothing names and nothing will."""
        self._objs.delete(self._space.objs(catalog), id)

    def _remember(self, tree: Tree, size: int) -> Tree:
        self._trees.put((tree.catalog.casefold(), tree.head), tree, 1024 + size * _DECODED)
        return tree
