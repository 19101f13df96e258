"""Views: create, load, replace. Dropping and renaming are as for tables."""

from __future__ import annotations

import msgspec

from turnstile.catalog.commit import Edit, View
from turnstile.catalog.core.entities import IcebergView
from turnstile.catalog.core.paths import Path, dotted
from turnstile.iceberg.context import Context
from turnstile.iceberg.core.requirements import CommitFailed, check_view
from turnstile.iceberg.core.view_updates import applied, new_view
from turnstile.iceberg.core.views import ViewMetadata
from turnstile.iceberg.locations import LocationClaim
from turnstile.iceberg.tables import Tables, entity_at
from turnstile.store.core.errors import StateConflict


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
        self._context, self._tables = context, Tables(context)
        self._world, self._files = context.world, context.files

    def find(self, catalog: str, namespace: Path, view: str) -> IcebergView:
        """The entity of a view; raises NotFound."""
        path = (*namespace, view)
        found = entity_at(self._context.look(catalog, path, "view"), path, "view")
        assert isinstance(found, IcebergView)
        return found

    def load(self, catalog: str, namespace: Path, view: str) -> LoadedView:
        """A view as the request reads it; raises NotFound."""
        entity = self.find(catalog, namespace, view)
        with self._context.opening(entity, "view"):
            return LoadedView(entity, self._files.view(entity.metadata))

    def create(self, catalog: str, namespace: Path, asked: CreateView) -> LoadedView:
        """A new view. It lives where the catalog puts it, whatever location the request names: nothing but metadata files
        is there, and these the catalog writes.

        Raises:
            InvalidRequest: not a name, a schema or version that is none.
            NotFound: no such catalog or namespace.
            AlreadyExists: the name is taken.
        """
        name(asked.name)

        def make(place: LocationClaim) -> ViewMetadata:
            made = new_view(
                uuid=place.table_id,
                location=place.location,
                schema=asked.schema,
                version=asked.view_version,
                properties=asked.properties,
                now=self._world.clock.now_ms(),
            )
            self._files.fitting(made)
            return made

        places, principal = self._context.places, self._context.principal
        place, made = places.choose(catalog, namespace, asked.name, principal, make)
        file = self._files.write(place.location, made)
        return LoadedView(self._tables.place_view(catalog, namespace, asked.name, place, file), made)

    def replace(self, catalog: str, namespace: Path, view: str, asked: ReplaceView) -> LoadedView:
        """Apply updates to a view.

        Raises:
            NotFound: no such catalog, namespace or view.
            CommitFailed: a requirement does not hold.
            InvalidRequest: an update that cannot be applied.
            OutcomeUnknown: it may have happened.
        """
        path = (*namespace, view)
        latest: list[LoadedView] = []
        written: list[str] = []

        def change(at: View) -> Edit | None:
            old = entity_at(at, path, "view")
            assert isinstance(old, IcebergView)
            base, now = self._files.view(old.metadata), self._world.clock.now_ms()
            for requirement in asked.requirements:
                check_view(requirement, base)
            made = applied(base, asked.updates, now)
            if made == base:
                latest[:] = [LoadedView(old, base)]
                return None
            written.append(self._files.write(old.location, made, old.metadata))
            latest[:] = [LoadedView(msgspec.structs.replace(old, metadata=written[-1], updated=now), made)]
            return Edit(f"replace view {dotted(*path)}", put={path: latest[0].entity})

        try:
            with self._context.sweeping(written):
                self._context.commit(catalog, change)
        except StateConflict as error:
            if error.type == "ConcurrentChange":
                raise CommitFailed(error.message) from error
            raise
        self._context.forget([file for file in written if file != latest[0].entity.metadata])
        return latest[0]
