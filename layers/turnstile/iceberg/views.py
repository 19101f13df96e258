"""Views: create, load, replace. Dropping and renaming are as for tables."""

from __future__ import annotations

import msgspec

from turnstile.catalog.commit import Edit, View
from turnstile.catalog.core.entities import IcebergView
from turnstile.catalog.core.paths import Path, dotted
from turnstile.iceberg.context import Context
from turnstile.iceberg.core.requirements import AssertViewUuid, check_view
from turnstile.iceberg.core.schema import Schema
from turnstile.iceberg.core.updates import ViewUpdate
from turnstile.iceberg.core.view_updates import applied, new_view
from turnstile.iceberg.core.views import ViewMetadata, ViewVersion
from turnstile.iceberg.locations import LocationClaim
from turnstile.iceberg.tables import Tables, entity_at
from turnstile.store.core.names import check_identifier


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
        self._context, self._world, self._files = context, context.world, context.files

    def find(self, catalog: str, path: Path) -> IcebergView:
        """Returns the entity of a view; raises NotFound."""
        return entity_at(self._context.look(catalog, path, "view"), path, IcebergView)

    def load(self, catalog: str, path: Path) -> LoadedView:
        """Returns a view as the request reads it; raises NotFound."""
        entity = self.find(catalog, path)
        with self._context.opening(entity, "view"):
            return LoadedView(entity, self._files.view(entity.metadata))

    def create(self, catalog: str, namespace: Path, request: CreateView) -> LoadedView:
        """Creates a view. The catalog chooses its location whatever the request names: only metadata files are there, and
        the catalog writes them. Raises InvalidRequest, NotFound and AlreadyExists."""
        check_identifier(request.name, "name")

        def new_metadata(claim: LocationClaim) -> ViewMetadata:
            metadata = new_view(
                uuid=claim.table_id,
                location=claim.location,
                schema=request.schema,
                version=request.view_version,
                properties=request.properties,
                now_ms=self._world.clock.now_ms(),
            )
            self._files.encode(metadata)
            return metadata

        context = self._context
        claim, metadata = context.locations.choose(catalog, namespace, request.name, context.principal, new_metadata)
        file = self._files.write(claim.location, metadata)
        path = (*namespace, request.name)
        return LoadedView(Tables(context).add(IcebergView, catalog, path, claim, file, written=[file]), metadata)

    def replace(self, catalog: str, path: Path, request: ReplaceView) -> LoadedView:
        """Applies updates to a view, and returns it as it is then; raises as ``Commits.commit``."""
        latest: list[LoadedView] = []
        written: list[str] = []

        def change(at: View) -> Edit | None:
            before = entity_at(at, path, IcebergView)
            base, now_ms = self._files.view(before.metadata), self._world.clock.now_ms()
            for requirement in request.requirements:
                check_view(requirement, base)
            metadata = applied(base, request.updates, now_ms)
            if metadata == base:
                latest[:] = [LoadedView(before, base)]
                return None
            written.append(self._files.write(before.location, metadata, before.metadata))
            entity = msgspec.structs.replace(before, metadata=written[-1], updated=now_ms)
            latest[:] = [LoadedView(entity, metadata)]
            return Edit(f"replace view {dotted(*path)}", put={path: entity})

        self._context.commit_files(catalog, change, written)
        self._context.forget([file for file in written if file != latest[0].entity.metadata])
        return latest[0]
