"""What a catalog's tree holds: immutable entities, one obj each. A change of an entity is a new entity under a new id."""

from __future__ import annotations

from typing import Final

import msgspec

NAMESPACE: Final = "namespace"
TABLE: Final = "table"
CATALOG: Final = "catalog"
"""An entry of the realm's own tree, whose names are the catalogs."""

DELTA: Final = "delta"


class Namespace(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t", tag=NAMESPACE):
    """One level of the tree: ``name`` as it was written, ``created`` in ms, ``id`` a uuid that survives updates."""

    name: str
    id: str
    created: int
    comment: str | None = None
    properties: dict[str, str] = {}


class Table(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t", tag=TABLE):
    """A table's place in the catalog; what changes with its commits is in its own HEAD.

    Attributes:
        name: last level of the full name, as it was written.
        table_id: uuid; names the HEAD.
        location: normalised storage location.
        created: ms since the epoch.
        managed: whether Turnstile chose the location and may purge it (False: imported).
    """

    name: str
    table_id: str
    location: str
    created: int
    format: str = DELTA
    comment: str | None = None
    managed: bool = True


class Catalog(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t", tag=CATALOG):
    """A catalog, as the realm's own tree lists it."""

    name: str
    created: int


Entity = Namespace | Table | Catalog

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
