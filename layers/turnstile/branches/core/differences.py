"""The differences between the names of a branch and those of its base. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from turnstile.catalog.core.entities import ICEBERG_KINDS, NAMESPACE, TABLE
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.paths import Path, path_of
from turnstile.catalog.core.tree import Tree

Kind = Literal["created", "changed", "replaced", "renamed", "dropped"]


class Difference(msgspec.Struct, frozen=True):
    """A name that leads to something else on the branch than in its base; ``before`` and ``after``
    are the entries there, None for none. A Delta table that the branch renamed has one difference,
    with its name in the base as ``source``."""

    path: Path
    before: IndexEntry | None
    after: IndexEntry | None
    source: Path | None = None

    @property
    def kind(self) -> Kind:
        """Whether the branch created, changed or dropped the name, gave it to another table, or
        renamed its table."""
        if self.source is not None:
            return "renamed"
        if self.before is None:
            return "created"
        if self.after is None:
            return "dropped"
        return "replaced" if self.after.table_id != self.before.table_id else "changed"

    @property
    def lost_path(self) -> Path | None:
        """The name that leads to nothing on the branch; None for none."""
        return self.source or (self.path if self.after is None else None)

    @property
    def of(self) -> str:
        """The kind of the entity."""
        entry = self.after or self.before
        assert entry is not None
        return entry.kind


def differences(base: Tree, branch: Tree) -> list[Difference]:
    """Returns the names with other entries on the branch, parents first. An entity of another kind
    under a name is a dropped one and a created one."""
    before = _entries(base)
    after = _entries(branch)
    found: list[Difference] = []
    for key in sorted(before.keys() | after.keys()):
        old = before.get(key)
        new = after.get(key)
        if old == new:
            continue
        path = path_of(key)
        if old is not None and new is not None and old.kind != new.kind:
            found += [Difference(path, old, None), Difference(path, None, new)]
        else:
            found.append(Difference(path, old, new))
    return found


def with_renames(found: Sequence[Difference], sources: Mapping[IndexEntry, str]) -> Iterator[Difference]:
    """Yields the differences with each rename as one: of a table that the base has under a name
    which is free on the branch, and the branch under a name which is free in the base.

    Args:
        sources: the uuid of the catalog's table for entries of the branch.
    """
    lost = {each.before.table_id: each for each in found if each.before is not None and each.after is None}
    pairs = {
        each: old
        for each in found
        if each.before is None and each.after is not None and (old := lost.get(sources.get(each.after, ""))) is not None
    }
    halves = set(pairs.values())
    for each in found:
        if (old := pairs.get(each)) is not None:
            yield Difference(each.path, old.before, each.after, old.path)
        elif each not in halves:
            yield each


def _entries(tree: Tree) -> Mapping[str, IndexEntry]:
    kinds = (NAMESPACE, TABLE, *ICEBERG_KINDS)
    return {key: entry for key, entry in tree.subtree(()) if entry.kind in kinds}
