"""What a change of a catalog is made of. The functions that make changes have no side effects: they are run as often
as the swap of the HEAD needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from turnstile.access.core.grants import Access
from turnstile.catalog.core.entities import Entity, Namespace
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.paths import Path
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.store import CatalogStore
from turnstile.store.core.writes import Row, Write

MAX_ROWS: Final = 98
"""How many ``writes`` an edit has at most: a transaction of DynamoDB holds a hundred rows, of which one is the catalog's and
one may remember a request that carries a key (``once``)."""


class Edit(msgspec.Struct, frozen=True):
    """A change computed from one tree.

    Attributes:
        message: one line for the history.
        put: entities by full name, new or in place of others.
        remove: full names that lead nowhere afterwards (applied after ``put``).
        writes: rows that change in the same transaction as the HEAD, or not at all.
        access: the catalog's own rights from now on; None keeps them.
        entries: index entries by key, of entities that are there already: they are given a name, not written.
        restores: whether it brings in what the tree that is changed may not lead to.
        replaced: when the tree of the past that is brought in was replaced (ms), if only that it is not long ago keeps gc
            from it: the change is refused once gc has swept what was replaced then.
        more: whether the same request goes on with another change after this one.
    """

    message: str
    put: Mapping[Path, Entity] = {}
    remove: tuple[Path, ...] = ()
    writes: tuple[Write, ...] = ()
    access: Access | None = None
    entries: Mapping[str, IndexEntry] = {}
    restores: bool = False
    replaced: int | None = None
    more: bool = False


class View:
    """What a change function may look at: the tree it would change, and the entities the tree leads to."""

    def __init__(self, tree: Tree, store: CatalogStore) -> None:
        self.tree, self._store = tree, store

    def entity(self, obj: str) -> Entity:
        """An entity by obj id; cached, so a further attempt asks only for what has changed."""
        return self._store.entity(self.tree.catalog, obj)

    def entities(self, objs: Sequence[str]) -> dict[str, Entity]:
        """Many, a hundred a request."""
        return self._store.entities(self.tree.catalog, objs)

    def written(self, namespace: Path) -> Path:
        """The levels of an existing namespace as they were written when they were created."""
        levels = [self.tree.namespace(namespace[: end + 1]).obj for end in range(len(namespace))]
        found = self.entities(levels)
        return tuple(entity.name for entity in (found[obj] for obj in levels) if isinstance(entity, Namespace))


ChangeFunction = Callable[[View], Edit | None]
"""Raises what refuses the change, returns None when nothing needs changing. Called again with a newer tree when
somebody else changed the catalog meanwhile: only what really conflicts is refused."""

Judge = Callable[[Mapping[int, Row | None]], None]
"""Told which of ``Edit.writes`` failed and on which rows; raises the operation's error, or returns to try again."""
