"""Views: create, load, replace, register, drop. Renaming is as for tables.

The location in a view's metadata is a text that clients may set: nothing but metadata files belongs
to a view, and these are where the catalog chooses, or at the ``write.metadata.path`` that the view
was created with.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import msgspec

from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import IcebergView
from turnstile.catalog.core.paths import Path, dotted_name
from turnstile.catalog.reader import View
from turnstile.iceberg.context import Context
from turnstile.iceberg.core.requirements import AssertViewUuid, check_view
from turnstile.iceberg.core.schema import Schema
from turnstile.iceberg.core.updates import ViewUpdate
from turnstile.iceberg.core.view_updates import apply_updates, new_view
from turnstile.iceberg.core.views import ViewMetadata, ViewVersion
from turnstile.iceberg.files import bucket_errors, nothing_applied
from turnstile.iceberg.locations import METADATA_PATH, LocationClaim
from turnstile.iceberg.tables import Tables, check_free, entity_at
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.locations import normalise
from turnstile.store.core.names import check_name


class CreateView(msgspec.Struct, frozen=True, rename="kebab"):
    """A view to create."""

    name: str
    schema: Schema
    view_version: ViewVersion
    location: str | None = None
    properties: dict[str, str] = {}


class ReplaceView(msgspec.Struct, frozen=True, rename="kebab"):
    """Changes of a view."""

    updates: tuple[ViewUpdate, ...]
    requirements: tuple[AssertViewUuid, ...] = ()


class LoadedView(msgspec.Struct, frozen=True):
    """A view and its metadata."""

    entity: IcebergView
    metadata: ViewMetadata


class Views:
    """Operations on views of one request."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._world = context.world
        self._files = context.files

    def find(self, catalog: str, path: Path) -> IcebergView:
        """Returns the entity of a view; raises NotFound."""
        return entity_at(self._context.look(catalog, path, "view"), path, IcebergView)

    def load(self, catalog: str, path: Path) -> LoadedView:
        """Returns a view as the request reads it; raises NotFound."""
        entity = self.find(catalog, path)
        with self._context.opening(entity, "view"):
            return LoadedView(entity, self._files.view(entity))

    def create(self, catalog: str, namespace: Path, request: CreateView) -> LoadedView:
        """Creates a view. Raises InvalidRequest, NotFound and AlreadyExists; for
        ``write.metadata.path`` as ``LocationClaims.of_request``."""
        path = (*namespace, check_name(request.name, "name"))
        if request.location is not None:
            normalise(request.location)

        def new_metadata(claim: LocationClaim) -> ViewMetadata:
            metadata = new_view(
                uuid=claim.table_id,
                location=request.location or claim.metadata_location,
                schema=request.schema,
                version=request.view_version,
                properties=request.properties,
                now_ms=self._world.clock.now_ms(),
            )
            self._files.encode(metadata)
            return metadata

        return self._add(catalog, path, new_metadata, request.properties.get(METADATA_PATH))

    def register(self, catalog: str, path: Path, metadata_location: str) -> LoadedView:
        """Creates a view with the content of a metadata file, which is only read: the view has a
        uuid, a location and files of its own. Raises as ``create``, NotFound for the file, and
        PermissionDenied if the principal may not use files that belong to no view.
        """
        path = (*path[:-1], check_name(path[-1], "name"))
        check_free(self._context.view(catalog), path, IcebergView)
        self._context.elsewhere()  # before the file is read: only those who may use it learn whether it exists (I12)
        content = self._files.foreign_view(self._context.locations.check_served(metadata_location, "metadata-location"))
        properties = {name: value for name, value in content.properties.items() if name != METADATA_PATH}

        def new_metadata(claim: LocationClaim) -> ViewMetadata:
            uuid = claim.table_id
            location = claim.location
            metadata = msgspec.structs.replace(content, view_uuid=uuid, location=location, properties=properties)
            self._files.encode(metadata)
            return metadata

        return self._add(catalog, path, new_metadata)

    def _add(
        self,
        catalog: str,
        path: Path,
        new_metadata: Callable[[LocationClaim], ViewMetadata],
        metadata_path: str | None = None,
    ) -> LoadedView:
        tables = Tables(self._context)
        if metadata_path is None:
            claim, metadata = tables.place(IcebergView, catalog, path, new_metadata)
        else:
            check_free(self._context.view(catalog), path, IcebergView)  # before anything is written
            claim = self._context.locations.of_request(self._world.ids.uuid(), metadata_path)
            metadata = new_metadata(claim)
        with bucket_errors(f"properties.{METADATA_PATH}") if metadata_path is not None else nullcontext():
            file = self._files.write(claim.metadata_location, metadata)
        return LoadedView(tables.add(IcebergView, catalog, path, claim, file, written=[file.path]), metadata)

    def replace(self, catalog: str, path: Path, request: ReplaceView) -> LoadedView:
        """Applies updates to a view, and returns it as it is then; raises as ``Commits.commit``."""
        if self._context.first_look is not None:
            self._context.first_look.require_current(catalog, path)
        latest: list[LoadedView] = []
        written: list[str] = []

        @nothing_applied()
        def change(at: View) -> Edit | None:
            before = entity_at(at, path, IcebergView)
            base = self._files.view(before)
            now_ms = self._world.clock.now_ms()
            for requirement in request.requirements:
                check_view(requirement, base)
            metadata = apply_updates(base, request.updates, now_ms)
            _check_metadata_path(metadata, base, before)
            if metadata == base:
                latest[:] = [LoadedView(before, base)]
                return None
            file = self._files.write(before.root, metadata, before)
            written.append(file.path)
            entity = msgspec.structs.replace(before, metadata=file.path, digest=file.digest, updated=now_ms)
            latest[:] = [LoadedView(entity, metadata)]
            return Edit(f"replace view {dotted_name(*path)}", put={path: entity})

        self._context.commit_files(catalog, change, written)
        self._context.forget([file for file in written if file != latest[0].entity.metadata])
        return latest[0]

    def drop(self, catalog: str, path: Path) -> None:
        """Drops a view: gc removes its files after the grace period if the catalog chose their
        location, else they stay."""
        managed = self.find(catalog, path).managed
        Tables(self._context).drop(IcebergView, catalog, path, purge=managed)


def _check_metadata_path(metadata: ViewMetadata, base: ViewMetadata, entity: IcebergView) -> None:
    """Raises InvalidRequest if updates put a view's metadata files elsewhere, or its location is
    none."""
    path = metadata.properties.get(METADATA_PATH)
    if path != base.properties.get(METADATA_PATH) and path is not None and normalise(path) != entity.location:
        raise InvalidRequest(
            f"the metadata files of a view stay at {entity.location}",
            field=f"updates.{METADATA_PATH}",
            remedy="drop the view, and create it again with the other path",
        )
    if metadata.location != base.location:
        normalise(metadata.location)
