"""The names that a promotion needs a right to change. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from turnstile.branches.core.differences import Difference, Kind
from turnstile.catalog.core.entities import NAMESPACE, TABLE
from turnstile.catalog.core.paths import Path


class AskedName(msgspec.Struct, frozen=True):
    """A name that a promotion changes, with the kind of its entity.

    A change of an entity needs the right on it. A new entity under the name, or none, needs the
    right on the level above, since a new entity has no rights yet.
    """

    path: Path
    of: str
    change: Kind

    @property
    def chain(self) -> tuple[Path, str]:
        """The namespace and the table with which the chain of rights ends; no table: empty."""
        if self.change == "changed" and self.of == NAMESPACE:
            return self.path, ""
        return self.path[:-1], self.path[-1] if self.change == "changed" else ""


def asked_names(tables: Iterable[Path], names: Iterable[Difference]) -> Iterator[AskedName]:
    """Yields the names of a promotion that commits to ``tables`` and changes ``names``."""
    for path in tables:
        yield AskedName(path, TABLE, "changed")
    for each in names:
        if each.source is not None:
            yield AskedName(each.source, each.of, "dropped")
        yield AskedName(each.path, each.of, "created" if each.source is not None else each.kind)
