"""What a clone consists of: its parts, the refusals that are known before anything is written, and the interface by which
each kind of table is copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from turnstile.access.core.grants import Access
from turnstile.catalog.clone.core import check_apart, needs_of
from turnstile.catalog.commit import MAX_ROWS, View
from turnstile.catalog.core.entities import NAMESPACE, Entity, Namespace, Table
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.location_rows import MAX_CLONES, HeldLocation, Location
from turnstile.catalog.core.paths import MAX_LEVELS, Path, check_path, dotted, key_of, path_of
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.namespaces import require_free
from turnstile.store.core.errors import InvalidRequest, NotFound, StateConflict, TooLarge, UnsupportedTable
from turnstile.store.core.writes import Write
from turnstile.store.ports import World

MAX_NAMESPACES: Final = 1_000
"""Namespaces of one clone; each is an obj to write."""


class PastVersions(msgspec.Struct, frozen=True):
    """The moment that is cloned: its time, and the versions of Delta tables that were recorded then, by uuid."""

    time_ms: int
    versions: Mapping[str, int] = {}


class CopyRequest(msgspec.Struct, frozen=True):
    """A table or a view to copy.

    Attributes:
        name: its full name, for messages.
        catalog: as the user wrote it.
        to: its new full name without the catalog, as it will be written.
        access: owner and grants of the copy.
        now_ms: the time of creation.
    """

    source: Entity
    name: str
    catalog: str
    to: Path
    access: Access
    now_ms: int


class Copy(msgspec.Struct, frozen=True):
    """A copy: its entity, its uuid, the writes that belong to the transaction of the swap, and for a Delta table the version
    that it shows."""

    entity: Entity
    table_id: str
    writes: tuple[Write, ...]
    version: int | None = None


class Copier(Protocol):
    """Copies tables of one kind for one request. Called again with every attempt; what an earlier attempt stored for the
    same source is used again."""

    rows: int
    """Rows of the transaction that a copy takes, without those that hold locations."""

    def prefetch(self, sources: Sequence[Entity]) -> None:
        """Read together what the copies of ``sources`` will need of the store."""

    def copy(self, request: CopyRequest, past: PastVersions | None) -> Copy:
        """Returns the copy of a table. Everything that it needs is stored; nothing names it yet.

        Args:
            past: None for the table as it is now.

        Raises:
            StateConflict: ``CannotClone``, ``TableNotActive``.
        """

    def discard(self) -> None:
        """Remove what was stored for copies that were certainly not created. Never raises."""


class Part(msgspec.Struct, frozen=True):
    """One name that is cloned.

    Attributes:
        name: its full name, for messages.
        kind: of the entity.
        source: the entity; for the catalog itself an empty namespace.
        to: the new full name without the catalog, as it will be written.
        needs: the locations of its files.
    """

    name: str
    kind: str
    source: Entity
    to: Path
    needs: tuple[HeldLocation, ...] = ()


def parts_of(view: View, tree: Tree, source: Path, to: Path) -> list[Part]:
    """Returns everything that a clone of ``source`` in ``tree`` shows, parents first.

    Args:
        view: the present tree, where the clone goes.

    Raises:
        InvalidRequest: ``to`` is part of ``source``, something would be too deep, or a table would have no namespace.
        NotFound: no such source, or no such namespace to clone into.
        AlreadyExists: ``to`` is taken.
        UnsupportedTable: a table is registered only.
        TooLarge: too many namespaces.
    """
    entry = tree.find(source) if source else None
    if source and entry is None:
        what = "table" if tree.find(source[:-1]) is not None else "namespace"
        raise NotFound(what, dotted(tree.catalog, *source), field="from", remedy="check the name, and the moment")
    outermost = {key for either in (tree, view.tree) for key, _ in either.children((), NAMESPACE)}
    check_apart(tree.catalog, source, to, outermost)
    if len(to) == 1 and entry is not None and entry.kind != NAMESPACE:
        raise InvalidRequest(
            f"'{dotted(tree.catalog, *source)}' is a table, and a table is in a namespace",
            field="to",
            remedy=f"name one before it: ns.{to[0]}",
        )
    if len(to) > 1:
        view.tree.parent(to[:-1], "to")
    require_free(view, to, "to")
    cloned = _subtree(tree, source, entry)
    _check_depth(cloned, source, to)
    check_size("namespaces", sum(child.kind == NAMESPACE for _, child in cloned), MAX_NAMESPACES)
    entities = view.entities([child.obj for _, child in cloned])
    names = {key_of(source): (*view.written(to[:-1]), to[-1])}
    parts = [] if source else [Part(tree.catalog, NAMESPACE, Namespace(to[-1], "", 0), names[""])]
    for key, child in cloned:
        entity, path = entities[child.obj], path_of(key)
        name = names.get(key) or (*names[key_of(path[:-1])], str(getattr(entity, "name", path[-1])))
        names[key] = name
        if isinstance(entity, Table) and entity.external is not None:
            raise UnsupportedTable(
                f"table '{dotted(tree.catalog, *path)}' is external: its versions are not known here",
                field="from",
                remedy="clone what is beside it, or let its engine copy it",
            )
        parts.append(Part(dotted(tree.catalog, *path), child.kind, entity, name, needs_of(entity)))
    return parts


def check_held(world: World, parts: Sequence[Part]) -> None:
    """Check that all locations that ``parts`` need still hold their files, and have room for another clone. One request per
    hundred locations.

    Raises:
        StateConflict: ``CannotClone``: what lies there belongs to another table by now, or is being removed.
        TooLarge: a location has too many clones.
    """
    names = {held: part.name for part in parts for held in part.needs}
    keys = [world.space.location(held.location) for held in names]
    owners = world.refs.read_many(keys)
    for (held, name), key in zip(names.items(), keys, strict=True):
        owner = Location.from_row(owners[key]) if key in owners else None
        if owner is None or not owner.keeps(held):
            raise StateConflict(
                "CannotClone",
                f"the files of '{name}' are gone or being removed",
                field="from",
                remedy="clone what is beside it, or another moment",
            )
        check_size(f"clones of '{name}'", len(owner.clones) + 1, MAX_CLONES)


def check_rows(parts: Sequence[Part], rows: Mapping[str, int]) -> None:
    """Check that one transaction holds the clone. Raises TooLarge.

    ``rows`` is what a table of a kind takes beside the rows of locations, which tables share: with its location two for a
    Delta table, three or more for an Iceberg table, two for a view.
    """
    held = {location for part in parts for location in part.needs}
    check_size("rows of one transaction", len(held) + sum(rows.get(part.kind, 0) for part in parts), MAX_ROWS)


def check_size(what: str, size: int, limit: int) -> None:
    """Raises TooLarge beyond ``limit``."""
    if size > limit:
        raise TooLarge(
            f"the clone would take {size} {what}",
            field="from",
            remedy="clone a part at a time: namespaces or tables below it",
            limit=limit,
            size=size,
        )


def _subtree(tree: Tree, source: Path, entry: IndexEntry | None) -> list[tuple[str, IndexEntry]]:
    """The entries that are cloned, in key order: a parent before its children."""
    below = list(tree.subtree(source)) if entry is None or entry.kind == NAMESPACE else []
    return below if entry is None else [(key_of(source), entry), *below]


def _check_depth(cloned: Sequence[tuple[str, IndexEntry]], source: Path, to: Path) -> None:
    """Raises InvalidRequest when a namespace would be too deep."""
    deepest = max((len(path_of(key)) for key, entry in cloned if entry.kind == NAMESPACE), default=len(source))
    deeper = deepest - len(source)
    if len(to) + deeper > MAX_LEVELS:
        check_path((*to, *("x",) * deeper), "to")
