"""Tables by name: find, load, create, register; and rename and drop, for views as well. Commits are in ``commits``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec

from turnstile.catalog.clone.core import let_go_of
from turnstile.catalog.commit import Edit, RejectionHandler, View
from turnstile.catalog.core.entities import IcebergEntity, IcebergTable, IcebergView
from turnstile.catalog.core.paths import Path, dotted, key_of
from turnstile.catalog.namespaces import require_free
from turnstile.iceberg.context import Context
from turnstile.iceberg.core.draft import new_table
from turnstile.iceberg.core.metadata import TableMetadata, check_foreign
from turnstile.iceberg.core.partition import PartitionSpec, SortOrder
from turnstile.iceberg.core.schema import Schema
from turnstile.iceberg.locations import LocationClaim, check_paths
from turnstile.store.core.errors import ErrorType, InvalidRequest, NotFound, StateConflict
from turnstile.store.core.names import check_identifier
from turnstile.store.core.writes import Row


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
    """A table: its entity (None as long as it is only staged), and its metadata."""

    entity: IcebergTable | None
    metadata: TableMetadata


class Tables:
    """Operations on tables of one request."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._world, self._files, self._locations = context.world, context.files, context.locations

    def load(self, catalog: str, namespace: Path, table: str) -> LoadedTable:
        """Returns a table as the request reads it: one request when warm; cold also the tree, the entity and the metadata
        file. Raises NotFound."""
        return self.open(self.find(catalog, namespace, table))

    def open(self, entity: IcebergEntity) -> LoadedTable:
        """Returns a table with its metadata: one read, none when cached; raises as ``Context.opening``."""
        assert isinstance(entity, IcebergTable)
        with self._context.opening(entity, "table"):
            return LoadedTable(entity, self._files.table(entity.metadata))

    def find(self, catalog: str, namespace: Path, table: str) -> IcebergTable:
        """Returns the entity of a table; raises NotFound."""
        path = (*namespace, table)
        entity = entity_at(self._context.look(catalog, path, "table"), path, "table")
        assert isinstance(entity, IcebergTable)
        return entity

    def create(self, catalog: str, namespace: Path, request: CreateTable) -> LoadedTable:
        """Creates an empty table; with ``stage_create`` only its location and metadata, for a commit to create it.

        Raises:
            InvalidRequest: not a name, not a schema, a location that cannot be used.
            NotFound: no such catalog or namespace.
            AlreadyExists: the name is taken.
            StateConflict: ``LocationOwned``.
        """
        check_identifier(request.name, "name")
        new_metadata = partial(self._new_metadata, request)
        if request.location is None:
            claim, metadata = self._locations.choose(
                catalog, namespace, request.name, self._context.principal, new_metadata
            )
        else:
            self._require_free(catalog, namespace, request.name)
            claim = self._locations.requested(self._world.ids.uuid(), request.location)
            metadata = new_metadata(claim)
        if request.stage_create:
            return LoadedTable(None, metadata)
        file = self._files.write(claim.location, metadata)
        return LoadedTable(self._add_table(catalog, namespace, request.name, claim, file, written=[file]), metadata)

    def register(
        self, catalog: str, namespace: Path, table: str, metadata_location: str, *, overwrite: bool = False
    ) -> LoadedTable:
        """Adds a table that exists in storage, by its metadata file. No file is written or deleted.

        Raises:
            InvalidRequest: not a name, not metadata, a location that cannot be its own, or ``overwrite``.
            PermissionDenied: the principal may not use files that belong to no table.
            NotFound: no such catalog or namespace, no such file.
            AlreadyExists: the name is taken.
            StateConflict: ``LocationOwned``: another table has it, or this one has another name.
        """
        check_identifier(table, "name")
        if overwrite:
            raise InvalidRequest("a table cannot be overwritten", field="overwrite", remedy="drop it first")
        self._require_free(catalog, namespace, table)
        self._context.elsewhere()  # before the file is read: only those who may use it learn whether it exists (I12)
        file, metadata = self._files.foreign(metadata_location)
        check_foreign(metadata)
        check_paths(metadata.properties, metadata.location.rstrip("/"))
        claim = self._locations.registered(metadata.table_uuid, metadata.location)
        return LoadedTable(self._add_table(catalog, namespace, table, claim, file, written=[]), metadata)

    def rename(self, catalog: str, source: Path, target: Path, what: str = "table") -> None:
        """Gives a table or a view another name, perhaps in another namespace of the catalog. Two requests and one swap of
        the HEAD.

        Raises:
            NotFound: no such catalog, table, or namespace to move to.
            AlreadyExists: the new name is taken.
        """
        same = key_of(source) == key_of(target)

        def change(view: View) -> Edit | None:
            entity = entity_at(view, source, what)
            if same and entity.name == target[-1]:
                return None
            view.tree.parent(target[:-1])
            if not same:
                require_free(view, target, "destination")
            return Edit(
                f"rename {what} {dotted(*source)} to {dotted(*target)}",
                put={target: msgspec.structs.replace(entity, name=target[-1])},
                remove=() if same else (source,),
            )

        self._context.commit(catalog, change)

    def drop(self, catalog: str, path: Path, *, purge: bool, what: str = "table") -> IcebergEntity:
        """Drops a table or a view, and returns its entity. Without ``purge`` its files stay; otherwise gc removes them
        after the grace period.

        Raises:
            NotFound: no such catalog, namespace or table.
            NotOffered: ``purge`` of a table whose location the catalog did not choose.
            StateConflict: ``LocationOwned``: ``purge``, and another table's HEAD has this uuid; ``TableHasClones``: no
                purge, and clones need its files.
        """
        dropped: list[IcebergEntity] = []

        def change(view: View) -> Edit:
            entity = entity_at(view, path, what)
            dropped[:] = [entity]
            if purge:
                full_path = (*view.written(path[:-1]), entity.name)
                writes = self._locations.purge(entity, view.tree.catalog, full_path, self._world.clock.now_ms())
            else:
                writes = self._locations.release(entity)
            writes += let_go_of(self._world.space, [entity])
            return Edit(f"drop {what} {dotted(*path)}", remove=(path,), writes=tuple(writes))

        self._context.commit(catalog, change, _purge_rejected if purge else _try_again)
        return dropped[0]

    def add_view(self, catalog: str, namespace: Path, view: str, claim: LocationClaim, file: str) -> IcebergView:
        """Gives a new view, whose metadata file is written, its name; raises as ``create``."""
        now_ms = self._world.clock.now_ms()
        entity = IcebergView(
            view, claim.table_id, claim.location, file, now_ms, claim.managed, access=self._context.owned
        )
        self._add(catalog, namespace, entity, claim, [file])
        return entity

    def _add_table(
        self, catalog: str, namespace: Path, table: str, claim: LocationClaim, file: str, *, written: list[str]
    ) -> IcebergTable:
        now_ms = self._world.clock.now_ms()
        entity = IcebergTable(
            table, claim.table_id, claim.location, file, now_ms, claim.managed, access=self._context.owned
        )
        self._add(catalog, namespace, entity, claim, written)
        return entity

    def _add(
        self, catalog: str, namespace: Path, entity: IcebergEntity, claim: LocationClaim, written: list[str]
    ) -> None:
        """Name and location in one transaction; the files ``written`` are deleted when that fails."""

        def change(view: View) -> Edit:
            view.tree.parent(namespace)
            path = (*namespace, entity.name)
            require_free(view, path, "name")
            writes = self._locations.claim(claim, view.tree.catalog, entity.created)
            return Edit(f"create {dotted(*path)}", put={path: entity}, writes=tuple(writes))

        with self._context.sweeping(written):
            self._context.commit(catalog, change, claim_rejected(claim))

    def _new_metadata(self, request: CreateTable, claim: LocationClaim) -> TableMetadata:
        """The metadata of a new table at ``claim``; raises InvalidRequest or TooLarge."""
        metadata = new_table(
            uuid=claim.table_id,
            location=claim.location,
            schema=request.schema,
            spec=request.partition_spec,
            order=request.write_order,
            properties=request.properties,
            now_ms=self._world.clock.now_ms(),
        )
        check_paths(metadata.properties, claim.location)
        self._files.encode(metadata)
        return metadata

    def _require_free(self, catalog: str, namespace: Path, table: str) -> None:
        """Checks that the name is free now, before anything is written."""
        view = self._context.view(catalog)
        view.tree.parent(namespace)
        require_free(view, (*namespace, table), "name")


