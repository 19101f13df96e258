"""Creates coordinated Delta tables, in three steps:

    1  staging table      ``Staging``: a fresh uuid and a location. One row, nothing else; the name
                          is not reserved
    2  version 0          the client writes ``_delta_log/00000000000000000000.json`` below the
                          location
    3  registration       ``Registrar``: validates version 0 and creates the table, in one
                          transaction (I9)

A client that crashes before 3 leaves a staging row and perhaps files: gc collects both after a
while.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from turnstile.catalog.changes.commit import CatalogChange, Committer
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Table
from turnstile.catalog.core.location_rows import owner_row
from turnstile.catalog.core.paths import Path, check_path, dotted_name, fold, managed_location, stored_name
from turnstile.catalog.core.rows import AWAITED, OPEN, new_staging, use_staging
from turnstile.catalog.locations import Zones
from turnstile.catalog.namespaces import require_free
from turnstile.catalog.reader import CatalogReader, View
from turnstile.delta.core.content import Content, expectation_properties, read_content
from turnstile.delta.core.head import ROWS_UNREAD, new_head_row
from turnstile.delta.core.metadata import DeltaMetadata, first_metadata
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.prepare import NewRows, RowsCheck, timestamp_ahead
from turnstile.rights.grants import OPERATOR, Access, Principal, owner_for
from turnstile.store.core.errors import (
    ErrorType,
    InvalidCommit,
    NotFound,
    PermissionDenied,
    StateConflict,
    TurnstileError,
)
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import check_comment, check_identifier, check_name, check_uuid, published_path
from turnstile.store.core.rows import Space
from turnstile.store.core.writes import Insert, Row, new_row
from turnstile.store.ports import Rejected, World

REQUIRED_FEATURES: Final = ("catalogManaged", "vacuumProtocolCheck", "inCommitTimestamp")
"""Table features that clients are told to list in version 0. ``delta.core`` refuses a table without
the first or the last; one without ``vacuumProtocolCheck`` is accepted, but Delta's Spark cannot
open it.
"""

UUID_PROPERTY: Final = "io.unitycatalog.tableId"

_ANOTHER: Final = "create a staging table of your own, and register that"


class StagingTable(msgspec.Struct, frozen=True):
    """The data that a client needs to write version 0."""

    table_id: str
    location: str
    required_features: tuple[str, ...]
    required_properties: dict[str, str]


class Staging:
    """Creates staging tables; managed tables live below ``lake_root``."""

    def __init__(self, world: World, reader: CatalogReader, zones: Zones, lake_root: str) -> None:
        self._world = world
        self._reader = reader
        self._zones = zones
        self._root = lake_root

    def create(
        self,
        catalog: str,
        namespace: Path,
        name: str,
        *,
        creator: str = "",
        free_names: bool = False,
        new_namespace: bool = False,
        check: Callable[[str, str], object] = lambda _table_id, _location: None,
    ) -> StagingTable:
        """Returns a fresh staging table, which ``creator`` may register (empty: admins only). Two
        requests when warm. A repeated request gets another one; gc collects the first. ``check`` is
        called with uuid and location before anything is written; if it raises, nothing is left
        behind. Raises InvalidRequest, NotFound; AlreadyExists if the name is taken now. It may also
        be taken later: names are not reserved. ``free_names``: as Iceberg's clients choose them.
        ``new_namespace``: the namespace must not be there: it is created by the transaction that
        registers the table.
        """
        check_path(namespace)
        (check_name if free_names else check_identifier)(name, "name")
        root = self._zones.ensure(self._root)
        view = View(self._reader.current(catalog), self._reader.store)
        if new_namespace:
            require_free(view, namespace, "namespace")
            written = _written_if_there(view, namespace)
        else:
            view.tree.parent(namespace)
            require_free(view, (*namespace, name), "name")
            written = view.written_levels(namespace)
        table_id = self._world.ids.uuid()
        location = managed_location(root, view.tree.catalog, written, table_id)
        check(table_id, location)
        answer = self._world.refs.write(
            new_staging(
                key=self._world.space.staging(table_id),
                table_id=table_id,
                catalog=view.tree.catalog,
                namespace=stored_name(*written),
                name=name,
                location=location,
                creator=creator,
                now=self._world.clock.now_ms(),
            )
        )
        if isinstance(answer, Rejected) and (answer.row or {}).get("location") != location:
            raise TurnstileError(f"uuid {table_id} was given out twice")
        properties = {"delta.enableInCommitTimestamps": "true", UUID_PROPERTY: table_id}
        return StagingTable(table_id, location, REQUIRED_FEATURES, properties)


def _written_if_there(view: View, namespace: Path) -> Path:
    """Returns the levels of a new namespace: existing ones as they were written. Raises NotFound if
    an entity above it is something else."""
    depth = 0
    while depth < len(namespace) and view.tree.find(namespace[: depth + 1]) is not None:
        depth += 1
    return (*view.written_levels(namespace[:depth]), *namespace[depth:])


def read_version_zero(world: World, limits: Limits, location: str, table_id: str) -> Content:
    """Reads and validates ``_delta_log/00000000000000000000.json`` below ``location``, before there
    is a table. Raises NotFound, or InvalidCommit that names the member which breaks the
    catalog-managed contract.
    """
    path = published_path(0)
    file = world.storages.open(location).read(path, limit=limits.staged_bytes)
    if file is None:
        raise NotFound("commit", path, field="table_id", remedy="write version 0 before registering the table")
    raw, stat = file
    content = read_content(raw, whole=len(raw) == stat.size, first_version=True)
    ahead = timestamp_ahead(content.ict, world.clock.now_ms(), limits.clock_skew_ms)
    if ahead is not None:
        raise ahead
    uuid = (content.metadata or {}).get("configuration", {}).get(UUID_PROPERTY)
    if uuid is not None and str(uuid).lower() != table_id:
        raise InvalidCommit(
            f"metaData.configuration has {UUID_PROPERTY} {uuid!r}, not this table's id {table_id}",
            field=f"metaData.configuration.{UUID_PROPERTY}",
            remedy="leave the property out, or set it to table_id",
        )
    return content


def first_row_hwm(content: Content) -> int | None:
    """Returns the row-id high-water mark of version 0; None without row tracking."""
    features = (content.protocol or {}).get("writerFeatures") or []
    if "rowTracking" not in features:
        return None
    if not content.whole:
        return ROWS_UNREAD
    return -1 if content.hwm is None else content.hwm


def first_head(space: Space, view: View, path: Path, *, table: Table, metadata: str, zero: Content) -> Row:
    """Returns the HEAD of a managed table that has version 0 and the metadata in obj
    ``metadata``."""
    return new_head_row(
        key=space.table(table.table_id),
        table_id=table.table_id,
        catalog=view.tree.catalog,
        name=dotted_name(view.tree.catalog, *view.written_levels(path[:-1]), table.name),
        location=table.location,
        metadata=metadata,
        version=0,
        ict=zero.ict,
        row_hwm=first_row_hwm(zero),
        created=table.created,
        managed=True,
    )


class Registration(msgspec.Struct, frozen=True):
    """The table, and whether an earlier request had registered it."""

    table_id: str
    replayed: bool


class Registrar:
    """Registers staging tables.

        1  catalog, staging, HEAD     one batch; if there is a HEAD already, the table was
                                      registered before (I3)
        2  version 0                  read and validated
        3  objs                       table metadata; entity and catalog commit
        4  one transaction            catalog HEAD swapped, table HEAD new, staging row used up,
                                      location owned

    A crash before 4 leaves the staging table as it was, to be registered again or collected. If the
    answer of 4 is lost, the committer finds out; if the response to the client is lost, 1 of the
    repeated request does.
    """

    def __init__(
        self,
        world: World,
        reader: CatalogReader,
        committer: Committer,
        metadata: MetadataStore,
        limits: Limits,
        *,
        rows_check: RowsCheck | None = None,
    ) -> None:
        self._world = world
        self._reader = reader
        self._committer = committer
        self._metadata = metadata
        self._limits = limits
        self._rows_check = rows_check

    def register(
        self,
        catalog: str,
        namespace: Path,
        name: str,
        table_id: str,
        *,
        comment: str | None = None,
        principal: Principal = OPERATOR,
        describe: Callable[[Content], DeltaMetadata] = first_metadata,
    ) -> Registration:
        """Makes the staging table ``table_id`` the table ``name`` of ``principal``, the creator of
        the staging table or an admin. Four requests when warm, however large the catalog.
        ``describe`` returns the table metadata for the content of version 0.

        Raises InvalidRequest, NotFound, InvalidCommit (version 0 breaks the contract), TooLarge
        (the comment), PermissionDenied (I12), the errors of ``describe``; AlreadyExists: it can
        still be registered under another name; StateConflict ``StagingTableUsed``: it is a table of
        another name already; OutcomeUnknown: send the same request again.
        """
        check_path(namespace)
        check_identifier(name, "name")
        check_comment(comment)
        table_id = check_uuid(table_id)
        path = (*namespace, name)
        space = self._world.space
        catalog_key = self._reader.key(catalog)
        staging_key = space.staging(table_id)
        head_key = space.table(table_id)
        rows = self._world.refs.read_many([catalog_key, staging_key, head_key])
        tree = self._reader.at(catalog, rows.get(catalog_key), path)
        if head_key in rows:
            entry = tree.find(path)
            if entry is None or entry.table_id != table_id:
                raise _already_used(table_id, rows[head_key], principal)
            return Registration(table_id, replayed=True)
        staging = open_staging(rows.get(staging_key), table_id, tree.catalog, principal)
        require_free(View(tree, self._reader.store), path, "name")
        registered = _Registered(principal)
        table = Table(name, table_id, staging["location"], 0, comment=comment, access=Access(owner_for(principal)))
        prepared = self._registration(tree.catalog, path, table, describe, registered)

        def change(view: View) -> Edit | None:
            entry = view.tree.find(path)
            if entry is not None and entry.table_id == table_id:
                return None
            return prepared.apply(view)

        self._committer.commit(catalog, change, row=rows[catalog_key], on_rejected=prepared.on_rejected)
        return Registration(table_id, replayed=registered.head is not None)

    def prepare(
        self, catalog: str, namespace: Path, name: str, table_id: str, *, comment: str | None, principal: Principal
    ) -> CatalogChange:
        """As ``register``, to be committed with others; steps 1 and 2. A table that is registered
        already is refused, since the others would be changed after it."""
        check_path(namespace)
        check_identifier(name, "name")
        check_comment(comment)
        table_id = check_uuid(table_id)
        space = self._world.space
        staging_key = space.staging(table_id)
        head_key = space.table(table_id)
        rows = self._world.refs.read_many([staging_key, head_key])
        registered = _Registered(principal)
        if (head := rows.get(head_key)) is not None:
            registered.head = head
            return CatalogChange(lambda _: registered.refuse(table_id))
        staging = open_staging(rows.get(staging_key), table_id, catalog, principal)
        table = Table(name, table_id, staging["location"], 0, comment=comment, access=Access(owner_for(principal)))
        return self._registration(catalog, (*namespace, name), table, first_metadata, registered)

    def _registration(
        self,
        catalog: str,
        path: Path,
        table: Table,
        describe: Callable[[Content], DeltaMetadata],
        registered: _Registered,
    ) -> CatalogChange:
        """Step 2, the metadata of 3, and the change of 4, of ``table``, which is created now."""
        table_id = table.table_id
        namespace = path[:-1]
        name = path[-1]
        space = self._world.space
        staging_key = space.staging(table_id)
        zero = read_version_zero(self._world, self._limits, table.location, table_id)
        described = describe(zero)
        self._check_rows(described, table, zero, dotted_name(catalog, *path))
        metadata = self._metadata.put(catalog, table_id, described, self._world.clock.now_ms())
        table = msgspec.structs.replace(table, created=self._world.clock.now_ms())

        def change(view: View) -> Edit | None:
            registered.refuse(table_id)
            view.tree.parent(namespace)
            require_free(view, path, "name")
            full = dotted_name(view.tree.catalog, *view.written_levels(namespace), name)
            head = first_head(space, view, path, table=table, metadata=metadata, zero=zero)
            owner = owner_row(space, table.location, table_id, view.tree.catalog, table.created)
            writes = (Insert(head, (new_row("I2"),)), use_staging(staging_key), owner)
            return Edit(f"create table {full}", put={path: table}, writes=writes)

        def on_rejected(failed: Mapping[int, Row | None]) -> None:
            head = failed.get(0)
            if head is not None:  # the next tree says whether it was registered under this name
                registered.head = head
            elif 1 in failed:
                raise _no_staging(table_id)
            elif 2 in failed:
                problem = f"location {table.location} has another owner"
                raise StateConflict(ErrorType.LOCATION_OWNED, problem, field="table_id", remedy=_ANOTHER)

        return CatalogChange(change, on_rejected)

    def _check_rows(self, described: DeltaMetadata, table: Table, zero: Content, name: str) -> None:
        """Raises InvalidCommit for rows of version 0 that break an expectation of the table."""
        if self._rows_check is None or not expectation_properties(described.metadata):
            return
        rows = NewRows(described, "", table.location, zero.uses, table.access.owner, name)
        refusal = self._rows_check.refusal(rows)
        if refusal is not None:
            raise refusal


class _Registered:
    """The HEAD of the table, if another request registers the staging table meanwhile."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal
        self.head: Row | None = None

    def refuse(self, table_id: str) -> None:
        """Raises StateConflict if it was registered meanwhile."""
        if self.head is not None:
            raise _already_used(table_id, self.head, self._principal)


