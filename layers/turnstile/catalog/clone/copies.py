"""What a clone is made of: how each kind of table is copied, behind one interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from turnstile.access.core.grants import Access
from turnstile.catalog.change import MAX_ROWS, View
from turnstile.catalog.clone.core import check_apart, needs_of
from turnstile.catalog.core.entities import NAMESPACE, Entity, Namespace, Table
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.location_rows import MAX_CLONES, Held, Location
from turnstile.catalog.core.paths import Path, dotted, key_of, path_of
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.namespaces import MAX_LEVELS, check_path, require_free
from turnstile.store.core.errors import InvalidRequest, NotFound, StateConflict, TooLarge, UnsupportedTable
from turnstile.store.core.writes import Write
from turnstile.store.ports import World


class Past(msgspec.Struct, frozen=True):
    """The moment that is cloned: its time (ms), and versions of Delta tables that are known, by uuid."""

    time: int
    versions: Mapping[str, int] = {}


class Wanted(msgspec.Struct, frozen=True):
    """A table or a view to be copied.

    Attributes:
        source: what it is.
        was: its full name, for messages.
        catalog: as written.
        to: its new full name without the catalog, as it will be written.
        access: whose the copy is.
        now: when it is made (ms).
    """

    source: Entity
    was: str
    catalog: str
    to: Path
    access: Access
    now: int


class Copy(msgspec.Struct, frozen=True):
    """A copy: its entity, its uuid, rows that are written in the transaction of the swap, and the version it shows if it is
    a Delta table."""

    entity: Entity
    table_id: str
    writes: tuple[Write, ...]
    version: int | None = None


class Copier(Protocol):
    """Copies tables of one kind for one request. Asked again with every attempt; what an earlier attempt made of the same
    source is used again."""

    rows: int
    """Rows of the transaction that a copy takes, those that hold locations apart."""

    def look(self, sources: Sequence[Entity]) -> None:
        """Read together what the copies of ``sources`` will need of the store."""

    def copy(self, wanted: Wanted, past: Past | None) -> Copy:
        """The copy of a table: everything it needs is stored, nothing names it.

        Args:
            past: None for the table as it is now.

        Raises:
            StateConflict: ``CannotClone``, ``TableNotActive``.
        """

    def forget(self) -> None:
        """Remove what was stored for copies that were certainly not made. Never raises."""


# -- clone plan -------------------------------------------------------------------------------------------------------
# What a clone will consist of, and every refusal that can be known before anything is written.


MAX_NAMESPACES: Final = 1_000
"""Namespaces of one clone; each is an obj to write."""


class Part(msgspec.Struct, frozen=True):
    """One name that is cloned.

    Attributes:
        was: its full name, for messages.
        kind: of the entity.
        source: the entity; for the catalog itself an empty namespace.
        to: the new full name without the catalog, as it will be written.
        needs: where its files lie.
    """

    was: str
    kind: str
    source: Entity
    to: Path
    needs: tuple[Held, ...] = ()


def parts_of(view: View, tree: Tree, source: Path, to: Path) -> list[Part]:
    """Everything that a clone of ``source`` in ``tree`` shows, parents first.

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
    outermost = {key for one in (tree, view.tree) for key, _ in one.children((), NAMESPACE)}
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
    found = _found(tree, source, entry)
    _check_deep(found, source, to)
    check_size("namespaces", sum(one.kind == NAMESPACE for _, one in found), MAX_NAMESPACES)
    entities = view.entities([one.obj for _, one in found])
    written = {key_of(source): (*view.written(to[:-1]), to[-1])}
    parts = [] if source else [Part(tree.catalog, NAMESPACE, Namespace(to[-1], "", 0), written[""])]
    for key, one in found:
        entity, path = entities[one.obj], path_of(key)
        name = written.get(key) or (*written[key_of(path[:-1])], str(getattr(entity, "name", path[-1])))
        written[key] = name
        if isinstance(entity, Table) and entity.external is not None:
            raise UnsupportedTable(
                f"table '{dotted(tree.catalog, *path)}' is external: its versions are not known here",
                field="from",
                remedy="clone what is beside it, or let its engine copy it",
            )
        parts.append(Part(dotted(tree.catalog, *path), one.kind, entity, name, needs_of(entity)))
    return parts


def check_held(world: World, parts: Sequence[Part]) -> None:
    """Whether everything that ``parts`` need is there, and has room for another clone. One request per hundred locations.

    Raises:
        StateConflict: ``CannotClone``: what lies there is another's by now, or is being removed.
        TooLarge: a location has too many clones.
    """
    names = {held: part.was for part in parts for held in part.needs}
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
    """Whether one transaction holds the clone; ``rows`` says what a table of a kind takes beside the rows of locations, which
    tables share: with its own two for a Delta table, three or more for an Iceberg table, two for a view. Raises TooLarge."""
    held = {one for part in parts for one in part.needs}
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


def _found(tree: Tree, source: Path, entry: IndexEntry | None) -> list[tuple[str, IndexEntry]]:
    """What is cloned, in key order: a parent before its children."""
    below = list(tree.subtree(source)) if entry is None or entry.kind == NAMESPACE else []
    return below if entry is None else [(key_of(source), entry), *below]


def _check_deep(found: Sequence[tuple[str, IndexEntry]], source: Path, to: Path) -> None:
    """Raises InvalidRequest when a namespace would be too deep."""
    deeper = max((len(path_of(key)) for key, one in found if one.kind == NAMESPACE), default=len(source)) - len(source)
    if len(to) + deeper > MAX_LEVELS:
        check_path((*to, *("x",) * deeper), "to")
