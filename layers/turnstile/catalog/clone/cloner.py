"""Clones: a namespace with everything under it, or one table, under another name, in one swap of
the HEAD (ADR 17).

    1  refusals     rights, names, sizes: before anything is written (``clone.copies``)
    2  copies       new namespaces and tables with new uuids; the data stays where it is
    3  the swap     one transaction: all names, the HEADs of Delta clones, and for every location
                    that a clone needs its
                    uuid in the owner's row, so that no purge removes its files
                    (``core.location_rows``)

The cost grows with the number of names; files are not read. A crash before 3 leaves objs and files
that gc collects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.clone.copies import (
    Copier,
    CopyRequest,
    Part,
    PastVersions,
    check_held,
    check_readable,
    check_rows,
    parts_of,
)
from turnstile.catalog.core.branches import refuse_branch
from turnstile.catalog.core.entities import Entity, Namespace, Table
from turnstile.catalog.core.location_rows import HeldLocation, Location, hold
from turnstile.catalog.core.paths import Path, check_path, dotted_name, key_of, path_of
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.reader import View
from turnstile.catalog.services import CatalogServices
from turnstile.rights.grants import Access
from turnstile.store.core.errors import NotFound, OutcomeUnknown, TurnstileError
from turnstile.store.core.writes import Write
from turnstile.store.ports import World

_MESSAGE: Final = "clone from "
"""How the message of a clone's commit begins; the HEAD that was cloned follows."""


class ClonedTable(msgspec.Struct, frozen=True):
    """A table or view of a clone: ``name`` without the catalog; the version that it shows for a
    Delta table."""

    name: str
    kind: str
    table_id: str
    version: int | None = None


class CloneResult(msgspec.Struct, frozen=True):
    """A clone: ``of`` is the HEAD that was cloned, ``head`` and ``seq`` are the commit that shows
    the clone."""

    to: str
    of: str
    head: str
    seq: int
    namespaces: int
    tables: tuple[ClonedTable, ...]


class CloneAuthorizer(Protocol):
    """Authorizes a clone by the tree that it changes (I12): ``access.clone_rights``."""

    def __call__(self, now: Tree, source: Path, kind: str | None, to: Path, *, past: bool) -> None:
        """Raise PermissionDenied when it is not allowed. ``kind`` is that of the source, None when
        there is no source."""


class _Request(msgspec.Struct, frozen=True):
    """Source and target of a clone; ``tree`` and ``past`` are set for a moment of the past."""

    source: Path
    to: Path
    tree: Tree | None = None
    past: PastVersions | None = None


class Cloner:
    """Makes the clones of one request.

    Args:
        services: the catalog's, authorized by the request's guard.
        copiers: by the kind of the entities that they copy.
        owner: of the clone; empty for admins only.
    """

    def __init__(
        self, services: CatalogServices, copiers: Mapping[str, Copier], authorize: CloneAuthorizer, *, owner: str = ""
    ) -> None:
        self._services = services
        self._copiers = copiers
        self._authorize = authorize
        self._owner = owner

    def clone(self, catalog: str, source: Path, to: Path, of: AsOf | None = None) -> CloneResult:
        """Show ``source`` (the empty path: the whole catalog), as of a moment or as it is now,
        under the new full name ``to`` as well. Returns the clone. Of now, Delta tables are read one
        after the other, after the tree.

        Raises:
            InvalidRequest: not a name, too deep, or ``to`` is part of ``source``.
            NotFound: no such catalog, source, namespace to clone into, or moment.
            AlreadyExists: ``to`` is taken, perhaps in another case.
            PermissionDenied: no right to read all of it, or to create there.
            UnsupportedTable: a table is registered only.
            StateConflict: ``CannotClone``: files or versions are gone or being removed;
                ``TableNotActive``.
            TooLarge: one transaction cannot hold it.
            OutcomeUnknown: it may have happened.
        """
        check_path(to, "to")
        refuse_branch(catalog, "clones")
        if source:
            check_path(source, "from")
        request = _Request(source, to) if of is None else self._of(catalog, source, to, of)
        attempts = _Attempts(self._services.world, request, self._copiers, self._authorize, Access(self._owner))
        try:
            tree = self._services.committer.commit(catalog, attempts.change)
        except OutcomeUnknown:
            raise
        except TurnstileError:
            for copier in self._copiers.values():
                copier.discard()
            raise
        return msgspec.structs.replace(attempts.result, head=tree.head, seq=tree.commit.seq)

    def result_of(self, catalog: str, to: Path, seq: int) -> CloneResult:
        """Returns the result of the clone that made commit ``seq``. Raises NotFound, also for a
        commit that is gone."""
        tree = self._services.history.tree(catalog, AsOf(seq=seq))
        first = tree.find(to)
        if first is None or not tree.commit.message.startswith(_MESSAGE):  # another catalog has this name since then
            remedy = "the catalog was dropped and made again since: clone under a fresh key"
            raise NotFound("catalog commit", f"{catalog}@seq:{seq} that made {dotted_name(*to)}", remedy=remedy)
        view = View(tree, self._services.reader.store)
        entries = [(key_of(to), first), *tree.subtree(to)]
        entities = view.entities([entry.obj for _, entry in entries])
        name = (*view.written_levels(to[:-1]), to[-1])
        names = {key_of(to): name}
        tables = []
        for key, entry in entries:
            entity = entities[entry.obj]
            names[key] = full = names.get(key) or (*names[key_of(path_of(key)[:-1])], entity.name)
            if not isinstance(entity, Namespace):
                version = entity.clone.version if isinstance(entity, Table) and entity.clone is not None else None
                tables.append(ClonedTable(dotted_name(*full), entry.kind, getattr(entity, "table_id", ""), version))
        of = tree.commit.message.removeprefix(_MESSAGE).partition(":")[0]
        return CloneResult(dotted_name(*name), of, tree.head, seq, len(entries) - len(tables), tuple(tables))

    def _of(self, catalog: str, source: Path, to: Path, of: AsOf) -> _Request:
        """A request that is authorized before the moment is looked for."""
        now = self._services.reader.current(catalog)
        self._authorize(now, source, _kind(now, source), to, past=True)
        moment = self._services.as_of_reader.at(catalog, of)
        time_ms = moment.tree.commit.at // 1000 if of.time is None else of.time
        return _Request(source, to, moment.tree, PastVersions(time_ms, moment.versions))