def check_creator(staging: Row, principal: Principal) -> None:
    """Requires that a staging table is used by its creator, or by an admin; one without a creator
    is for admins. Raises PermissionDenied (I12)."""
    if not principal.admin and staging["creator"] != principal.name:
        raise PermissionDenied("the staging table was created by another principal", field="table_id", remedy=_ANOTHER)


def open_staging(staging: Row | None, table_id: str, catalog: str, principal: Principal) -> Row:
    """Returns the row of a staging table that ``principal`` may register in ``catalog``. Raises
    NotFound, PermissionDenied; StateConflict ``StagingTableUsed`` for one that has a name."""
    if staging is None or fold(staging["catalog"]) != fold(catalog) or staging["state"] not in (OPEN, AWAITED):
        raise _no_staging(table_id)
    check_creator(staging, principal)
    if staging["state"] == AWAITED:
        problem = f"{table_id} is registered already, under another name, and its version 0 is awaited"
        raise StateConflict(ErrorType.STAGING_TABLE_USED, problem, field="table_id", remedy=_ANOTHER)
    return staging


def _no_staging(table_id: str) -> NotFound:
    return NotFound("staging table", table_id, field="table_id", remedy="create a staging table and write version 0")


def _already_used(table_id: str, head: Row, principal: Principal) -> StateConflict:
    """Only admins learn which table it became: others may have no right to know."""
    details = {"name": head["name"], "state": head["state"]} if principal.admin else {}
    table = f"the table '{head['name']}' ({head['state']})" if details else "a table"
    problem = f"{table_id} is {table} already"
    remedy = "create another staging table"
    return StateConflict(ErrorType.STAGING_TABLE_USED, problem, field="table_id", remedy=remedy, **details)
