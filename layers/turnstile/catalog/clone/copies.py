"""The parts of a clone, the refusals that are known before anything is written, and how each kind
of table is copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from turnstile.catalog.changes.waiting import MAX_ROWS
from turnstile.catalog.clone.core import cannot_clone, check_apart, needs_of
from turnstile.catalog.core.entities import NAMESPACE, Entity, Namespace, Table, without_head
from turnstile.catalog.core.location_rows import MAX_CLONES, HeldLocation, Location
from turnstile.catalog.core.paths import Path, check_path, dotted_name, key_of, path_of
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.namespaces import require_free
from turnstile.catalog.reader import View
from turnstile.rights.grants import Access
from turnstile.store.core.errors import InvalidRequest, NotFound, TooLarge, UnsupportedTable
from turnstile.store.core.writes import Write
from turnstile.store.ports import World

MAX_NAMESPACES: Final = 1_000
"""Namespaces of one clone; each is an obj to write."""


class PastVersions(msgspec.Struct, frozen=True):
    """The moment that is cloned: its time, and the versions of Delta tables that were recorded
    then, by uuid."""

    time_ms: int
    versions: Mapping[str, int] = {}


class CopyRequest(msgspec.Struct, frozen=True):
    """A table or a view to copy.

    Attributes:
        name: its full name, for messages.
        catalog: as the user wrote it.
        to: its new full name without the catalog, as it will be written.
        access, now_ms: of the copy.
    """

    source: Entity
    name: str
    catalog: str
    to: Path
    access: Access
    now_ms: int


class Copy(msgspec.Struct, frozen=True):
    """A copy, the writes that belong to the transaction of the swap, and for a Delta table the
    version that it shows."""

    entity: Entity
    table_id: str
    writes: tuple[Write, ...]
    version: int | None = None


class Copier(Protocol):
    """Copies tables of one kind for one request. Called again with every attempt; objs that an
    earlier attempt stored for the same source are used again."""

    rows: int
    """Rows of a copy in the transaction, without the rows of locations."""

    def prefetch(self, sources: Sequence[Entity]) -> None:
        """Reads together the rows and objs that the copies of ``sources`` will need."""

    def copy(self, request: CopyRequest, past: PastVersions | None) -> Copy:
        """Returns the copy of a table as of ``past``, or as it is now. Everything that it needs is
        stored; nothing names it yet. Raises StateConflict: ``CannotClone``, ``TableNotActive``."""

    def discard(self) -> None:
        """Removes the objs of copies that were certainly not created. Never raises."""


class Part(msgspec.Struct, frozen=True):
    """One name that is cloned.

    Attributes:
        name, to: as in ``CopyRequest``.
        source: the entity; for the catalog itself an empty namespace.
        needs: the locations of its files.
    """

    name: str
    kind: str
    source: Entity
    to: Path
    needs: tuple[HeldLocation, ...] = ()


def parts_of(view: View, tree: Tree, source: Path, to: Path) -> list[Part]:
    """Returns everything that a clone of ``source`` in ``tree`` shows, parents first. ``view``:
    where the clone goes.

    Raises:
        InvalidRequest: ``to`` is part of ``source``, something would be too deep, or a table would
            have no namespace.
        NotFound: no such source, or no such namespace to clone into.
        AlreadyExists: ``to`` is taken.
        UnsupportedTable: a table is registered only.
        TooLarge: too many namespaces.
    """
    entry = tree.find(source) if source else None
    if source and entry is None:
        what = "table" if tree.find(source[:-1]) is not None else "namespace"
        raise NotFound(what, dotted_name(tree.catalog, *source), field="from", remedy="check the name, and the moment")
    outermost = {key for either in (tree, view.tree) for key, _ in either.children((), NAMESPACE)}
    check_apart(tree.catalog, source, to, outermost)
    if len(to) == 1 and entry is not None and entry.kind != NAMESPACE:
        problem = f"'{dotted_name(tree.catalog, *source)}' is a table, and a table is in a namespace"
        raise InvalidRequest(problem, field="to", remedy=f"name one before it: ns.{to[0]}")
    if len(to) > 1:
        view.tree.parent(to[:-1], "to")
    require_free(view, to, "to")
    cloned = [] if entry is None else [(key_of(source), entry)]
    if entry is None or entry.kind == NAMESPACE:
        cloned += tree.subtree(source)  # in key order: a parent before its children
    deeper = max((len(path_of(key)) - len(source) for key, child in cloned if child.kind == NAMESPACE), default=0)
    check_path((*to, *("x",) * deeper), "to")
    check_size("namespaces", sum(child.kind == NAMESPACE for _, child in cloned), MAX_NAMESPACES)
    entities = view.entities([child.obj for _, child in cloned])
    names = {key_of(source): (*view.written_levels(to[:-1]), to[-1])}
    parts = [] if source else [Part(tree.catalog, NAMESPACE, Namespace(to[-1], "", 0), names[""])]
    for key, child in cloned:
        entity = entities[child.obj]
        path = path_of(key)
        name = names.get(key) or (*names[key_of(path[:-1])], str(getattr(entity, "name", path[-1])))
        names[key] = name
        if isinstance(entity, Table) and entity.external is not None:
            if entity.external.awaited:
                raise without_head(entity, "")
            problem = f"table '{dotted_name(tree.catalog, *path)}' is external: its versions are not known here"
            raise UnsupportedTable(
                problem, field="from", remedy="clone the tables beside it, or let its engine copy it"
            )
        parts.append(Part(dotted_name(tree.catalog, *path), child.kind, entity, name, needs_of(entity)))
    return parts


def check_held(world: World, parts: Sequence[Part]) -> dict[HeldLocation, Location]:
    """Check that all locations that ``parts`` need still hold their files. Returns the rows of
    their owners. One request per hundred locations. Raises StateConflict (``CannotClone``), or
    TooLarge when one has too many clones.
    """
    names = {held: part.name for part in parts for held in part.needs}
    keys = [world.space.location(held.location) for held in names]
    rows = world.refs.read_many(keys)
    owners: dict[HeldLocation, Location] = {}
    for (held, name), key in zip(names.items(), keys, strict=True):
        owner = Location.from_row(rows[key]) if key in rows else None
        if owner is None or not owner.keeps(held):
            problem = f"the files of '{name}' are gone or being removed"
            raise cannot_clone(problem, "clone the tables beside it, or another moment", "from")
        check_size(f"clones of '{name}'", len(owner.clones) + 1, MAX_CLONES)
        owners[held] = owner
    return owners


def check_readable(owner: Location, part: Part, version: int) -> None:
    """Raises StateConflict (``CannotClone``) if a vacuum may have removed files of a version.
    ``owner`` is that of its location."""
    if not owner.readable(version):
        problem = (
            f"version {version} of '{part.name}' is not whole any more: vacuum or clean-up kept those from "
            f"{owner.readable_from} on"
        )
        raise cannot_clone(problem, "clone a later moment, or a named snapshot", version=version)


def check_rows(parts: Sequence[Part], rows: Mapping[str, int]) -> None:
    """Checks that one transaction holds the clone. Raises TooLarge.

    ``rows`` is the number of rows of a table of a kind beside the rows of locations, which tables
    share: with its location two for a Delta table, three or more for an Iceberg table, two for a
    view.
    """
    held = {location for part in parts for location in part.needs}
    check_size("rows of one transaction", len(held) + sum(rows.get(part.kind, 0) for part in parts), MAX_ROWS)


def check_size(what: str, size: int, limit: int) -> None:
    """Raises TooLarge beyond ``limit``."""
    if size > limit:
        problem = f"the clone would take {size} {what}"
        remedy = "clone a part at a time: namespaces or tables below it"
        raise TooLarge(problem, field="from", remedy=remedy, limit=limit, size=size)