def entity_at(view: View, path: Path, what: str = "table") -> IcebergEntity:
    """Returns the Iceberg table (or view) at ``path``.

    Raises:
        NotFound: the table, also when its namespace is missing or something else has the name: when a name ends in
            ``branch_...``, Spark looks for a namespace called like the table, and goes on only with this refusal.
    """
    kind = IcebergTable if what == "table" else IcebergView
    entry = view.tree.find(path)
    entity = view.entity(entry.obj) if entry is not None else None
    if not isinstance(entity, kind):
        raise NotFound(what, dotted(view.tree.catalog, *path), field=what, remedy="check the name")
    return entity


def claim_rejected(claim: LocationClaim) -> RejectionHandler:
    """Handles rejected writes of ``LocationClaims.claim``: a chosen location is claimed once; others are read again."""

    def rejected(failed: Mapping[int, Row | None]) -> None:
        if claim.managed and failed:
            raise StateConflict(
                ErrorType.LOCATION_OWNED, f"location {claim.location} is another table's", field="location"
            )

    return rejected


def _try_again(_failed: Mapping[int, Row | None]) -> None:
    """Rows of locations changed since they were read: the change is computed again from the rows of now."""


def _purge_rejected(failed: Mapping[int, Row | None]) -> None:
    """The purge's tombstone would replace the HEAD of another table."""
    if failed:
        raise StateConflict(
            ErrorType.LOCATION_OWNED, "another table has the same uuid", remedy="drop it without a purge"
        )
