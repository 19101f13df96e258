"""Tables by name: find, load, create, register; and rename and drop, for views as well. Commits are
in ``commits``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Final, TypeVar

import msgspec

from turnstile.catalog.branches import require_not_of_catalog
from turnstile.catalog.changes.waiting import Edit, RejectionHandler
from turnstile.catalog.clone.core import let_go_of
from turnstile.catalog.core.branches import is_inherited
from turnstile.catalog.core.entities import (
    ICEBERG_TABLE,
    ICEBERG_VIEW,
    NAMESPACE,
    TABLE,
    IcebergEntity,
    IcebergTable,
    Table,
)
from turnstile.catalog.core.paths import Path, dotted_name, key_of
from turnstile.catalog.reader import View
from turnstile.iceberg.context import Context
from turnstile.iceberg.core.draft import new_table
from turnstile.iceberg.core.metadata import TableMetadata, check_foreign
from turnstile.iceberg.core.partition import PartitionSpec, SortOrder
from turnstile.iceberg.core.schema import Schema
from turnstile.iceberg.expectations.properties import check_expectations
from turnstile.iceberg.files import StoredFile, bucket_errors
from turnstile.iceberg.locations import LocationClaim, check_paths
from turnstile.iceberg.scans.delta_scans import is_readable, read_only
from turnstile.store.core.errors import AlreadyExists, ErrorType, InvalidRequest, NotFound, StateConflict
from turnstile.store.core.locations import normalise
from turnstile.store.core.names import check_name
from turnstile.store.core.writes import Row, Write


class CreateTable(msgspec.Struct, frozen=True, rename="kebab"):
    """A table to create, now or (``stage_create``) with a later commit."""

    name: str
    schema: Schema
    location: str | None = None
    partition_spec: PartitionSpec | None = None
    write_order: SortOrder | None = None
    stage_create: bool = False
    properties: dict[str, str] = {}


class LoadedTable(msgspec.Struct, frozen=True):
    """A table: its entity (None as long as it is only staged), and its metadata. ``content``: the
    bytes of its metadata file, where they are at hand."""

    entity: IcebergTable | None
    metadata: TableMetadata
    content: bytes = b""


E = TypeVar("E", bound=IcebergEntity)
T = TypeVar("T")


class Tables:
    """Operations on tables of one request."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._world = context.world
        self._files = context.files
        self._locations = context.locations

    def load(self, catalog: str, path: Path) -> LoadedTable:
        """Returns a table as the request reads it: one request when warm; cold also the tree, the
        entity and the metadata file. Raises NotFound."""
        return self.open(self.find(catalog, path))

    def open(self, entity: IcebergTable) -> LoadedTable:
        """Returns a table with its metadata: one read, none when cached; raises as
        ``Context.opening``."""
        with self._context.opening(entity, "table"):
            return LoadedTable(entity, self._files.table(entity))

    def find(self, catalog: str, path: Path) -> IcebergTable:
        """Returns the entity of a table; raises NotFound."""
        return entity_at(self._context.look(catalog, path, "table"), path, IcebergTable)

    def find_any(self, catalog: str, path: Path) -> IcebergTable | Table:
        """As ``find``; or of a Delta table, in the present: of the past, only Iceberg tables are
        served. Raises NotFound."""
        view = self._context.look(catalog, path, "table")
        entry = view.tree.find(path)
        entity = view.entity(entry.obj) if entry is not None else None
        if not isinstance(entity, Table) or not is_readable(entity):
            return entity_at(view, path, IcebergTable)
        if self._context.as_of is not None:
            remedy = "read a snapshot of the table in the present catalog"
            raise NotFound("table", dotted_name(catalog, *path), field="table", remedy=remedy)
        assert entry is not None
        if not is_inherited(view.tree, entry):
            return entity
        own = view.store.make_own(view.tree.catalog, path)  # the catalog's HEAD is not what the branch shows (I28)
        entity = view.store.entity(own.catalog, own.table(path[:-1], path[-1]).obj)
        assert isinstance(entity, Table)
        return entity

    def create(self, catalog: str, namespace: Path, request: CreateTable) -> LoadedTable:
        """Creates an empty table; with ``stage_create`` only its location and metadata, for a
        commit to create it. The catalog chooses the location if the request has none, or one that
        its client derives from the namespace's. Raises InvalidRequest, NotFound, AlreadyExists, and
        StateConflict (``LocationOwned``).
        """
        path = (*namespace, check_name(request.name, "name"))
        new_metadata = partial(self._new_metadata, request)
        location = request.location
        if location is not None and self._locations.is_derived(catalog, namespace, location):
            location = None
        if location is None:
            claim, metadata = self.place(IcebergTable, catalog, path, new_metadata)
        else:
            check_free(self._context.view(catalog), path, IcebergTable)  # before anything is written
            claim = self._locations.of_request(self._world.ids.uuid(), location)
            metadata = new_metadata(claim)
        if request.stage_create:
            self._files.make_folder(claim.location)
            return LoadedTable(None, metadata)
        with bucket_errors("location") if location is not None else nullcontext():
            file = self._files.write(claim.location, metadata)
        return LoadedTable(self.add(IcebergTable, catalog, path, claim, file, written=[file.path]), metadata)

    def register(self, catalog: str, path: Path, metadata_location: str, *, overwrite: bool = False) -> LoadedTable:
        """Adds a table that exists in storage, by its metadata file. No file is written or deleted.
        With ``overwrite`` a table that has the name is dropped without a purge in the same change,
        or, if the file is of this very table, goes on from it.

        Raises as ``create``, and PermissionDenied if the principal may not use files that belong to
        no table. LocationOwned: another table has the location, or this one has another name.
        """
        path = (*path[:-1], check_name(path[-1], "name"))
        replaced = self._table_to_replace(self._context.view(catalog), path) if overwrite else None
        if replaced is None:
            check_free(self._context.view(catalog), path, IcebergTable)
        self._context.elsewhere()  # before the file is read: only those who may use it learn whether it exists (I12)
        file, metadata = self._files.foreign_table(self._locations.check_served(metadata_location, "metadata-location"))
        check_foreign(metadata)
        check_paths(metadata.properties, metadata.location.rstrip("/"))
        if replaced is not None:
            return LoadedTable(self._replace(catalog, path, file, metadata), metadata)
        claim = self._locations.of_registered_table(metadata.table_uuid, metadata.location)
        return LoadedTable(self.add(IcebergTable, catalog, path, claim, file, written=[]), metadata)

    def _table_to_replace(self, view: View, path: Path) -> IcebergTable | None:
        """The table at ``path``; None if nothing is there. Raises AlreadyExists for anything
        else."""
        entry = view.tree.find(path)
        if entry is None:
            return None
        entity = view.entity(entry.obj)
        if not isinstance(entity, IcebergTable):
            raise already_exists(ICEBERG_TABLE, path, entry.kind)
        return entity

    def _replace(self, catalog: str, path: Path, file: StoredFile, metadata: TableMetadata) -> IcebergTable:
        """Puts the registered table ``metadata`` in the place of the one at ``path``. Raises as
        ``register``, NotFound if that was dropped meanwhile, and StateConflict (``TableHasClones``)
        as a drop.
        """
        added: list[IcebergTable] = []

        def change(view: View) -> Edit:
            before = entity_at(view, path, IcebergTable)
            now_ms = self._world.clock.now_ms()
            if before.table_id.lower() == metadata.table_uuid.lower():
                if normalise(metadata.location) != before.location:
                    problem = f"the file is of this table at another location than {before.location}"
                    raise InvalidRequest(problem, field="metadata-location", remedy="drop the table first")
                added[:] = [msgspec.structs.replace(before, metadata=file.path, digest=file.digest, updated=now_ms)]
                writes: list[Write] = []
            else:
                claim = self._locations.of_registered_table(metadata.table_uuid, metadata.location)
                added[:] = [self._entity(IcebergTable, path[-1], claim, file, now_ms)]
                writes = self._locations.claim(claim, view.tree.catalog, now_ms)
                writes += [*self._locations.release(before), *let_go_of(self._world.space, [before])]
                if len({write.key for write in writes}) < len(writes):
                    problem = (
                        f"both tables lie below one folder outside the lake root, {before.location} and "
                        f"{claim.location}"
                    )
                    raise InvalidRequest(problem, field="overwrite", remedy="drop the table first")
            return Edit(f"register {dotted_name(*path)}", put={path: added[0]}, writes=tuple(writes))

        self._context.commit(catalog, change)
        return added[0]

    def rename(self, catalog: str, source: Path, target: Path, kind: type[IcebergEntity] = IcebergTable) -> None:
        """Gives a table or a view another name, perhaps in another namespace of the catalog. Two
        requests and one swap of the HEAD. Raises NotFound, also for the namespace to move to, and
        AlreadyExists.
        """
        same = key_of(source) == key_of(target)

        def change(view: View) -> Edit | None:
            entity = entity_at(view, source, kind)
            if same and entity.name == target[-1]:
                return None
            view.tree.parent(target[:-1])
            entry = None if same else view.tree.find(target)
            if entry is not None:
                raise _name_taken(
                    f"Cannot rename {dotted_name(*source)} to {dotted_name(*target)}. {_WORDS[entry.kind]} already "
                    "exists",
                    "destination",
                )
            put = {target: msgspec.structs.replace(entity, name=target[-1])}
            message = f"rename {_word(kind)} {dotted_name(*source)} to {dotted_name(*target)}"
            return Edit(message, put=put, remove=() if same else (source,))

        self._context.commit(catalog, change)

    def drop(self, kind: type[E], catalog: str, path: Path, *, purge: bool) -> E:
        """Drops a table or a view, and returns its entity. Without ``purge`` its files stay;
        otherwise gc removes them after the grace period. Raises NotFound; with ``purge`` as
        ``LocationClaims.purge``, and StateConflict (``LocationOwned``) if another table's HEAD has
        its uuid; without as ``LocationClaims.release``.
        """
        dropped: list[E] = []

        require_not_of_catalog(self._context.catalog.reader, catalog, path)

        def change(view: View) -> Edit:
            entity = entity_at(view, path, kind)
            dropped[:] = [entity]
            if purge:
                full_path = (*view.written_levels(path[:-1]), entity.name)
                writes = self._locations.purge(entity, view.tree.catalog, full_path, self._world.clock.now_ms())
            else:
                writes = self._locations.release(entity)
            writes += let_go_of(self._world.space, [entity])
            return Edit(f"drop {_word(kind)} {dotted_name(*path)}", remove=(path,), writes=tuple(writes))

        self._context.commit(catalog, change, _purge_rejected if purge else None)
        return dropped[0]

    def add(
        self, kind: type[E], catalog: str, path: Path, claim: LocationClaim, file: StoredFile, *, written: list[str]
    ) -> E:
        """Gives a new table or view with the metadata ``file`` its name and location in one
        transaction; raises as ``create``. The files ``written`` are deleted when that fails."""
        now_ms = self._world.clock.now_ms()
        entity = self._entity(kind, path[-1], claim, file, now_ms)

        def change(view: View) -> Edit:
            check_free(view, path, kind)
            writes = self._locations.claim(claim, view.tree.catalog, now_ms)
            return Edit(f"create {dotted_name(*path)}", put={path: entity}, writes=tuple(writes))

        with self._context.sweeping(written):
            self._context.commit(catalog, change, claim_rejected(claim))
        return entity

    def _entity(self, kind: type[E], name: str, claim: LocationClaim, file: StoredFile, now_ms: int) -> E:
        access = self._context.owner_access
        managed = claim.managed
        return kind(name, claim.table_id, claim.location, file.path, now_ms, managed, access=access, digest=file.digest)

    def place(
        self, kind: type[IcebergEntity], catalog: str, path: Path, make: Callable[[LocationClaim], T]
    ) -> tuple[LocationClaim, T]:
        """Returns a location for a new table or view, and its metadata, which ``make`` returns for
        it; raises as ``LocationClaims.choose``."""
        try:
            return self._locations.choose(catalog, path[:-1], path[-1], self._context.principal, make)
        except AlreadyExists as error:
            raise already_exists(str(kind.__struct_config__.tag), path, error.details["kind"]) from None

    def _new_metadata(self, request: CreateTable, claim: LocationClaim) -> TableMetadata:
        """The metadata of a new table at ``claim``; raises InvalidRequest or TooLarge."""
        metadata = new_table(
            uuid=claim.table_id,
            location=claim.metadata_location,
            schema=request.schema,
            spec=request.partition_spec,
            order=request.write_order,
            properties=request.properties,
            now_ms=self._world.clock.now_ms(),
        )
        check_paths(metadata.properties, claim.location)
        check_expectations(metadata)
        self._files.encode(metadata)
        return metadata


