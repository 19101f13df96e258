"""Clones: a namespace with everything under it, or one table, under another name, in one swap of the HEAD (ADR 17).

    1  source       the present tree, or one of the past
    2  judged       rights and refusals, before anything is written (``clone_plan``)
    3  copies       namespaces and tables of one's own: new uuids, the data stays where it is (``clone_copies``)
    4  the swap     one transaction: all names, the HEADs of Delta clones, and for every location that a clone needs its
                    uuid in the owner's row, so that no purge takes its files (``core.clone_holds``)

What is written costs what there are names; files are not looked at. A crash before 4 leaves unreachable objs, and files in
places that were given out and never used: gc collects both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from turnstile.access.core.grants import Access
from turnstile.catalog.change import Edit, View
from turnstile.catalog.clone.copies import Copier, Part, Past, Wanted, check_held, check_rows, parts_of
from turnstile.catalog.core.entities import Entity, Namespace, Table
from turnstile.catalog.core.location_rows import Held, hold
from turnstile.catalog.core.paths import Path, dotted, key_of, path_of
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.log import AsOf
from turnstile.catalog.namespaces import check_path
from turnstile.catalog.services import CatalogServices
from turnstile.store.core.errors import NotFound, OutcomeUnknown, TurnstileError
from turnstile.store.core.writes import Write
from turnstile.store.ports import World

_SAID: Final = "clone from "
"""How the message of a clone's commit begins; the HEAD that was cloned follows."""


class ClonedTable(msgspec.Struct, frozen=True):
    """A table or view that a clone made: its full name without the catalog, its kind, its uuid, and the version that it
    shows if it is a Delta table."""

    name: str
    kind: str
    table_id: str
    version: int | None = None


class Cloned(msgspec.Struct, frozen=True):
    """What a clone made: ``of`` the HEAD that was cloned, ``head`` and ``seq`` the commit that shows the clone."""

    to: str
    of: str
    head: str
    seq: int
    namespaces: int
    tables: tuple[ClonedTable, ...]


