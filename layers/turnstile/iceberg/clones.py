"""Clones of Iceberg tables and views: a metadata file of their own, over the snapshots of their source.

A snapshot names its manifests by full path, so that any table may show it. The clone's file says everything that the
source's says, but for whose it is: the uuid, the location where new files go, and ``gc.enabled=false``, by which
Iceberg's own maintenance leaves alone files that others use. From then on both go their own ways.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from turnstile.catalog.clone.copies import Copy, CopyRequest, PastVersions
from turnstile.catalog.clone.core import needs_of
from turnstile.catalog.core.entities import ICEBERG_TABLE, ICEBERG_VIEW, Entity, IcebergTable, IcebergView
from turnstile.catalog.core.paths import Path, dotted, managed_location
from turnstile.catalog.core.rows import new_staging
from turnstile.catalog.services import CatalogServices
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.views import ViewMetadata
from turnstile.iceberg.files import MetadataFiles
from turnstile.iceberg.locations import PATHS, LocationClaim, LocationClaims
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.locations import normalise
from turnstile.store.ports import Rejected

GC_ENABLED: Final = "gc.enabled"
"""Iceberg's table property: whether maintenance may remove data files that no snapshot names any more."""


class IcebergCopier:
    """``Copier`` of Iceberg's tables and views. One a request.

    Args:
        files: of the sandbox.
        creator: who may use the places that are given out; empty for admins only.
    """

    rows = 2

    def __init__(self, catalog: CatalogServices, files: MetadataFiles, creator: str = "") -> None:
        self._catalog, self._world, self._files, self._creator = catalog, catalog.world, files, creator
        self._places = LocationClaims(catalog, _nowhere)
        self._given: dict[Path, LocationClaim] = {}
        self._made: dict[tuple[Path, str], str] = {}

    def look(self, sources: Sequence[Entity]) -> None:
        """Nothing: what a table is, its metadata file says."""

    def copy(self, wanted: CopyRequest, past: PastVersions | None) -> Copy:
        """The clone of a table or view, as of the metadata file that its entity names, so that a moment of the past needs
        nothing else. A place, a read and a file to write.

        Raises:
            StorageFault: the source's metadata file is not there, or cannot be read.
            TooLarge: its metadata is.
        """
        source = wanted.source
        assert isinstance(source, IcebergTable | IcebergView)
        place = self._place(wanted)
        known = (wanted.to, source.metadata)
        if known not in self._made:
            self._made[known] = self._files.write(place.location, self._metadata(source, place, wanted.now))
        kind = type(source)
        entity = kind(
            wanted.to[-1],
            place.table_id,
            place.location,
            self._made[known],
            wanted.now,
            access=wanted.access,
        )
        if isinstance(entity, IcebergTable):
            entity = msgspec.structs.replace(entity, needs=needs_of(source))
        return Copy(entity, place.table_id, tuple(self._places.take(place, wanted.catalog, wanted.now)))

    def forget(self) -> None:
        """Remove metadata files of clones that were not made; their places are collected with their staging rows."""
        for file in self._made.values():
            with suppress(TurnstileError):  # the request's own outcome is what the caller must hear
                self._files.delete(file)

    def _place(self, wanted: CopyRequest) -> LocationClaim:
        """Where the clone's own files go: given out once, as for a new table. Its namespace need not exist yet."""
        if wanted.to not in self._given:
            root = self._catalog.zones.ensure(self._catalog.lake_root)
            table_id = self._world.ids.uuid()
            location = managed_location(root, wanted.catalog, wanted.to[:-1], table_id)
            key = self._world.space.staging(table_id)
            answer = self._world.refs.write(
                new_staging(
                    key=key,
                    table_id=table_id,
                    catalog=wanted.catalog,
                    namespace=dotted(*wanted.to[:-1]),
                    name=wanted.to[-1],
                    location=location,
                    creator=self._creator,
                    now=wanted.now,
                )
            )
            if isinstance(answer, Rejected) and (answer.row or {}).get("location") != location:
                raise TurnstileError(f"uuid {table_id} was given out twice")
            self._given[wanted.to] = LocationClaim(table_id, location, True, key)
        return self._given[wanted.to]

    def _metadata(
        self, source: IcebergTable | IcebergView, place: LocationClaim, now: int
    ) -> TableMetadata | ViewMetadata:
        if isinstance(source, IcebergView):
            view = self._files.view(source.metadata)
            return msgspec.structs.replace(view, view_uuid=place.table_id, location=place.location)
        table = self._files.table(source.metadata)
        return msgspec.structs.replace(
            table,
            table_uuid=place.table_id,
            location=place.location,
            last_updated_ms=max(now, table.last_updated_ms),
            properties=_properties(table.properties, source.location, place.location),
            metadata_log=(),
        )


def copiers(catalog: CatalogServices, files: MetadataFiles, creator: str = "") -> Mapping[str, IcebergCopier]:
    """The copiers of one request, by the kind of entity."""
    one = IcebergCopier(catalog, files, creator)
    return {ICEBERG_TABLE: one, ICEBERG_VIEW: one}


def _properties(given: Mapping[str, str], before: str, after: str) -> dict[str, str]:
    """The source's properties, where paths lead below the clone's own location, and nobody removes shared files.

    The log of former metadata files is left out with them (``metadata_log``): a client that trims it removes the files.
    """
    paths = {
        name: after + normalise(given[name]).removeprefix(before)
        for name in PATHS
        if name in given and normalise(given[name]).startswith(f"{before}/")
    }
    kept = {name: value for name, value in given.items() if name not in PATHS}
    return {**kept, **paths, GC_ENABLED: "false"}


def _nowhere() -> None:
    """Clones lie where places are given out; nothing else is asked for."""