_WORDS: Final = {ICEBERG_TABLE: "Table", ICEBERG_VIEW: "View", NAMESPACE: "Namespace", TABLE: "Delta table"}
"""The kinds of entries in the words of messages."""


def _word(kind: type[E]) -> str:
    return _WORDS[str(kind.__struct_config__.tag)].lower()


def already_exists(wanted: str, path: Path, existing: str, field: str = "name") -> AlreadyExists:
    """Returns the refusal to make an entry of kind ``wanted`` at ``path``, where one of kind
    ``existing`` is, in the words of Java's catalogs."""
    same = "" if wanted == existing else "with same name "
    return _name_taken(f"{_WORDS[existing]} {same}already exists: {dotted_name(*path)}", field)


def _name_taken(message: str, field: str) -> AlreadyExists:
    return AlreadyExists(message, field=field, remedy="use it, or choose another name")


def entity_at(view: View, path: Path, kind: type[E]) -> E:
    """Returns the table or view at ``path``. Raises NotFound of the table, also when its namespace
    is missing: for a name that ends in ``branch_...`` Spark looks for a namespace called like the
    table, and goes on only with this refusal. Raises UnsupportedTable for a Delta table, which can
    be loaded, where a table is looked for.
    """
    entry = view.tree.find(path)
    entity = view.entity(entry.obj) if entry is not None else None
    if not isinstance(entity, kind):
        if kind is IcebergTable and is_readable(entity):
            raise read_only(dotted_name(view.tree.catalog, *path))
        what = _word(kind)
        is_external = isinstance(entity, Table) and entity.external is not None
        remedy = "it is an external table: read it by its location" if is_external else "check the name"
        raise NotFound(what, dotted_name(view.tree.catalog, *path), field=what, remedy=remedy)
    return entity


def check_free(view: View, path: Path, kind: type[E]) -> None:
    """Raises NotFound unless the namespace of ``path`` exists, and AlreadyExists if something has
    its name."""
    view.tree.parent(path[:-1])
    entry = view.tree.find(path)
    if entry is not None:
        raise already_exists(str(kind.__struct_config__.tag), path, entry.kind)


def claim_rejected(claim: LocationClaim) -> RejectionHandler:
    """Handles rejected writes of ``LocationClaims.claim``: a chosen location is claimed once;
    others are read again."""

    def refuse_claim(failed: Mapping[int, Row | None]) -> None:
        if claim.managed and failed:
            message = f"location {claim.location} is another table's"
            raise StateConflict(ErrorType.LOCATION_OWNED, message, field="location")

    return refuse_claim


def _purge_rejected(failed: Mapping[int, Row | None]) -> None:
    """The purge's tombstone would replace the HEAD of another table."""
    if failed:
        remedy = "drop it without a purge"
        raise StateConflict(ErrorType.LOCATION_OWNED, "another table has the same uuid", remedy=remedy)
