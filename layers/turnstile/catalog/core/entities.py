"""What a catalog's tree holds: immutable entities, one obj each. A change of an entity is a new entity under a new id."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from turnstile.access.core.grants import NOBODY, Access
from turnstile.catalog.core.location_rows import Held
from turnstile.catalog.history.core import Snapshot

NAMESPACE: Final = "namespace"
TABLE: Final = "table"
CATALOG: Final = "catalog"
"""An entry of the realm's own tree, whose names are the catalogs."""

DELTA: Final = "delta"


class Namespace(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t", tag=NAMESPACE):
    """One level of the tree: ``name`` as it was written, ``created`` in ms, ``id`` a uuid that survives updates,
    ``updated`` the last change in ms (0: never), ``access`` who may do what with it and below it."""

    name: str
    id: str
    created: int
    comment: str | None = None
    properties: dict[str, str] = {}
    updated: int = 0
    access: Access = NOBODY


class External(msgspec.Struct, frozen=True, omit_defaults=True):
    """A table that is registered only: its log, if it has one, is not coordinated here and there is no HEAD.

    Everything is what an engine said when it registered or updated the table.

    Attributes:
        columns: fields of the schema in Delta's JSON.
        properties: table properties, as they were given.
        protocol, domains: as given, in Delta's JSON; None and empty when nobody said.
        version, timestamp: the version that this metadata reflects and its time (ms); None when nobody said.
        updated: last change in ms.
    """

    columns: tuple[dict[str, Any], ...] = ()
    partition_columns: tuple[str, ...] = ()
    properties: dict[str, str] = {}
    protocol: dict[str, Any] | None = None
    domains: dict[str, Any] = {}
    version: int | None = None
    timestamp: int | None = None
    updated: int = 0


class CloneOf(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a clone shows: ``version`` of the log of table ``source`` (uuid), which may be dropped by now."""

    source: str
    version: int


class Table(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t", tag=TABLE):
    """A table's place in the catalog; what changes with its commits is in its own HEAD.

    Attributes:
        name: last level of the full name, as it was written.
        table_id: uuid; names the HEAD.
        location: normalised storage location.
        created: ms since the epoch.
        managed: whether Turnstile chose the location and may purge it (False: imported, external or a clone).
        external: set for a table that is registered only; it has no HEAD.
        access: who may do what with it.
        clone: set for a clone, which shows a version of another table and has no files of its own.
    """

    name: str
    table_id: str
    location: str
    created: int
    format: str = DELTA
    comment: str | None = None
    managed: bool = True
    external: External | None = None
    access: Access = NOBODY
    clone: CloneOf | None = None


class Catalog(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t", tag=CATALOG):
    """A catalog, as the realm's own tree lists it; ``id`` empty for those made before catalogs had one. Its rights are
    not here but in its own tree, where a request for one of its tables finds them."""

    name: str
    created: int
    id: str = ""
    comment: str | None = None
    properties: dict[str, str] = {}
    updated: int = 0


# -- iceberg entities -------------------------------------------------------------------------------------------------
# Iceberg's tables and views in a catalog's tree. What they are is in metadata files that never change; the entity says
# which file is the current one. So a commit to one, or to several at once, is a new file each and one swap of the
# catalog's HEAD.


ICEBERG_TABLE: Final = "iceberg-table"
ICEBERG_VIEW: Final = "iceberg-view"

KINDS: Final = (ICEBERG_TABLE, ICEBERG_VIEW)


class IcebergTable(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t", tag=ICEBERG_TABLE):
    """An Iceberg table.

    Attributes:
        name: last level of the full name, as it was written.
        table_id: the uuid in its metadata.
        location: normalised storage location.
        metadata: full path of the current metadata file.
        created: ms since the epoch.
        managed: whether Turnstile chose the location and may purge it.
        updated: last change in ms.
        access: who may do what with it.
        needs: where files lie that its snapshots name and that are not its own: those of a clone's source.
    """

    name: str
    table_id: str
    location: str
    metadata: str
    created: int
    managed: bool = True
    updated: int = 0
    access: Access = NOBODY
    needs: tuple[Held, ...] = ()


class IcebergView(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t", tag=ICEBERG_VIEW):
    """An Iceberg view; members as those of a table. Its location holds nothing but metadata files."""

    name: str
    table_id: str
    location: str
    metadata: str
    created: int
    managed: bool = True
    updated: int = 0
    access: Access = NOBODY


IcebergEntity = IcebergTable | IcebergView


# -- all kinds

Entity = Namespace | Table | Catalog | IcebergTable | IcebergView | Snapshot

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final[msgspec.msgpack.Decoder[Entity]] = msgspec.msgpack.Decoder(Entity)


def encode(entity: Entity) -> bytes:
    """The payload of the entity's obj."""
    return _ENCODER.encode(entity)


def decode(payload: bytes) -> Entity:
    """The entity that ``encode`` was given. Members that later versions add are skipped."""
    return _DECODER.decode(payload)


def kind_of(entity: Entity) -> str:
    """The kind under which the index lists it; also the type tag of its obj."""
    return str(entity.__struct_config__.tag)


def id_of(entity: Entity) -> str:
    """The uuid that an entity keeps through all its changes, under whatever name; empty for what has none."""
    return str(getattr(entity, "table_id", "") or getattr(entity, "id", ""))
