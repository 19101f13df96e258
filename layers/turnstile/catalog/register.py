"""Create, phase 3 of 3: a staged table becomes a table, in one transaction over four rows (I9).

    1  catalog, staging, HEAD     one batch; a HEAD that is there already: this registration was done before (I3)
    2  version 0                  read and judged
    3  objs                       metadata snapshot; entity and catalog commit
    4  one transaction            catalog HEAD swapped, table HEAD new, staging row used up, location owned

A crash before 4 leaves the staging table as it was, to be registered again or collected. An answer lost at 4 is found
out by the committer; one lost on its way to the client by 1 of the repetition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from turnstile.access.core.access import Access, owner_for
from turnstile.access.core.principal import OPERATOR, Principal
from turnstile.catalog.change import Edit, View
from turnstile.catalog.committer import Committer
from turnstile.catalog.core.catalog_rows import OPEN, use_staging
from turnstile.catalog.core.entities import Table
from turnstile.catalog.core.location_rows import owner_row
from turnstile.catalog.core.paths import Path, dotted, fold
from turnstile.catalog.namespaces import check_path, require_free
from turnstile.catalog.reader import CatalogReader
from turnstile.catalog.version_zero import read_version_zero
from turnstile.delta.core.content import Content
from turnstile.delta.core.head import new_head_row
from turnstile.delta.core.metadata import MetadataSnapshot, first_snapshot
from turnstile.delta.limits import Limits
from turnstile.delta.metadata import Snapshots
from turnstile.store.core.comments import check_comment
from turnstile.store.core.errors import NotFound, PermissionDenied, StateConflict
from turnstile.store.core.names import check_identifier, check_uuid
from turnstile.store.core.writes import Insert, Row, new_row
from turnstile.store.world import World

_ANOTHER: Final = "create a staging table of your own, and register that"


class Registered(msgspec.Struct, frozen=True):
    """The table, and whether an earlier request had registered it."""

    table_id: str
    replayed: bool


class Registrar:
    """Registers staged tables."""

    def __init__(
        self, world: World, reader: CatalogReader, committer: Committer, snapshots: Snapshots, limits: Limits
    ) -> None:
        self._world, self._reader, self._committer = world, reader, committer
        self._snapshots, self._limits = snapshots, limits

    def register(
        self,
        catalog: str,
        namespace: Path,
        name: str,
        table_id: str,
        *,
        comment: str | None = None,
        principal: Principal = OPERATOR,
        describe: Callable[[Content], MetadataSnapshot] = first_snapshot,
    ) -> Registered:
        """Make the staged table ``table_id`` the table ``name``. Four requests when warm, however large the catalog.

        Args:
            principal: who asks, and owns the table then; has to be the creator of the staging table, or an admin.
            describe: makes the table's snapshot from the content of version 0, or raises what refuses it.

        Raises:
            InvalidRequest: not a name, not a uuid.
            NotFound: no such catalog, namespace or staging table; no version 0.
            InvalidCommit: version 0 breaks the contract.
            AlreadyExists: the name is taken; the staging table can still be registered under another.
            StateConflict: ``StagingTableUsed``: it is a table of another name already.
            PermissionDenied: somebody else's staging table (I12).
            TooLarge: the comment.
            OutcomeUnknown: send the same request again.
        """
        check_path(namespace)
        check_identifier(name, "name")
        check_comment(comment)
        table_id = check_uuid(table_id)
        path, space = (*namespace, name), self._world.space
        keys = [self._reader.key(catalog), space.staging(table_id), space.table(table_id)]
        rows = self._world.refs.read_many(keys)
        tree = self._reader.at(catalog, rows.get(keys[0]), path)
        if keys[2] in rows:
            found = tree.find(path)
            if found is None or found.table_id != table_id:
                raise _used(table_id, rows[keys[2]], principal)
            return Registered(table_id, replayed=True)
        staged = _staged(rows.get(keys[1]), tree.catalog, table_id, principal)
        require_free(View(tree, self._reader.store), path, "name")
        zero = read_version_zero(self._world, self._limits, staged["location"], table_id)
        snapshot = describe(zero.content)
        metadata = self._snapshots.put(tree.catalog, table_id, snapshot, self._world.clock.now_ms())
        made = self._made(name, staged, comment, Access(owner_for(principal)))
        taken: list[Row] = []

        def change(view: View) -> Edit | None:
            found = view.tree.find(path)
            if found is not None and found.table_id == table_id:
                return None
            if taken:
                raise _used(table_id, taken[-1], principal)
            view.tree.parent(namespace)
            require_free(view, path, "name")
            full = dotted(view.tree.catalog, *view.written(namespace), name)
            head = new_head_row(
                key=keys[2],
                table_id=table_id,
                catalog=view.tree.catalog,
                name=full,
                location=made.location,
                metadata=metadata,
                version=0,
                ict=zero.content.ict,
                row_hwm=zero.row_hwm,
                created=made.created,
                managed=True,
            )
            owner = owner_row(space, made.location, table_id, view.tree.catalog, made.created)
            writes = (Insert(head, (new_row("I2"),)), use_staging(keys[1]), owner)
            return Edit(f"create table {full}", put={path: made}, writes=writes)

        def judge(failed: Mapping[int, Row | None]) -> None:
            head = failed.get(0)
            if head is not None:  # registered meanwhile: the next tree says whether under this name
                taken.append(head)
            elif 1 in failed:
                raise _no_staging(table_id)
            elif 2 in failed:
                raise StateConflict(
                    "LocationOwned", f"location {made.location} has another owner", field="table_id", remedy=_ANOTHER
                )

        self._committer.commit(catalog, change, row=rows[keys[0]], judge=judge)
        return Registered(table_id, replayed=bool(taken))

    def _made(self, name: str, staged: Row, comment: str | None, access: Access) -> Table:
        return Table(
            name=name,
            table_id=staged["table_id"],
            location=staged["location"],
            created=self._world.clock.now_ms(),
            comment=comment,
            access=access,
        )


def _staged(row: Row | None, catalog: str, table_id: str, principal: Principal) -> Row:
    """The open staging row, if ``principal`` may use it in ``catalog``."""
    if row is None or fold(row["catalog"]) != fold(catalog) or row["state"] != OPEN:
        raise _no_staging(table_id)
    check_creator(row, principal)
    return row


def check_creator(staging: Row, principal: Principal) -> None:
    """A staging table is its creator's alone, until it is a table.

    Raises:
        PermissionDenied: somebody else's; one without a creator is for admins (I12).
    """
    if not principal.admin and staging["creator"] != principal.name:
        raise PermissionDenied("the staging table was created by somebody else", field="table_id", remedy=_ANOTHER)


def _no_staging(table_id: str) -> NotFound:
    return NotFound("staging table", table_id, field="table_id", remedy="create a staging table and write version 0")


def _used(table_id: str, head: Row, principal: Principal) -> StateConflict:
    """The refusal; which table it became is told to admins only, others may have no right to know."""
    about = {"name": head["name"], "state": head["state"]} if principal.admin else {}
    said = f"the table '{head['name']}' ({head['state']})" if about else "a table"
    return StateConflict(
        "StagingTableUsed",
        f"{table_id} is {said} already",
        field="table_id",
        remedy="create another staging table",
        **about,
    )
