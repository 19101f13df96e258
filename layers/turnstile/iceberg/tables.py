"""Tables by name: find, create, register, rename, drop. Commits are in ``commits``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from turnstile.access.core.grants import Access, owner_for
from turnstile.catalog.clone.core import let_go_of
from turnstile.catalog.commit import Edit, View
from turnstile.catalog.core.entities import IcebergEntity, IcebergTable, IcebergView
from turnstile.catalog.core.paths import Path, dotted, key_of
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.namespaces import require_free
from turnstile.iceberg.context import Context
from turnstile.iceberg.core.draft import new_table
from turnstile.iceberg.core.metadata import TableMetadata, check_foreign
from turnstile.iceberg.locations import LocationClaim, check_paths
from turnstile.store.core.errors import InvalidRequest, NotFound, StateConflict
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
        self._world, self._files, self._places = context.world, context.files, context.places

    def load(self, catalog: str, namespace: Path, table: str) -> LoadedTable:
        """A table as the request reads it: one request warm; cold also the tree, the entity and the metadata file.

        Raises:
            NotFound: no such catalog, namespace or table.
        """
        return self.open(self.find(catalog, namespace, table))

    def open(self, entity: IcebergEntity) -> LoadedTable:
        """A table that was found, with its metadata: one read, none when cached. Raises as ``Context.opening``."""
        assert isinstance(entity, IcebergTable)
        with self._context.opening(entity, "table"):
            return LoadedTable(entity, self._files.table(entity.metadata))

    def find(self, catalog: str, namespace: Path, table: str) -> IcebergTable:
        """The entity of a table; raises NotFound."""
        path = (*namespace, table)
        found = entity_at(self._context.look(catalog, path, "table"), path, "table")
        assert isinstance(found, IcebergTable)
        return found

    def create(self, catalog: str, namespace: Path, asked: CreateTable) -> LoadedTable:
        """A new, empty table; with ``stage_create`` only its location and its metadata, for a commit to create it.

        Raises:
            InvalidRequest: not a name, a schema that is none, a location that cannot be used.
            NotFound: no such catalog or namespace.
            AlreadyExists: the name is taken.
            StateConflict: ``LocationOwned``.
        """
        name(asked.name)
        principal, make = self._context.principal, partial(self._new, asked)
        if asked.location is None:
            place, made = self._places.choose(catalog, namespace, asked.name, principal, make)
        else:
            self._require_free(catalog, namespace, asked.name)
            place = self._places.given(self._world.ids.uuid(), asked.location)
            made = make(place)
        if asked.stage_create:
            return LoadedTable(None, made)
        file = self._files.write(place.location, made)
        return LoadedTable(self._place(catalog, namespace, asked.name, place, file, wrote=True), made)

    def register(
        self, catalog: str, namespace: Path, name: str, metadata_location: str, *, overwrite: bool = False
    ) -> LoadedTable:
        """A table that exists in storage, from its metadata file. Its files are left alone.

        Raises:
            InvalidRequest: not a name, no metadata, a location that cannot be its own.
            PermissionDenied: whoever asks may not use files that belong to no table.
            NotFound: no such catalog or namespace, no such file.
            AlreadyExists: the name is taken.
            StateConflict: ``LocationOwned``: another table has it, or this one has another name.
        """
        name(asked.name)
        if asked.overwrite:
            raise InvalidRequest("a table cannot be overwritten", field="overwrite", remedy="drop it first")
        self._require_free(catalog, namespace, asked.name)
        self._context.elsewhere()  # before the file is looked at: whether it is there is nobody else's business (I12)
        file, metadata = self._files.foreign(asked.metadata_location)
        check_foreign(metadata)
        check_paths(metadata.properties, metadata.location.rstrip("/"))
        place = self._places.found(metadata.table_uuid, metadata.location)
        return LoadedTable(self._place(catalog, namespace, asked.name, place, file, wrote=False), metadata)

    def rename(self, catalog: str, source: Path, target: Path, what: str = "table") -> None:
        """Give a table or a view another name, perhaps in another namespace of the same catalog. Two requests and one
        swap of the HEAD.

        Raises:
            InvalidRequest: not a name.
            NotFound: no such catalog, table, or namespace to move to.
            AlreadyExists: the new name is taken.
        """
        source = (*levels(asked.source.namespace, "source.namespace"), name(asked.source.name, "source.name"))
        target = levels(asked.destination.namespace, "destination.namespace")
        wanted = (*target, name(asked.destination.name, "destination.name"))
        same = key_of(source) == key_of(wanted)

        def change(view: View) -> Edit | None:
            old = entity_at(view, source, what)
            if same and old.name == wanted[-1]:
                return None
            view.tree.parent(target)
            if not same:
                require_free(view, wanted, "destination")
            return Edit(
                f"rename {what} {dotted(*source)} to {dotted(*wanted)}",
                put={wanted: msgspec.structs.replace(old, name=wanted[-1])},
                remove=() if same else (source,),
            )

        self._context.commit(catalog, change)

    def drop(self, catalog: str, path: Path, *, purge: bool, what: str = "table") -> IcebergEntity:
        """Drop a table or a view and return what it was. Its files stay, or gc removes them after the grace period.

        Raises:
            NotFound: no such catalog, namespace or table.
            NotOffered: ``purge`` of a table whose location was not chosen here.
            StateConflict: ``LocationOwned``: ``purge``, and another table's HEAD has this uuid; ``TableHasClones``: no
                purge, and clones need its files.
        """
        gone: list[IcebergEntity] = []

        def change(view: View) -> Edit:
            entity = entity_at(view, path, what)
            gone[:] = [entity]
            now, written = self._world.clock.now_ms(), (*view.written(path[:-1]), entity.name)
            writes = (
                self._places.purge(entity, view.tree.catalog, written, now) if purge else self._places.leave(entity)
            )
            writes += let_go_of(self._world.space, [entity])
            return Edit(f"drop {what} {dotted(*path)}", remove=(path,), writes=tuple(writes))

        self._context.commit(catalog, change, on_rejected=_no_tombstone if purge else _again)
        return gone[0]

    def place_view(self, catalog: str, namespace: Path, view: str, place: LocationClaim, file: str) -> IcebergView:
        """A new view whose metadata file is written; as ``create``."""
        now, access = self._world.clock.now_ms(), self._access
        made = IcebergView(view, place.table_id, place.location, file, now, place.managed, access=access)
        self._put(catalog, namespace, made, place, file)
        return made

    @property
    def _access(self) -> Access:
        return Access(owner_for(self._context.principal))

    def _new(self, asked: CreateTable, place: LocationClaim) -> TableMetadata:
        """The metadata of a table to be created at ``place``; raises what refuses it."""
        made = new_table(
            uuid=place.table_id,
            location=place.location,
            schema=asked.schema,
            spec=asked.partition_spec,
            order=asked.write_order,
            properties=asked.properties,
            now=self._world.clock.now_ms(),
        )
        check_paths(made.properties, place.location)
        self._files.fitting(made)
        return made

    def _place(
        self, catalog: str, namespace: Path, table: str, place: LocationClaim, file: str, *, wrote: bool
    ) -> IcebergTable:
        now = self._world.clock.now_ms()
        made = IcebergTable(table, place.table_id, place.location, file, now, place.managed, access=self._access)
        self._put(catalog, namespace, made, place, file if wrote else "")
        return made

    def _put(self, catalog: str, namespace: Path, made: IcebergEntity, place: LocationClaim, file: str) -> None:
        """Name and location in one transaction; ``file`` goes again when that is refused for good."""

        def change(view: View) -> Edit:
            view.tree.parent(namespace)
            path = (*namespace, made.name)
            require_free(view, path, "name")
            writes = self._places.take(place, view.tree.catalog, made.created)
            return Edit(f"create {dotted(*path)}", put={path: made}, writes=tuple(writes))

        with self._context.sweeping([file] if file else []):
            self._context.commit(catalog, change, on_rejected=lost_place(place))

    def _require_free(self, catalog: str, namespace: Path, table: str) -> Tree:
        """Whether the name is free now, before anything is written for nothing."""
        view = self._context.view(catalog)
        view.tree.parent(namespace)
        require_free(view, (*namespace, table), "name")
        return view.tree


def entity_at(view: View, path: Path, what: str = "table") -> IcebergEntity:
    """The Iceberg table (or view) that ``path`` leads to.

    Raises:
        NotFound: the table, also when its namespace is missing or the name is that of something else: Spark looks for a
            namespace called like the table when a name ends in ``branch_...``, and goes on only when it hears so.
    """
    wanted = IcebergTable if what == "table" else IcebergView
    entry = view.tree.find(path)
    entity = view.entity(entry.obj) if entry is not None else None
    if not isinstance(entity, wanted):
        raise NotFound(what, dotted(view.tree.catalog, *path), field=what, remedy="check the name")
    return entity


def lost_place(place: LocationClaim) -> Callable[[Mapping[int, Row | None]], None]:
    """Judges failed writes of ``Places.take``: a location that was given out can be taken once; a claimed one is looked
    at again."""

    def on_rejected(failed: Mapping[int, Row | None]) -> None:
        if place.managed and failed:
            raise StateConflict("LocationOwned", f"location {place.location} is another table's", field="location")

    return on_rejected


def _again(_failed: Mapping[int, Row | None]) -> None:
    """Rows of locations changed since they were read: the change is computed anew from what they are now."""


def _no_tombstone(failed: Mapping[int, Row | None]) -> None:
    """The tombstone of a purge would stand where another HEAD is, which decides what becomes of its own table."""
    if failed:
        raise StateConflict("LocationOwned", "another table has the same uuid", remedy="drop it without a purge")
