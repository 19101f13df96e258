"""Where tables and views live, and the writes that make a location theirs (I10).

chosen here    ``<lake root>/<catalog>/<namespace>/<uuid>``. It is given out with a staging row, as for Delta tables, and
               becomes theirs in the transaction that creates them; what is never created is collected with its files.
given          a location outside the lake root: claimed with markers on everything above it
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from turnstile.access.core.grants import Principal
from turnstile.catalog.core.entities import IcebergEntity
from turnstile.catalog.core.location_rows import claim, conflict, keys_above, owner_row, release
from turnstile.catalog.core.paths import Path, dotted, fold
from turnstile.catalog.core.rows import OPEN, use_staging
from turnstile.catalog.create import check_creator
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.head import new_head_row
from turnstile.iceberg.core.requirements import CommitFailed
from turnstile.store.core.errors import InvalidRequest, TurnstileError
from turnstile.store.core.locations import is_root, normalise
from turnstile.store.core.writes import Insert, Row, Write, new_row

T = TypeVar("T")

PATHS: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
"""Properties that tell writers to put files elsewhere."""


class NotOffered(TurnstileError):
    """Something the specification leaves to the server, and this one does not do."""

    type = "NotOffered"


class LocationClaim(msgspec.Struct, frozen=True):
    """A location for what is to be created; ``staging`` the refs key of its staging row, if it has one."""

    table_id: str
    location: str
    managed: bool
    staging: str = ""


class LocationClaims:
    """Finds locations, and makes them the property of tables.

    Args:
        elsewhere: raises PermissionDenied when the request may not use locations that were not chosen here (I12).
    """

    def __init__(self, catalog: CatalogServices, elsewhere: Callable[[], None]) -> None:
        self._catalog, self._world, self._elsewhere = catalog, catalog.world, elsewhere

    def choose(
        self, catalog: str, namespace: Path, name: str, principal: Principal, make: Callable[[LocationClaim], T]
    ) -> tuple[LocationClaim, T]:
        """A fresh location and what ``make`` makes for it, before the location is given out: a request that it refuses
        leaves nothing. Two requests when warm.

        Raises:
            NotFound: no such catalog or namespace.
            AlreadyExists: the name is taken.
            TurnstileError: what ``make`` raises.
        """
        made: list[tuple[LocationClaim, T]] = []

        def check(table_id: str, location: str) -> None:
            place = LocationClaim(table_id, location, True, self._world.space.staging(table_id))
            made.append((place, make(place)))

        self._catalog.staging.create(catalog, namespace, name, creator=principal.name, check=check)
        return made[0]

    def given(self, table_id: str, location: str) -> LocationClaim:
        """A location that a request names, for a table of this uuid. Nothing is written there before it is known to be
        free now. One read, and the first time ever the claim of the lake root.

        Raises:
            PermissionDenied: whoever asks may not choose locations.
            InvalidRequest: not a location, or a whole bucket.
            StateConflict: ``LocationOwned``: it overlaps another table's, or the lake root.
        """
        self._elsewhere()
        location = normalise(location)
        if is_root(location):
            raise InvalidRequest(f"location {location} is a whole bucket", field="location")
        self._catalog.zones.ensure(self._catalog.lake_root)
        space = self._world.space
        taken = conflict(space, location, self._world.refs.read_many(keys_above(space, location)))
        if taken is not None:
            raise taken
        return LocationClaim(table_id, location, False)

    def staged(self, table_id: str, location: str, catalog: str, principal: Principal) -> LocationClaim:
        """Where a commit creates its table: the location that was given out for it, or one of its own choice.

        Raises:
            PermissionDenied: it was given out to somebody else (I12).
        """
        key = self._world.space.staging(table_id)
        row = self._world.refs.read(key)
        if row is None or row["location"] != normalise(location):
            return self.given(table_id, location)
        if fold(row["catalog"]) != fold(catalog) or row["state"] != OPEN:
            raise CommitFailed(f"the location of {table_id} is not open any more")
        check_creator(row, principal)
        return LocationClaim(table_id, row["location"], True, key)

    def found(self, table_id: str, location: str) -> LocationClaim:
        """Where a table lies that is to be registered: outside the lake root, or at a location that was chosen here
        for this very uuid and that a table dropped without a purge left.

        Raises:
            InvalidRequest: not a location, or a place in the lake root that cannot be its own.
            StateConflict: ``LocationOwned``: it overlaps another table's.
        """
        location, root = normalise(location), normalise(self._catalog.lake_root)
        if not location.startswith(f"{root}/"):
            return self.given(table_id, location)
        space = self._world.space
        levels = location.removeprefix(f"{root}/").split("/")
        if len(levels) != 3 or levels[2] != table_id:
            raise InvalidRequest(f"location {location} was not given out for table {table_id}", field="location")
        if self._world.refs.read_many([space.staging(table_id), space.table(table_id)]):
            raise InvalidRequest(f"location {location} belongs to another table, or is being purged", field="location")
        return LocationClaim(table_id, location, True)

    def take(self, place: LocationClaim, catalog: str, now: int) -> list[Write]:
        """The writes that go with creating something there. One read where the location is claimed anew.

        Raises:
            StateConflict: ``LocationOwned``: the location overlaps another table's.
        """
        space = self._world.space
        if place.managed:
            owner = owner_row(space, place.location, place.table_id, catalog, now)
            return [use_staging(place.staging), owner] if place.staging else [owner]
        rows = self._world.refs.read_many(keys_above(space, place.location))
        taken = conflict(space, place.location, rows)
        if taken is not None:
            raise taken
        return claim(space, place.location, rows, table_id=place.table_id, catalog=catalog, now=now)

    def leave(self, entity: IcebergEntity) -> list[Write]:
        """The writes that go with dropping it and keeping its files: the location is nobody's. One read.

        Raises:
            StateConflict: ``TableHasClones``: it has to stay somebody's.
        """
        rows = self._world.refs.read_many(keys_above(self._world.space, entity.location))
        return release(self._world.space, entity.location, entity.table_id, rows)

    def purge(self, entity: IcebergEntity, catalog: str, path: Path, now: int) -> list[Write]:
        """The writes that go with dropping it and its files: a tombstone, as a dropped Delta table leaves one. It still
        owns the location, and gc empties that after the grace period.

        Raises:
            NotOffered: its files are not only its own.
        """
        if not entity.managed:
            raise NotOffered(
                f"'{dotted(catalog, *path)}' lies where Turnstile did not put it, so its files are not purged",
                field="purgeRequested",
                remedy="drop it without a purge, and remove the files yourself",
            )
        row: Row = new_head_row(
            key=self._world.space.table(entity.table_id),
            table_id=entity.table_id,
            catalog=catalog,
            name=dotted(catalog, *path),
            location=entity.location,
            metadata=entity.metadata,
            version=0,
            ict=now,
            row_hwm=None,
            created=now,
            managed=True,
        )
        return [Insert({**row, "state": "dropped"}, (new_row("I10"),))]


def check_paths(properties: dict[str, str], location: str) -> None:
    """Whether all files go below ``location``: what lies elsewhere would be nobody's, and never purged.

    Raises:
        InvalidRequest: a property says otherwise.
    """
    for name in PATHS:
        given = properties.get(name)
        if given is not None and not normalise(given).startswith(f"{location}/"):
            raise InvalidRequest(
                f"{name} leads out of the table's location {location}",
                field=f"properties.{name}",
                remedy="leave it out, or use a folder below the location",
            )
