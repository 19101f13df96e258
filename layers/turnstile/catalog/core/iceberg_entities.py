"""Iceberg's tables and views in a catalog's tree. What they are is in metadata files that never change; the entity says
which file is the current one. So a commit to one, or to several at once, is a new file each and one swap of the
catalog's HEAD."""

from __future__ import annotations

from typing import Final

import msgspec

from turnstile.access.core.access import NOBODY, Access
from turnstile.catalog.core.clone_holds import Held

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
