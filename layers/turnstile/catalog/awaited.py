"""Managed tables that are registered before their version 0 is written, as some clients of Unity
Catalog do it (I25, ADR 70):

    1  staging table      a fresh uuid and a location, as for every managed table (``create``)
    2  registration       ``Awaiting``: the name leads to a table without a HEAD, and to nothing
                          else; nothing is ratified on it
    3  version 0          the client writes it
    4  adoption           the next request for the table: version 0 is validated as at every
                          registration, and the table gets its HEAD
       or the end         it was dropped, or gc removed it after the grace of staging tables

Each of these writes compares the state of the staging row: ``open``, ``awaited`` or ``collecting``;
the adoption removes the row. So a table is adopted once, under the name that it has then, and never
after gc removed it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import External, Table, is_awaited, require_size
from turnstile.catalog.core.location_rows import owner_row
from turnstile.catalog.core.paths import Path, check_path, dotted_name
from turnstile.catalog.core.rows import (
    AWAITED,
    COLLECTING,
    ExternalRow,
    adopt_staging,
    await_version_zero,
    give_up_staging,
)
from turnstile.catalog.create import first_head, open_staging, read_version_zero
from turnstile.catalog.external import MAX_BYTES
from turnstile.catalog.namespaces import require_free
from turnstile.catalog.reader import CatalogReader, View
from turnstile.delta.core.content import Content
from turnstile.delta.core.metadata import DeltaMetadata, first_metadata
from turnstile.delta.metadata import MetadataStore
from turnstile.rights.grants import Access, Principal, owner_for
from turnstile.store.core.errors import ErrorType, InvalidCommit, NotFound, StateConflict
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import check_comment, check_identifier, check_uuid
from turnstile.store.core.writes import Clause, Equals, Erase, Insert, Row, new_row
from turnstile.store.ports import World


def version_zero_metadata(_table: Table, content: Content) -> DeltaMetadata:
    """The metadata of version 0 alone."""
    return first_metadata(content)


Describe = Callable[[Table, Content], DeltaMetadata]
"""Makes the table metadata of a table that was registered so, from its version 0."""


class Awaiting:
    """Registers tables before their version 0 is written. Requires that the caller has looked for
    version 0 and not found it."""

    def __init__(self, world: World, reader: CatalogReader, committer: Committer) -> None:
        self._world = world
        self._reader = reader
        self._committer = committer

    def register(
        self, catalog: str, namespace: Path, name: str, table_id: str, *, about: External, comment: str | None,
        principal: Principal
    ) -> None:  # fmt: skip
        """Gives the staging table ``table_id`` a name; a repeated call is accepted. ``about``: the
        client's description of the table. Raises InvalidRequest, NotFound, PermissionDenied (I12),
        AlreadyExists, TooLarge; StateConflict ``StagingTableUsed`` if it has another name.
        """
        check_path(namespace)
        check_identifier(name, "name")
        check_comment(comment)
        table_id = check_uuid(table_id)
        space = self._world.space
        path = (*namespace, name)
        staging_key = space.staging(table_id)
        external_key = space.external(table_id)
        rows = self._world.refs.read_many([staging_key, external_key])
        if external_key in rows and self._is_registered(catalog, path, table_id):
            return
        staging = open_staging(rows.get(staging_key), table_id, catalog, principal)
        now = self._world.clock.now_ms()
        about = msgspec.structs.replace(about, awaited=True, updated=now)
        access = Access(owner_for(principal))
        table = Table(name, table_id, staging["location"], now, comment=comment, external=about, access=access)
        require_size(table, MAX_BYTES, field="columns", remedy="shorten its columns, comment or properties")

        def change(view: View) -> Edit:
            view.tree.parent(namespace)
            require_free(view, path, "name")
            row = ExternalRow(external_key, table_id, view.tree.catalog, table.location, now)
            writes = (await_version_zero(staging_key), Insert(row.to_row(), (new_row("I9"),)))
            return Edit(f"register table {dotted_name(*path)}", put={path: table}, writes=writes)

        def on_rejected(failed: Mapping[int, Row | None]) -> None:
            if failed:
                problem = f"{table_id} has a name already, or is a table"
                raise StateConflict(
                    ErrorType.STAGING_TABLE_USED, problem, field="table_id", remedy="create another staging table"
                )

        self._committer.commit(catalog, change, on_rejected=on_rejected)

    def _is_registered(self, catalog: str, path: Path, table_id: str) -> bool:
        entry = self._reader.current(catalog).find(path)
        return entry is not None and entry.table_id == table_id


class Adoption:
    """Adopts tables when their version 0 has arrived."""

    def __init__(
        self,
        world: World,
        committer: Committer,
        metadata: MetadataStore,
        *,
        limits: Limits,
        describe: Describe = version_zero_metadata,
    ) -> None:
        self._world = world
        self._committer = committer
        self._reader = CatalogReader(world)
        self._metadata = metadata
        self._limits = limits
        self._describe = describe

    def adopt(self, catalog: str, path: Path, table: Table) -> bool:
        """Returns whether the table ``path``, which was read as ``table``, has a HEAD now: False
        while version 0 is not there. Four requests once it is. Raises InvalidCommit for a version 0
        that breaks the contract, NotFound if the name was dropped or renamed meanwhile.
        """
        world = self._world
        space = self._world.space
        table_id = table.table_id
        try:
            zero = read_version_zero(world, self._limits, table.location, table_id)
        except NotFound:
            return False
        except InvalidCommit as error:
            problem = f"the version 0 of table '{table.name}', which was awaited, cannot be adopted: {error.message}"
            raise InvalidCommit(problem, field=error.field, remedy="drop the table, and create it again") from error
        metadata = self._metadata.put(catalog, table_id, self._describe(table, zero), world.clock.now_ms())
        namespace = path[:-1]
        name = path[-1]

        def change(view: View) -> Edit | None:
            present = view.table(namespace, name)
            if present.table_id != table_id:
                raise NotFound("table", dotted_name(catalog, *path), field="table")
            if not is_awaited(present):
                return None
            adopted = msgspec.structs.replace(present, external=None)
            full = dotted_name(view.tree.catalog, *view.written_levels(namespace), present.name)
            head = first_head(space, view, path, table=adopted, metadata=metadata, zero=zero)
            writes = (
                Insert(head, (new_row("I2"),)),
                adopt_staging(space.staging(table_id)),
                owner_row(space, table.location, table_id, view.tree.catalog, adopted.created),
                _end_of_wait(space.external(table_id), table_id),
            )
            return Edit(f"create table {full}", put={path: adopted}, writes=writes)

        def on_rejected(failed: Mapping[int, Row | None]) -> None:
            staging = failed.get(1)
            if 1 in failed and (staging is None or staging["state"] != AWAITED) and 0 not in failed:
                raise NotFound(
                    "table",
                    dotted_name(catalog, *path),
                    field="table",
                    remedy="it was given up: drop it, and create it again",
                )

        self._committer.commit(catalog, change, on_rejected=on_rejected)
        return True

    def adopt_by_id(self, table_id: str) -> Table | None:
        """Returns the table whose version 0 is still awaited, None for any other: one that was
        adopted now has a HEAD. Raises as ``adopt``."""
        row = self._world.refs.read(self._world.space.external(table_id))
        if row is None:
            return None
        tree = self._reader.current(row["catalog"])
        path = tree.name_of(table_id)
        if path is None:
            return None
        table = View(tree, self._reader.store).table(path[:-1], path[-1])
        if not is_awaited(table):
            return None
        return None if self.adopt(tree.catalog, path, table) else table


class AwaitedDrops:
    """Ends the wait for a version 0."""

    def __init__(self, world: World, committer: Committer) -> None:
        self._world = world
        self._committer = committer

    def drop(self, catalog: str, namespace: Path, name: str, table_id: str) -> None:
        """Removes the name; gc collects the files at the location. Raises NotFound if the name does
        not lead to ``table_id``; StateConflict ``ConcurrentChange`` if the table was adopted
        meanwhile.
        """
        space = self._world.space
        full = dotted_name(catalog, *namespace, name)

        def change(view: View) -> Edit:
            present = view.table(namespace, name)
            if present.table_id != table_id:
                raise NotFound("table", full, field="table")
            if not is_awaited(present):
                problem = f"'{full}' got its version 0 meanwhile"
                remedy = "send the request again"
                raise StateConflict(ErrorType.CONCURRENT_CHANGE, problem, remedy=remedy, retry_after_ms=0)
            writes = (give_up_staging(space.staging(table_id)), _end_of_wait(space.external(table_id), table_id))
            return Edit(f"drop table {full}", remove=((*namespace, name),), writes=writes)

        def on_rejected(failed: Mapping[int, Row | None]) -> None:
            row = failed.get(0)
            if 0 in failed and (row is None or row["state"] == COLLECTING):
                raise StateConflict(
                    ErrorType.CONCURRENT_CHANGE, f"'{full}' is being removed, or was adopted",
                    remedy="send the request again", retry_after_ms=0
                )  # fmt: skip

        self._committer.commit(catalog, change, on_rejected=on_rejected)

    def forget(self, catalog: str, table_id: str) -> None:
        """Removes the name of a table that was given up. Requires that its staging row says so.
        Again is accepted."""

        def change(view: View) -> Edit | None:
            path = view.tree.name_of(table_id)
            if path is None or not is_awaited(view.table(path[:-1], path[-1])):
                return None
            end = _end_of_wait(self._world.space.external(table_id), table_id)
            return Edit(f"give up table {dotted_name(catalog, *path)}", remove=(path,), writes=(end,))

        self._committer.commit(catalog, change)


def _end_of_wait(key: str, table_id: str) -> Erase:
    return Erase(key, (Clause("own", "I10", "the row is this table's", Equals(("table_id",), table_id)),))
