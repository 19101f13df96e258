"""Clones of Iceberg tables and views: a metadata file of their own, over the snapshots of their
source.

A snapshot names its manifests by full path, so any table may have it. The clone's metadata is the
source's, except for the uuid, the location where new files go, and ``gc.enabled=false``, so that
Iceberg's own maintenance leaves alone files that other tables use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from turnstile.catalog.clone.copies import Copy, CopyRequest, PastVersions
from turnstile.catalog.clone.core import needs_of
from turnstile.catalog.core.entities import ICEBERG_TABLE, ICEBERG_VIEW, Entity, IcebergTable, IcebergView
from turnstile.catalog.core.paths import Path, managed_location, stored_name
from turnstile.catalog.core.rows import new_staging
from turnstile.catalog.services import CatalogServices
from turnstile.iceberg.core.expiry import GC_ENABLED
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.views import ViewMetadata
from turnstile.iceberg.files import MetadataFiles, StoredFile
from turnstile.iceberg.locations import PATHS, LocationClaim, LocationClaims
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.locations import normalise
from turnstile.store.ports import Rejected


class IcebergCopier:
    """``Copier`` of one request for tables and views; locations are staged for ``creator`` (empty:
    for admins only)."""

    rows = 2

    def __init__(self, catalog: CatalogServices, files: MetadataFiles, creator: str = "") -> None:
        self._catalog = catalog
        self._world = catalog.world
        self._files = files
        self._creator = creator
        self._locations = LocationClaims(catalog, lambda: None)  # clones request no location
        self._claims: dict[Path, LocationClaim] = {}
        self._written: dict[tuple[Path, str], StoredFile] = {}

    def prefetch(self, sources: Sequence[Entity]) -> None:
        """Does nothing: a metadata file describes its table completely."""

    def copy(self, request: CopyRequest, past: PastVersions | None) -> Copy:
        """Returns the clone of a table or view, as of the metadata file that its entity names; the
        same for the past. Writes a staging row and a metadata file. Raises StorageFault if the
        source's file cannot be read, and TooLarge.
        """
        source = request.source
        assert isinstance(source, IcebergTable | IcebergView)
        claim = self._claim(request)
        key = (request.to, source.metadata)
        if key not in self._written:
            self._written[key] = self._files.write(claim.location, self._metadata(source, claim, request.now_ms))
        file = self._written[key]
        name = request.to[-1]
        access = request.access
        entity = type(source)(
            name, claim.table_id, claim.location, file.path, request.now_ms, access=access, digest=file.digest
        )
        if isinstance(entity, IcebergTable):
            entity = msgspec.structs.replace(entity, needs=needs_of(source))
        return Copy(entity, claim.table_id, tuple(self._locations.claim(claim, request.catalog, request.now_ms)))

    def discard(self) -> None:
        """Deletes metadata files of clones that were not created; gc collects their locations with
        the staging rows."""
        for file in self._written.values():
            with suppress(TurnstileError):  # the request's own outcome matters more
                self._files.delete(file.path)

    def _claim(self, request: CopyRequest) -> LocationClaim:
        """A location for the clone's own files, staged once, as for a new table. Its namespace need
        not exist yet."""
        if request.to not in self._claims:
            root = self._catalog.zones.ensure(self._catalog.lake_root)
            table_id = self._world.ids.uuid()
            location = managed_location(root, request.catalog, request.to[:-1], table_id)
            key = self._world.space.staging(table_id)
            staging = new_staging(
                key=key,
                table_id=table_id,
                catalog=request.catalog,
                namespace=stored_name(*request.to[:-1]),
                name=request.to[-1],
                location=location,
                creator=self._creator,
                now=request.now_ms,
            )
            result = self._world.refs.write(staging)
            if isinstance(result, Rejected) and (result.row or {}).get("location") != location:
                raise TurnstileError(f"uuid {table_id} was given out twice")
            self._claims[request.to] = LocationClaim(table_id, location, True, key)
        return self._claims[request.to]

    def _metadata(
        self, source: IcebergTable | IcebergView, claim: LocationClaim, now_ms: int
    ) -> TableMetadata | ViewMetadata:
        if isinstance(source, IcebergView):
            view = self._files.view(source)
            properties = {name: value for name, value in view.properties.items() if name not in PATHS}
            uuid = claim.table_id
            location = claim.location
            return msgspec.structs.replace(view, view_uuid=uuid, location=location, properties=properties)
        table = self._files.table(source)
        return msgspec.structs.replace(
            table,
            table_uuid=claim.table_id,
            location=claim.location,
            last_updated_ms=max(now_ms, table.last_updated_ms),
            properties=_properties(table.properties, source.location, claim.location),
            metadata_log=(),  # a client that trims the log deletes the files in it
        )


def copiers(catalog: CatalogServices, files: MetadataFiles, creator: str = "") -> Mapping[str, IcebergCopier]:
    """The copiers of one request, by the kind of entity."""
    return dict.fromkeys((ICEBERG_TABLE, ICEBERG_VIEW), IcebergCopier(catalog, files, creator))


def _properties(source: Mapping[str, str], before: str, after: str) -> dict[str, str]:
    """The source's properties with paths below the clone's location ``after`` in place of
    ``before``, and without Iceberg's own maintenance."""
    others = {name: value for name, value in source.items() if name not in PATHS}
    paths = {name: normalise(source[name]) for name in PATHS if name in source}
    inside = {name: after + path[len(before) :] for name, path in paths.items() if path.startswith(f"{before}/")}
    return {**others, **inside, GC_ENABLED: "false"}