class Judge(Protocol):
    """Judges a clone by the tree that it changes (I12); ``services.clone_rights`` is the real one."""

    def __call__(self, now: Tree, source: Path, kind: str | None, to: Path, *, past: bool) -> None:
        """Raise PermissionDenied when it may not be made; ``kind`` of the source, None when there is none."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """One request; ``tree`` and ``past`` are set for a moment of the past."""

    source: Path
    to: Path
    tree: Tree | None = None
    past: Past | None = None


class Cloner:
    """Makes clones for one request.

    Args:
        services: of the catalog, judging by the request's rights.
        copiers: how tables are copied, by the kind of their entity.
        judge: who may clone what.
        owner: of what is made; empty for admins only.
    """

    def __init__(
        self, services: CatalogServices, copiers: Mapping[str, Copier], judge: Judge, *, owner: str = ""
    ) -> None:
        self._services, self._copiers, self._judge, self._owner = services, copiers, judge, owner

    def clone(self, catalog: str, source: Path, to: Path, of: AsOf | None = None) -> Cloned:
        """Show ``source`` (the empty path: the whole catalog) under the new full name ``to`` as well.

        Args:
            of: the moment to clone; None for now. Delta tables are read one after the other, after the tree.

        Raises:
            InvalidRequest: not a name, too deep, or ``to`` is part of ``source``.
            NotFound: no such catalog, source, namespace to clone into, or moment.
            AlreadyExists: ``to`` is taken, perhaps in another case.
            PermissionDenied: whoever asks may not read all of it, or create there.
            UnsupportedTable: a table is registered only.
            StateConflict: ``CannotClone``: files or versions are gone or being removed; ``TableNotActive``.
            TooLarge: more than one transaction holds.
            OutcomeUnknown: it may have happened.
        """
        check_path(to, "to")
        if source:
            check_path(source, "from")
        asked = _Asked(source, to) if of is None else self._of(catalog, source, to, of)
        run = _Run(self._services.world, asked, self._copiers, self._judge, Access(self._owner))
        try:
            tree = self._services.committer.commit(catalog, run.change)
        except OutcomeUnknown:
            raise
        except TurnstileError:
            for copier in self._copiers.values():
                copier.forget()
            raise
        return msgspec.structs.replace(run.made, head=tree.head, seq=tree.commit.seq)

    def told(self, catalog: str, to: Path, seq: int) -> Cloned:
        """What the clone that made commit ``seq`` answered.

        Raises:
            NotFound: no such catalog, or no such commit any more.
        """
        tree, store = self._services.history.tree(catalog, AsOf(seq=seq)), self._services.reader.store
        first = tree.find(to)
        if first is None or not tree.commit.message.startswith(_SAID):  # of a catalog of this name that was made since
            raise NotFound(
                "catalog commit",
                f"{catalog}@seq:{seq} that made {dotted(*to)}",
                remedy="the catalog was dropped and made again since: clone under a fresh key",
            )
        found = [first, *(entry for _, entry in tree.subtree(to))]
        view = View(tree, store)
        entities = view.entities([entry.obj for entry in found])
        name = (*view.written(to[:-1]), to[-1])
        written = {key_of(to): name}
        tables = []
        for path, entry in ((to, first), *((path_of(key), entry) for key, entry in tree.subtree(to))):
            one = entities[entry.obj]
            written[key_of(path)] = full = written.get(key_of(path)) or (*written[key_of(path[:-1])], one.name)
            if not isinstance(one, Namespace):
                version = one.clone.version if isinstance(one, Table) and one.clone is not None else None
                tables.append(ClonedTable(dotted(*full), entry.kind, getattr(one, "table_id", ""), version))
        of = tree.commit.message.removeprefix(_SAID).partition(":")[0]
        return Cloned(dotted(*name), of, tree.head, seq, len(found) - len(tables), tuple(tables))

    def _of(self, catalog: str, source: Path, to: Path, of: AsOf) -> _Asked:
        """A request for a moment of the past, judged before that is looked for."""
        now = self._services.reader.current(catalog)
        found = now.find(source) if source else None
        self._judge(now, source, found.kind if found is not None else None, to, past=True)
        moment = self._services.moments.at(catalog, of)
        time = moment.tree.commit.at // 1000 if of.time is None else of.time
        return _Asked(source, to, moment.tree, Past(time, moment.versions))


class _Run:
    """The attempts of one clone. Ids and times are chosen once, so that attempts make the same entities of the same source.

    Attributes:
        made: what the last attempt would make, but for its commit.
    """

    def __init__(
        self, world: World, asked: _Asked, copiers: Mapping[str, Copier], judge: Judge, access: Access
    ) -> None:
        self._world, self._asked, self._copiers = world, asked, copiers
        self._judge, self._access = judge, access
        self._now = world.clock.now_ms()
        self._ids: dict[Path, str] = {}
        self.made = Cloned("", "", "", 0, 0, ())

    def change(self, view: View) -> Edit:
        """The clone, computed from one tree."""
        asked = self._asked
        tree = view.tree if asked.tree is None else asked.tree
        entry = tree.find(asked.source) if asked.source else None
        kind = entry.kind if entry is not None else None
        self._judge(view.tree, asked.source, kind, asked.to, past=asked.tree is not None)
        parts = parts_of(view, tree, asked.source, asked.to)
        check_rows(parts, {kind: copier.rows for kind, copier in self._copiers.items()})
        check_held(self._world, parts)
        for kind, copier in self._copiers.items():
            copier.look([part.source for part in parts if part.kind == kind])
        return self._edit(view.tree.catalog, tree, parts)

    def _edit(self, catalog: str, tree: Tree, parts: list[Part]) -> Edit:
        put: dict[Path, Entity] = {}
        writes: list[Write] = []
        holding: dict[Held, list[str]] = {}
        tables: list[ClonedTable] = []
        for part in parts:
            if isinstance(part.source, Namespace):
                put[part.to] = self._namespace(part.source, part.to)
                continue
            wanted = Wanted(part.source, part.was, catalog, part.to, self._access, self._now)
            copy = self._copiers[part.kind].copy(wanted, self._asked.past)
            put[part.to] = copy.entity
            writes += copy.writes
            tables.append(ClonedTable(dotted(*part.to), part.kind, copy.table_id, copy.version))
            for held in part.needs:
                holding.setdefault(held, []).append(copy.table_id)
        writes += [hold(self._world.space, held, clones) for held, clones in holding.items()]
        to, what = dotted(*parts[0].to), dotted(*self._asked.source) or "everything"
        self.made = Cloned(to, tree.head, "", 0, len(parts) - len(tables), tuple(tables))
        return Edit(f"{_SAID}{tree.head}: {what} to {to}"[:200], put=put, writes=tuple(writes))

    def _namespace(self, source: Namespace, to: Path) -> Namespace:
        if to not in self._ids:
            self._ids[to] = self._world.ids.uuid()
        id = self._ids[to]
        return msgspec.structs.replace(source, name=to[-1], id=id, created=self._now, updated=0, access=self._access)
