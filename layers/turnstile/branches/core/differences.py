"""The differences between the names of a branch and those of its base. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def renamed_tables(found: Iterable[Difference], sources: Mapping[Difference, str]) -> dict[Difference, Difference]:
    """Returns the drops that are one half of a rename, with the rename: a table that the base had
    under a name that is free on the branch, and that the branch has under a name that was free.

    Args:
        sources: tables of the branch, with the uuid of the catalog's table of each.
    """
    new = {source: each for each, source in sources.items() if each.before is None}
    return {
        each: Difference(made.path, each.before, made.after, each.path)
        for each in found
        if each.after is None and each.before is not None and (made := new.get(each.before.table_id)) is not None
    }


def _entries(tree: Tree) -> Mapping[str, IndexEntry]:
    kinds = (NAMESPACE, TABLE, *ICEBERG_KINDS)
    return {key: entry for key, entry in tree.subtree(()) if entry.kind in kinds}
