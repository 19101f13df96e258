"""Tables by name: find, load, create, register; and rename and drop, for views as well. Commits are in ``commits``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, TypeVar

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


E = TypeVar("E", bound=IcebergEntity)


class Tables:
    """Operations on tables of one request."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._world, self._files, self._locations = context.world, context.files, context.locations

    def load(self, catalog: str, path: Path) -> LoadedTable:
        """Returns a table as the request reads it: one request when warm; cold also the tree, the entity and the metadata
        file. Raises NotFound."""
        return self.open(self.find(catalog, path))

    def open(self, entity: IcebergTable) -> LoadedTable:
        """Returns a table with its metadata: one read, none when cached; raises as ``Context.opening``."""
        with self._context.opening(entity, "table"):
            return LoadedTable(entity, self._files.table(entity.metadata))

    def find(self, catalog: str, path: Path) -> IcebergTable:
        """Returns the entity of a table; raises NotFound."""
        return entity_at(self._context.look(catalog, path, "table"), path, IcebergTable)

    def create(self, catalog: str, namespace: Path, request: CreateTable) -> LoadedTable:
        """Creates an empty table; with ``stage_create`` only its location and metadata, for a commit to create it. Raises
        InvalidRequest, NotFound, AlreadyExists, and StateConflict (``LocationOwned``)."""
        check_identifier(request.name, "name")
        path = (*namespace, request.name)
        new_metadata = partial(self._new_metadata, request)
        if request.location is None:
            principal = self._context.principal
            claim, metadata = self._locations.choose(catalog, namespace, request.name, principal, new_metadata)
        else:
            _check_free(self._context.view(catalog), path)  # before anything is written
            claim = self._locations.requested(self._world.ids.uuid(), request.location)
            metadata = new_metadata(claim)
        if request.stage_create:
            return LoadedTable(None, metadata)
        file = self._files.write(claim.location, metadata)
        return LoadedTable(self.add(IcebergTable, catalog, path, claim, file, written=[file]), metadata)

    def register(self, catalog: str, path: Path, metadata_location: str, *, overwrite: bool = False) -> LoadedTable:
        """Adds a table that exists in storage, by its metadata file. No file is written or deleted.

        Raises as ``create``, and PermissionDenied if the principal may not use files that belong to no table. LocationOwned:
        another table has the location, or this one has another name.
        """
        check_identifier(path[-1], "name")
        if overwrite:
            raise InvalidRequest("a table cannot be overwritten", field="overwrite", remedy="drop it first")
        _check_free(self._context.view(catalog), path)
        self._context.elsewhere()  # before the file is read: only those who may use it learn whether it exists (I12)
        file, metadata = self._files.foreign(metadata_location)
        check_foreign(metadata)
        check_paths(metadata.properties, metadata.location.rstrip("/"))
        claim = self._locations.registered(metadata.table_uuid, metadata.location)
        return LoadedTable(self.add(IcebergTable, catalog, path, claim, file, written=[]), metadata)

    def rename(self, catalog: str, source: Path, target: Path, kind: type[IcebergEntity] = IcebergTable) -> None:
        """Gives a table or a view another name, perhaps in another namespace of the catalog. Two requests and one swap of
        the HEAD. Raises NotFound, also for the namespace to move to, and AlreadyExists."""
        same = key_of(source) == key_of(target)

        def change(view: View) -> Edit | None:
            entity = entity_at(view, source, kind)
            if same and entity.name == target[-1]:
                return None
            view.tree.parent(target[:-1])
            if not same:
                require_free(view, target, "destination")
            put = {target: msgspec.structs.replace(entity, name=target[-1])}
            message = f"rename {_WORDS[kind]} {dotted(*source)} to {dotted(*target)}"
            return Edit(message, put=put, remove=() if same else (source,))

        self._context.commit(catalog, change)

    def drop(self, kind: type[E], catalog: str, path: Path, *, purge: bool) -> E:
        """Drops a table or a view, and returns its entity. Without ``purge`` its files stay; otherwise gc removes them
        after the grace period. Raises NotFound; with ``purge`` as ``LocationClaims.purge``, and StateConflict
        (``LocationOwned``) if another table's HEAD has its uuid; without as ``LocationClaims.release``."""
        dropped: list[E] = []

        def change(view: View) -> Edit:
            entity = entity_at(view, path, kind)
            dropped[:] = [entity]
            if purge:
                full_path = (*view.written(path[:-1]), entity.name)
                writes = self._locations.purge(entity, view.tree.catalog, full_path, self._world.clock.now_ms())
            else:
                writes = self._locations.release(entity)
            writes += let_go_of(self._world.space, [entity])
            return Edit(f"drop {_WORDS[kind]} {dotted(*path)}", remove=(path,), writes=tuple(writes))

        self._context.commit(catalog, change, _purge_rejected if purge else None)
        return dropped[0]

    def add(self, kind: type[E], catalog: str, path: Path, claim: LocationClaim, file: str, *, written: list[str]) -> E:
        """Gives a new table or view with the metadata ``file`` its name and location in one transaction; raises as ``create``.
        The files ``written`` are deleted when that fails."""
        access, now_ms = self._context.owned, self._world.clock.now_ms()
        entity = kind(path[-1], claim.table_id, claim.location, file, now_ms, claim.managed, access=access)

        def change(view: View) -> Edit:
            _check_free(view, path)
            writes = self._locations.claim(claim, view.tree.catalog, now_ms)
            return Edit(f"create {dotted(*path)}", put={path: entity}, writes=tuple(writes))

        with self._context.sweeping(written):
            self._context.commit(catalog, change, claim_rejected(claim))
        return entity

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


_WORDS: Final[dict[type, str]] = {IcebergTable: "table", IcebergView: "view"}


def entity_at(view: View, path: Path, kind: type[E]) -> E:
    """Returns the table or view at ``path``. Raises NotFound of the table, also when its namespace is missing: for a name
    that ends in ``branch_...`` Spark looks for a namespace called like the table, and goes on only with this refusal."""
    entry = view.tree.find(path)
    entity = view.entity(entry.obj) if entry is not None else None
    if not isinstance(entity, kind):
        what = _WORDS[kind]
        raise NotFound(what, dotted(view.tree.catalog, *path), field=what, remedy="check the name")
    return entity


def _check_free(view: View, path: Path) -> None:
    view.tree.parent(path[:-1])
    require_free(view, path, "name")


def claim_rejected(claim: LocationClaim) -> RejectionHandler:
    """Handles rejected writes of ``LocationClaims.claim``: a chosen location is claimed once; others are read again."""

    def rejected(failed: Mapping[int, Row | None]) -> None:
        if claim.managed and failed:
            message = f"location {claim.location} is another table's"
            raise StateConflict(ErrorType.LOCATION_OWNED, message, field="location")

    return rejected


def _purge_rejected(failed: Mapping[int, Row | None]) -> None:
    """The purge's tombstone would replace the HEAD of another table."""
    if failed:
        remedy = "drop it without a purge"
        raise StateConflict(ErrorType.LOCATION_OWNED, "another table has the same uuid", remedy=remedy)
