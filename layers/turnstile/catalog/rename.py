"""Renames tables and namespaces, also into another namespace of the same catalog: the catalog's
HEAD and the full names in the HEADs of Delta tables change in one transaction (I9).

Uuids, locations and commits stay unchanged. Files stay in place, too: a location says where a table
was created, not its present name. A cached mapping of the old name dies with the catalog HEAD that
it came from. Nothing can move from one catalog to another: objs, and members of HEADs and locations
that name their catalog, belong to one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from turnstile.catalog.changes.commit import CatalogChange, Committer
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.branches import refuse_branch
from turnstile.catalog.core.entities import NAMESPACE, TABLE, Table, without_head
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.paths import MAX_LEVELS, Path, check_path, dotted_name, is_below, key_of, path_of
from turnstile.catalog.describe import not_active
from turnstile.catalog.namespaces import (
    Alter,
    ExpectationsCheck,
    NamedNamespace,
    check_expectations,
    named_namespace,
    require_free,
)
from turnstile.catalog.reader import CatalogReader, View
from turnstile.delta.core.head import DROPPED
from turnstile.delta.core.writes.state import rename_head
from turnstile.store.core.errors import InvalidRequest, TooLarge
from turnstile.store.core.names import check_identifier
from turnstile.store.core.writes import Row
from turnstile.store.ports import BATCH_GET_MAX, TRANSACT_MAX, World, in_batches

MAX_TABLES: Final = TRANSACT_MAX - 10
"""Delta tables with a HEAD that can move with a namespace: all of them change in one
transaction."""

_Entries = Mapping[str, IndexEntry]


class Renamer:
    """Renames tables."""

    def __init__(self, world: World, reader: CatalogReader, committer: Committer) -> None:
        self._world = world
        self._reader = reader
        self._committer = committer

    def rename(
        self,
        catalog: str,
        namespace: Path,
        name: str,
        new_name: str,
        new_namespace: Path | None = None,
        *,
        external: bool = True,
    ) -> Path:
        """Gives the table ``name`` another name and returns it in full. Three requests when warm.
        Raises InvalidRequest; NotFound, also for the namespace to move to; AlreadyExists (a change
        of case only is allowed); StateConflict ``TableNotActive``; UnsupportedTable if the table is
        registered only and ``external`` is not set.
        """
        target = check_path(namespace if new_namespace is None else new_namespace)
        prepared = self.prepare(catalog, namespace, name, new_name, target, external=external)
        tree = self._committer.commit(catalog, prepared.apply, on_rejected=prepared.on_rejected)
        return (*View(tree, self._reader.store).written_levels(target), new_name)

    def prepare(
        self, catalog: str, namespace: Path, name: str, new_name: str, target: Path, *, external: bool
    ) -> CatalogChange:
        """As ``rename``, to be committed with others. No request."""
        check_path(target)
        check_identifier(new_name, "name")
        source = (*namespace, name)
        wanted = (*target, new_name)
        same = key_of(source) == key_of(wanted)

        def change(view: View) -> Edit | None:
            old = view.table(namespace, name)
            if old.external is not None and not external:
                raise without_head(old, "rename it through Unity Catalog's API, where it was registered")
            if same and old.name == new_name:
                return None
            if same and old.origin is not None:
                problem = f"'{old.name}' is the catalog's, and a branch gives it no name that differs in case alone"
                raise InvalidRequest(problem, field="name", remedy="rename it in the catalog, and update the branch")
            view.tree.parent(target)
            if not same:
                require_free(view, wanted, "name")
            full = dotted_name(view.tree.catalog, *view.written_levels(target), new_name)
            head = rename_head(self._world.space.table(old.table_id), full, self._world.clock.now_ms())
            return Edit(
                f"rename table {dotted_name(*source)} to {dotted_name(*wanted)}",
                put={wanted: msgspec.structs.replace(old, name=new_name)},
                remove=() if same else (source,),
                writes=(head,) if old.external is None else (),
            )

        def on_rejected(failed: Mapping[int, Row | None]) -> None:
            if 0 in failed:
                raise not_active(dotted_name(catalog, *source), failed[0])

        return CatalogChange(change, on_rejected)


class NamespaceMover:
    """Renames namespaces and moves them below others, with everything in them:

        namespace                  a new entity, since it has its name; uuid, rights and properties
                                   stay
        everything below it        the same entities under other names: index entries move, no obj
                                   is written
        HEADs of Delta tables      their full names, in the same transaction; so at most
                                   ``MAX_TABLES``
        tables without a HEAD      nothing of their own: registered tables, Iceberg's tables and
                                   views

    A create or drop inside it meanwhile moves the HEAD first, and the change is computed again from
    the newer tree: nothing is left behind under the old name.
    """

    def __init__(
        self,
        world: World,
        reader: CatalogReader,
        committer: Committer,
        expectations_check: ExpectationsCheck | None = None,
    ) -> None:
        self._world = world
        self._reader = reader
        self._committer = committer
        self._expectations_check = expectations_check

    def rename(
        self, catalog: str, path: Path, new_name: str, parent: Path | None = None, *, alter: Alter | None = None
    ) -> NamedNamespace:
        """Gives the namespace ``path`` another name, and another ``parent`` (the empty path: the
        catalog's top; None: it stays where it is), and returns it. ``alter``: a further change of
        it, in the same swap. Three requests when warm, and one for every hundred Delta tables and
        nested namespaces in it that are not cached.

        Raises InvalidRequest: into itself or below itself, or with more than ``MAX_LEVELS`` levels;
        NotFound; AlreadyExists (a change of case only is allowed); StateConflict ``TableNotActive``
        for a table in it; TooLarge: more than ``MAX_TABLES``.
        """
        refuse_branch(catalog, "renames of namespaces")
        check_path(path)
        check_identifier(new_name, "name")
        parent = path[:-1] if parent is None else parent
        target = check_path((*parent, new_name))
        recased = key_of(target) == key_of(path)  # they differ at most in case, so no key changes
        _refuse_itself(catalog, path, parent)
        now = self._world.clock.now_ms()

        def change(view: View) -> Edit | None:
            old = view.namespace(path)
            new = msgspec.structs.replace(old if alter is None else alter(old), name=new_name)
            check_expectations(self._expectations_check, new.properties, old.properties)
            if recased and new == old:
                return None
            full = dotted_name(
                view.tree.catalog, *view.written_levels(parent), new_name
            )  # raises NotFound for a missing level
            if not recased:
                require_free(view, target, "name")
            inside = dict(view.tree.subtree(path))
            _require_levels(inside, path, target)
            names = {} if recased and new.name == old.name else _full_names(view, inside, full, path)
            return Edit(
                f"rename namespace {dotted_name(*path)} to {dotted_name(*target)}",
                put={target: msgspec.structs.replace(new, updated=now)},
                entries={} if recased else {key_of(target) + key[len(key_of(path)) :]: inside[key] for key in inside},
                remove=() if recased else (path, *map(path_of, inside)),
                writes=tuple(rename_head(self._world.space.table(id), name, now) for id, name in names.items()),
            )

        def on_rejected(failed: Mapping[int, Row | None]) -> None:
            for head in failed.values():  # a table that was dropped is not in the next tree
                if head is not None and head["state"] != DROPPED:
                    raise not_active(head["name"], head)

        view = View(self._committer.commit(catalog, change, on_rejected=on_rejected), self._reader.store)
        return named_namespace(view, target)


def _refuse_itself(catalog: str, path: Path, parent: Path) -> None:
    source = key_of(path)
    target = key_of(parent)
    if target == source or is_below(target, source):
        raise InvalidRequest(
            f"namespace '{dotted_name(catalog, *path)}' cannot move to '{dotted_name(catalog, *parent)}': into itself "
            "or below",
            field="namespace",
            remedy="name a namespace that is not below it",
        )


def _require_levels(inside: _Entries, source: Path, target: Path) -> None:
    below = [path_of(key) for key, entry in inside.items() if entry.kind == NAMESPACE]
    depth = max((len(path) for path in below), default=0) - len(source) + len(target)
    if depth > MAX_LEVELS:
        raise InvalidRequest(
            f"what is in namespace '{dotted_name(*source)}' would have {depth} levels",
            field="namespace",
            remedy=f"move it where at most {MAX_LEVELS} levels come together",
        )


def _full_names(view: View, inside: _Entries, full: str, path: Path) -> dict[str, str]:
    """Returns the new full names of Delta tables with a HEAD, by uuid, when the namespace ``path``
    is called ``full``."""
    tables = _coordinated_tables(view, inside, path)
    levels = {
        key: [inside[key_of(path_of(key)[:end])].obj for end in range(len(path) + 1, len(path_of(key)))]
        for key in tables
    }
    namespaces = view.entities(list({obj for objs in levels.values() for obj in objs}))
    return {
        table.table_id: dotted_name(full, *(namespaces[obj].name for obj in levels[key]), table.name)
        for key, table in tables.items()
    }


def _coordinated_tables(view: View, inside: _Entries, path: Path) -> dict[str, Table]:
    """Returns the tables that have a HEAD, by key. Raises TooLarge if these do not fit into one
    transaction; stops reading then."""
    tables: dict[str, Table] = {}
    entries = [(key, entry.obj) for key, entry in inside.items() if entry.kind == TABLE]
    for batch in in_batches(entries, BATCH_GET_MAX):
        entities = view.entities([obj for _, obj in batch])
        for key, obj in batch:
            table = entities[obj]
            if isinstance(table, Table) and table.external is None:
                tables[key] = table
        if len(tables) > MAX_TABLES:
            raise TooLarge(
                f"more than {MAX_TABLES} Delta tables in namespace '{dotted_name(view.tree.catalog, *path)}' "
                "would move",
                field="namespace",
                remedy="create the new namespace, and rename the tables into it one by one",
                limit=MAX_TABLES,
            )
    return tables