class _Attempts:
    """The attempts of one clone. Ids and times are chosen once, so that attempts make the same
    entities of the same source.

    Attributes:
        result: of the last attempt, without its commit.
    """

    def __init__(
        self, world: World, request: _Request, copiers: Mapping[str, Copier], authorize: CloneAuthorizer, access: Access
    ) -> None:
        self._world = world
        self._request = request
        self._copiers = copiers
        self._authorize = authorize
        self._access = access
        self._now_ms = world.clock.now_ms()
        self._ids: dict[Path, str] = {}
        self.result = CloneResult("", "", "", 0, 0, ())

    def change(self, view: View) -> Edit:
        source = self._request.source
        to = self._request.to
        past = self._request.tree
        tree = view.tree if past is None else past
        self._authorize(view.tree, source, _kind(tree, source), to, past=past is not None)
        parts = parts_of(view, tree, source, to)
        check_rows(parts, {kind: copier.rows for kind, copier in self._copiers.items()})
        owners = check_held(self._world, parts)
        for kind, copier in self._copiers.items():
            copier.prefetch([part.source for part in parts if part.kind == kind])
        return self._edit(view.tree.catalog, tree, parts, owners)

    def _edit(self, catalog: str, tree: Tree, parts: list[Part], owners: Mapping[HeldLocation, Location]) -> Edit:
        put: dict[Path, Entity] = {}
        writes: list[Write] = []
        holding: dict[HeldLocation, list[str]] = {}
        by_version: set[HeldLocation] = set()
        tables: list[ClonedTable] = []
        for part in parts:
            if isinstance(part.source, Namespace):
                put[part.to] = self._namespace(part.source, part.to)
                continue
            request = CopyRequest(part.source, part.name, catalog, part.to, self._access, self._now_ms)
            copy = self._copiers[part.kind].copy(request, self._request.past)
            put[part.to] = copy.entity
            writes += copy.writes
            tables.append(ClonedTable(dotted_name(*part.to), part.kind, copy.table_id, copy.version))
            for held in part.needs:
                holding.setdefault(held, []).append(copy.table_id)
                if copy.version is not None:
                    check_readable(owners[held], part, copy.version)
                    by_version.add(held)
        for held, clones in holding.items():
            revision = owners[held].revision if held in by_version else None
            writes.append(hold(self._world.space, held, clones, revision))
        to = dotted_name(*parts[0].to)
        what = dotted_name(*self._request.source) or "everything"
        self.result = CloneResult(to, tree.head, "", 0, len(parts) - len(tables), tuple(tables))
        return Edit(f"{_MESSAGE}{tree.head}: {what} to {to}"[:200], put=put, writes=tuple(writes))

    def _namespace(self, source: Namespace, to: Path) -> Namespace:
        id = self._ids[to] = self._ids.get(to) or self._world.ids.uuid()
        return msgspec.structs.replace(source, name=to[-1], id=id, created=self._now_ms, updated=0, access=self._access)


def _kind(tree: Tree, source: Path) -> str | None:
    entry = tree.find(source) if source else None
    return entry.kind if entry is not None else None
