"""External tables: registered by location, not coordinated here. Each is an entity, the ownership
of its location, and a row that leads from the uuid to the location.

The files at the location are not checked: the table may be written later, by another engine, in a
format that only it knows. But no other table may own the location (I10), so that no drop here ever
purges it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import External, Table, require_size
from turnstile.catalog.core.location_rows import claim, conflict, keys_above, release
from turnstile.catalog.core.paths import Path, check_path, dotted_name
from turnstile.catalog.core.rows import new_external
from turnstile.catalog.namespaces import require_free
from turnstile.catalog.reader import CatalogReader, View
from turnstile.rights.grants import Access
from turnstile.store.core.errors import ErrorType, InvalidRequest, NotFound, StateConflict, UnsupportedTable
from turnstile.store.core.locations import is_root, normalise
from turnstile.store.core.names import check_identifier
from turnstile.store.core.writes import Clause, Equals, Erase
from turnstile.store.ports import World

MAX_BYTES: Final = 262_144
"""Bytes of an external table with its columns and properties; one obj holds it."""


class Externals:
    """Registers, updates and drops external tables; ``admit`` raises InvalidRequest for a location
    that the deployment does not serve, and claims the lake root, before a location beside it is
    claimed.
    """

    def __init__(
        self,
        world: World,
        reader: CatalogReader,
        committer: Committer,
        admit: Callable[[str], object] = lambda _location: None,
    ) -> None:
        self._world = world
        self._reader = reader
        self._committer = committer
        self._admit = admit

    def register(
        self,
        catalog: str,
        namespace: Path,
        name: str,
        *,
        location: str,
        format: str,
        about: External,
        comment: str | None = None,
        owner: str = "",
    ) -> Table:
        """Registers an external table of ``owner`` at ``location``. Raises InvalidRequest,
        NotFound, AlreadyExists; TooLarge for its columns and properties; StateConflict
        ``LocationOwned``: a whole bucket, or it overlaps another table's or the lake root.
        """
        world = self._world
        check_path(namespace)
        check_identifier(name, "name")
        location = normalise(location)
        if is_root(location):
            problem = f"location {location} is a whole bucket"
            raise StateConflict(ErrorType.LOCATION_OWNED, problem, field="location", remedy="name a folder in it")
        self._admit(location)
        now = world.clock.now_ms()
        id = world.ids.uuid()
        access = Access(owner)
        table = Table(name, id, location, now, format, comment, managed=False, external=about, access=access)
        _check_size(table)
        path = (*namespace, name)
        keys = keys_above(world.space, location)

        def change(view: View) -> Edit:
            view.tree.parent(namespace)
            require_free(view, path, "name")
            rows = world.refs.read_many(keys)
            if (error := conflict(world.space, location, rows)) is not None:
                raise error
            writes = claim(world.space, location, rows, table_id=table.table_id, catalog=view.tree.catalog, now=now)
            key = world.space.external(table.table_id)
            writes.append(new_external(key, table.table_id, view.tree.catalog, location, now))
            return Edit(f"register table {dotted_name(*path)}", put={path: table}, writes=tuple(writes))

        self._committer.commit(catalog, change)
        return table

    def update(
        self, catalog: str, namespace: Path, name: str, table_id: str, change: Callable[[str, Table], Table]
    ) -> tuple[Table, str]:
        """Changes a table in one write; ``change`` is called, perhaps several times, with its etag
        and the table. Returns the table and its new etag. Raises NotFound if the name does not lead
        to ``table_id`` any more.
        """
        path = (*namespace, name)

        def edit(view: View) -> Edit | None:
            old = _current(view, catalog, namespace, name, table_id)
            new = change(view.tree.table(namespace, name).obj, old)
            _check_size(new)
            return None if new == old else Edit(f"update table {dotted_name(*path)}", put={path: new})

        view = View(self._committer.commit(catalog, edit), self._reader.store)
        return view.table(namespace, name), view.tree.table(namespace, name).obj

    def drop(self, catalog: str, namespace: Path, name: str, table_id: str) -> None:
        """Its location is free again, its files stay. Raises NotFound if the name does not lead to
        ``table_id``."""
        world = self._world
        path = (*namespace, name)

        def change(view: View) -> Edit:
            table = _current(view, catalog, namespace, name, table_id)
            rows = world.refs.read_many(keys_above(world.space, table.location))
            writes = release(world.space, table.location, table_id, rows)
            own = Clause("own", "I10", "the row is this table's", Equals(("table_id",), table_id))
            writes.append(Erase(world.space.external(table_id), (own,)))
            return Edit(f"drop table {dotted_name(*path)}", remove=(path,), writes=tuple(writes))

        self._committer.commit(catalog, change)


def _current(view: View, catalog: str, namespace: Path, name: str, table_id: str) -> Table:
    table = view.table(namespace, name)
    if table.table_id != table_id:
        raise NotFound("table", dotted_name(catalog, *namespace, name), field="table")
    return table


def of_external(table: Table) -> External:
    """Returns the description of a registered table. Raises UnsupportedTable for a coordinated
    one."""
    if table.external is None:
        raise UnsupportedTable(f"table '{table.name}' is not external", field="table")
    return table.external


def _check_size(table: Table) -> None:
    """Raises TooLarge if one obj does not hold the table, and InvalidRequest if a number in it does
    not fit 64 bits."""
    try:
        require_size(table, MAX_BYTES, field="columns", remedy="shorten its columns, comment or properties")
    except OverflowError as error:
        problem = f"table '{table.name}' holds a number that does not fit 64 bits"
        raise InvalidRequest(problem, field="columns", remedy="send it as a string") from error


def updated_at(about: External, now: int, **changes: object) -> External:
    """Returns ``about`` with ``changes``; ``updated`` changes only if something else does."""
    new = msgspec.structs.replace(about, **changes)
    return about if new == about else msgspec.structs.replace(new, updated=now)
