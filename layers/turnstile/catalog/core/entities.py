"""The entities of a catalog's tree: immutable, one obj each. A changed entity is a new obj under a
new id.

The tags and members are stored formats: they may be added to, never renamed. Of all entities:
``name`` is as it was written, ids are uuids kept through all changes, ``created`` and ``updated``
are ms since the epoch (``updated`` 0 without a change), ``location`` is normalised, ``access`` has
the rights on the entity and below it. ``managed``: Turnstile chose the location and may purge it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from turnstile.catalog.core.location_rows import HeldLocation
from turnstile.catalog.history.core import NamedSnapshot
from turnstile.rights.grants import NO_ACCESS, Access
from turnstile.store.core.errors import ErrorType, StateConflict, TooLarge, TurnstileError, UnsupportedTable
from turnstile.store.core.names import published_path

NAMESPACE: Final = "namespace"
TABLE: Final = "table"
CATALOG: Final = "catalog"
"""Kind of the entries of the realm's own tree: its names are the catalogs."""

ICEBERG_TABLE: Final = "iceberg-table"
ICEBERG_VIEW: Final = "iceberg-view"
ICEBERG_KINDS: Final = (ICEBERG_TABLE, ICEBERG_VIEW)

DELTA: Final = "delta"


class Namespace(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t", tag=NAMESPACE):
    """One level of the tree."""

    name: str
    id: str
    created: int
    comment: str | None = None
    properties: dict[str, str] = {}
    updated: int = 0
    access: Access = NO_ACCESS


class External(msgspec.Struct, frozen=True, omit_defaults=True):
    """The engine's description of a table that is registered only: its log, if any, is not
    coordinated here and it has no HEAD. ``columns`` (fields of the schema), ``protocol`` and
    ``domains`` are Delta's JSON; ``version`` and ``timestamp`` (ms) say which version this metadata
    reflects. ``awaited``: it is a managed table that was registered before its version 0 was
    written, and is coordinated as soon as that is there (``catalog.awaited``).
    """

    columns: tuple[dict[str, Any], ...] = ()
    partition_columns: tuple[str, ...] = ()
    properties: dict[str, str] = {}
    protocol: dict[str, Any] | None = None
    domains: dict[str, Any] = {}
    version: int | None = None
    timestamp: int | None = None
    updated: int = 0
    awaited: bool = False


class CloneOf(msgspec.Struct, frozen=True, omit_defaults=True):
    """The source of a clone: ``version`` of the log of the table ``source`` (uuid), which may be
    dropped by now."""

    source: str
    version: int


class BranchOrigin(msgspec.Struct, frozen=True, omit_defaults=True):
    """The catalog's table ``source`` (uuid) that a branch's table belongs to.

    Attributes:
        version: with which the log of the branch's table begins.
        base: of the catalog's table, up to which the branch's table has its changes; -1:
            ``version``.
        updates: versions of the branch's table that only took over changes of the catalog's.
    """

    source: str
    version: int
    base: int = -1
    updates: tuple[int, ...] = ()

    @property
    def base_version(self) -> int:
        """The version of the catalog's table that the branch's table is based on."""
        return self.version if self.base < 0 else self.base


class Table(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t", tag=TABLE):
    """A Delta or external table in its catalog; members that change with its commits are in its own
    HEAD, which ``table_id`` names. ``external``: of a table that is registered only. ``clone``: of
    a clone, which has no files of its own. ``origin``: of a branch's table, the catalog's table.
    """

    name: str
    table_id: str
    location: str
    created: int
    format: str = DELTA
    comment: str | None = None
    managed: bool = True
    external: External | None = None
    access: Access = NO_ACCESS
    clone: CloneOf | None = None
    origin: BranchOrigin | None = None


class Catalog(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t", tag=CATALOG):
    """A catalog in the realm's own tree; ``id`` is empty for a catalog of a version without ids.
    Its rights are in its own tree, where a request for one of its tables reads them."""

    name: str
    created: int
    id: str = ""
    comment: str | None = None
    properties: dict[str, str] = {}
    updated: int = 0


class _Iceberg(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t"):
    """``metadata`` is the full path of the current metadata file, and ``digest`` the SHA-256 of its
    bytes as they were when the entity got it (empty: it was written by a version without digests).
    Such files never change, so a commit to one table, or to several at once, writes a new file for
    each and swaps the catalog's HEAD once.
    """

    name: str
    table_id: str
    location: str
    metadata: str
    created: int
    managed: bool = True
    updated: int = 0
    access: Access = NO_ACCESS
    digest: bytes = b""

    @property
    def root(self) -> str:
        """The folder below which its commits write metadata files."""
        return self.location


class IcebergTable(_Iceberg, frozen=True, tag=ICEBERG_TABLE):
    """``needs``: locations of foreign files that its snapshots name: the files of a clone's source.
    ``turn_until``: when the turn of a commit that rewrites it ends (``iceberg.turns``)."""

    needs: tuple[HeldLocation, ...] = ()
    turn_until: int = 0


class IcebergView(_Iceberg, frozen=True, tag=ICEBERG_VIEW):
    """Its location holds only metadata files."""

    @property
    def root(self) -> str:
        """As of a table; its creator may have chosen another folder (``write.metadata.path``)."""
        return self.metadata.rpartition("/metadata/")[0] or self.location


IcebergEntity = IcebergTable | IcebergView
Entity = Namespace | Table | Catalog | IcebergTable | IcebergView | NamedSnapshot

encode: Final[Callable[[Entity], bytes]] = msgspec.msgpack.Encoder().encode
decode: Final[Callable[[bytes], Entity]] = msgspec.msgpack.Decoder(Entity).decode
"""From and to the payload of an obj. Members of later versions are skipped."""


def kind_of(entity: Entity) -> str:
    """Returns the kind under which the index lists it, which is also the type tag of its obj."""
    return str(entity.__struct_config__.tag)


def is_awaited(entity: object) -> bool:
    """Whether it is a table that was registered before its version 0 was written."""
    return isinstance(entity, Table) and entity.external is not None and entity.external.awaited


def without_head(table: Table, remedy: str) -> TurnstileError:
    """Returns the refusal of an operation that needs a table with a HEAD; ``remedy`` of one that is
    external."""
    if not is_awaited(table):
        problem = f"table '{table.name}' is external: its commits are not coordinated here"
        return UnsupportedTable(problem, field="table", remedy=remedy)
    problem = f"table '{table.name}' has no version yet: it was registered before its version 0 was written"
    path = f"{table.location}/{published_path(0)}"
    remedy = f"write {path} and send the request again, or drop the table"
    return StateConflict(ErrorType.TABLE_NOT_ACTIVE, problem, field="table", remedy=remedy, state="awaited")


def require_size(entity: Entity, limit: int, *, field: str, remedy: str) -> None:
    """Raises TooLarge if the entity's obj would have more than ``limit`` bytes."""
    size = len(encode(entity))
    if size > limit:
        problem = f"{kind_of(entity)} '{entity.name}' would take {size} bytes"
        raise TooLarge(problem, field=field, remedy=remedy, limit=limit, size=size)


def id_of(entity: Entity) -> str:
    """Returns the uuid that an entity keeps through all its changes and names; empty if it has
    none."""
    return str(getattr(entity, "table_id", "") or getattr(entity, "id", ""))


def is_same(entity: Entity, other: Entity) -> bool:
    """Returns whether two entities are one table, view or namespace at two moments. The writer of a
    registered file chooses its uuid, so the location, which only one entity has at a time and for
    good, has to be the same as well (I12).
    """
    return id_of(entity) == id_of(other) and getattr(entity, "location", "") == getattr(other, "location", "")
