"""Locations of tables and views, and the writes that claim, release and purge them (I10).

Locations that the catalog chooses, ``<lake root>/<catalog>/<namespace>/<uuid>``, have a staging row
as for Delta tables: the transaction that creates the table or view claims it; gc collects it with
its files if none does. Requested locations are outside the lake root, and claimed with markers on
every folder above them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from turnstile.catalog.core.entities import IcebergEntity
from turnstile.catalog.core.location_rows import claim as claim_writes
from turnstile.catalog.core.location_rows import conflict, keys_above, owner_row
from turnstile.catalog.core.location_rows import release as release_writes
from turnstile.catalog.core.paths import Path, dotted_name, fold, managed_folder, stored_name
from turnstile.catalog.core.rows import OPEN, use_staging
from turnstile.catalog.create import check_creator
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.head import new_head_row
from turnstile.iceberg.core.requirements import CommitFailed
from turnstile.rights.grants import Principal
from turnstile.store.core.errors import ErrorType, InvalidRequest, TurnstileError
from turnstile.store.core.locations import is_root, normalise
from turnstile.store.core.writes import Insert, Row, Write, new_row

T = TypeVar("T")

METADATA_PATH: Final = "write.metadata.path"
PATHS: Final = ("write.data.path", METADATA_PATH, "write.object-storage.path", "write.folder-storage.path")
"""Properties that tell writers to put files elsewhere."""


class NotOffered(TurnstileError):
    """Something the specification leaves to the server, and this one does not do."""

    type = ErrorType.NOT_OFFERED


class LocationClaim(msgspec.Struct, frozen=True):
    """A location for a table or view to be created: chosen by the catalog (``managed``) or not, and
    the refs key of its ``staging`` row, if it has one. ``written`` is how the request wrote it,
    where metadata keep that (``file:/path``).
    """

    table_id: str
    location: str
    managed: bool
    staging: str = ""
    written: str = ""

    @property
    def metadata_location(self) -> str:
        """The location as metadata have it."""
        return self.written or self.location


class LocationClaims:
    """Finds locations, and computes the writes that claim, release and purge them. ``elsewhere``
    raises PermissionDenied when the request may not use locations that the catalog did not choose
    (I12).
    """

    def __init__(self, catalog: CatalogServices, elsewhere: Callable[[], None]) -> None:
        self._catalog = catalog
        self._world = catalog.world
        self._elsewhere = elsewhere

    def choose(
        self, catalog: str, namespace: Path, name: str, principal: Principal, make: Callable[[LocationClaim], T]
    ) -> tuple[LocationClaim, T]:
        """Returns a new location and the result of ``make`` for it. ``make`` runs before the
        staging row is written, so that a request that it refuses leaves nothing. Two requests when
        warm. Raises NotFound, and AlreadyExists.
        """
        results: list[tuple[LocationClaim, T]] = []

        def check(table_id: str, location: str) -> None:
            claim = LocationClaim(table_id, location, True, self._world.space.staging(table_id))
            results.append((claim, make(claim)))

        self._catalog.staging.create(catalog, namespace, name, creator=principal.name, free_names=True, check=check)
        return results[0]

    def is_derived(self, catalog: str, namespace: Path, location: str) -> bool:
        """Whether a client derived ``location`` from the namespace's, as Trino and Sail do: it is
        one level below the folder in which the catalog chooses locations."""
        folder = normalise(location).rpartition("/")[0]
        return fold(folder) == fold(managed_folder(self._catalog.lake_root, catalog, namespace))

    def check_served(self, location: str, field: str = "location") -> str:
        """Returns ``location`` normalised. Raises InvalidRequest unless the deployment serves its
        scheme: S3's, and that of the lake root. So ``file:`` leads to the server's own disk only
        where the lake is there.
        """
        location = normalise(location)
        schemes = {"s3", normalise(self._catalog.lake_root).partition(":")[0]}
        if location.partition(":")[0] not in schemes:
            raise InvalidRequest(
                f"{location[:200]} is not served: this deployment keeps tables at {' and '.join(sorted(schemes))}",
                field=field,
                remedy="copy the files there, or leave the location out",
            )
        return location

    def of_request(self, table_id: str, location: str) -> LocationClaim:
        """Returns a location that the request names. One read, and once for each catalog the claim
        of the lake root.

        Raises:
            PermissionDenied: the principal may not choose locations.
            InvalidRequest: not a location, a whole bucket, or a scheme that is not served.
            StateConflict: ``LocationOwned``: it overlaps another table's, or the lake root.
        """
        self._elsewhere()
        one_slash = re.match("file:/(?!/)", location)  # as Java's URIs of files are written
        location = self.check_served(location)
        if is_root(location):
            raise InvalidRequest(f"location {location} is a whole bucket", field="location")
        self._catalog.zones.ensure(self._catalog.lake_root)
        self._free_rows(location)
        written = location.replace("file:///", "file:/", 1) if one_slash else ""
        return LocationClaim(table_id, location, False, written=written)

    def of_staged_table(self, table_id: str, location: str, catalog: str, principal: Principal) -> LocationClaim:
        """Returns where a commit creates its table: the location that was staged for it, or one
        that it chooses. Raises CommitFailed if the first was used, or is of another catalog;
        PermissionDenied if of another principal (I12).
        """
        key = self._world.space.staging(table_id)
        row = self._world.refs.read(key)
        if row is None or row["location"] != normalise(location):
            return self.of_request(table_id, location)
        if fold(row["catalog"]) != fold(catalog) or row["state"] != OPEN:
            raise CommitFailed(f"the location of {table_id} is not open any more")
        check_creator(row, principal)
        return LocationClaim(table_id, row["location"], True, key)

    def of_registered_table(self, table_id: str, location: str) -> LocationClaim:
        """Returns the location of an existing table: outside the lake root (raises as
        ``of_request``), or chosen by the catalog for this very uuid and left by a drop without a
        purge (raises InvalidRequest).
        """
        location = normalise(location)
        root = normalise(self._catalog.lake_root)
        if not location.startswith(f"{root}/"):
            return self.of_request(table_id, location)
        space = self._world.space
        levels = location.removeprefix(f"{root}/").split("/")
        if len(levels) != 3 or levels[2] != table_id:
            raise InvalidRequest(f"location {location} was not given out for table {table_id}", field="location")
        if self._world.refs.read_many([space.staging(table_id), space.table(table_id)]):
            raise InvalidRequest(f"location {location} belongs to another table, or is being purged", field="location")
        return LocationClaim(table_id, location, True)

    def claim(self, claim: LocationClaim, catalog: str, now_ms: int) -> list[Write]:
        """Returns the writes of the transaction that creates a table or view there. One read unless
        managed; raises StateConflict (``LocationOwned``) if the location overlaps another table's.
        """
        space = self._world.space
        table_id = claim.table_id
        if claim.managed:
            is_first = bool(claim.staging)  # chosen for this uuid, and used once
            owner = owner_row(space, claim.location, table_id, catalog, now_ms, first_life=is_first)
            return [use_staging(claim.staging), owner] if claim.staging else [owner]
        rows = self._free_rows(claim.location)
        return claim_writes(space, claim.location, rows, table_id=table_id, catalog=catalog, now=now_ms)

    def release(self, entity: IcebergEntity) -> list[Write]:
        """Returns the writes of a drop that keeps the files: the location has no owner any more.
        One read; raises StateConflict (``TableHasClones``) if it must keep one."""
        rows = self._world.refs.read_many(keys_above(self._world.space, entity.location))
        return release_writes(self._world.space, entity.location, entity.table_id, rows)

    def purge(self, entity: IcebergEntity, catalog: str, path: Path, now_ms: int) -> list[Write]:
        """Returns the writes of a drop with the files: a tombstone like that of a dropped Delta
        table, which owns the location until gc has emptied it. Raises NotOffered if the catalog did
        not choose it: other files may be there.
        """
        if not entity.managed:
            raise NotOffered(
                f"'{dotted_name(catalog, *path)}' lies where Turnstile did not put it, so its files are not purged",
                field="purgeRequested",
                remedy="drop it without a purge, and remove the files yourself",
            )
        row = new_head_row(
            key=self._world.space.table(entity.table_id),
            table_id=entity.table_id,
            catalog=catalog,
            name=stored_name(catalog, *path),
            location=entity.location,
            metadata=entity.metadata,
            version=0,
            ict=now_ms,
            row_hwm=None,
            created=now_ms,
            managed=True,
        )
        return [Insert({**row, "state": "dropped"}, (new_row("I10"),))]

    def _free_rows(self, location: str) -> dict[str, Row]:
        """Returns the rows above a location; raises StateConflict if one says that it is not
        free."""
        space = self._world.space
        rows = self._world.refs.read_many(keys_above(space, location))
        refusal = conflict(space, location, rows)
        if refusal is not None:
            raise refusal
        return rows


def check_paths(properties: dict[str, str], location: str) -> None:
    """Raises InvalidRequest unless writers put all files below ``location``: no purge would find a
    file elsewhere."""
    for name in PATHS:
        path = properties.get(name)
        if path is not None and not normalise(path).startswith(f"{location}/"):
            raise InvalidRequest(
                f"{name} leads out of the table's location {location}",
                field=f"properties.{name}",
                remedy="leave it out, or use a folder below the location",
            )
