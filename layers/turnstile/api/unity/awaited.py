"""Managed tables that Unity's clients register before they write version 0."""

from __future__ import annotations

import msgspec

from turnstile.api.unity.table_update import beside_log
from turnstile.catalog.core.entities import External, Table
from turnstile.delta.core.content import Content
from turnstile.delta.core.metadata import DeltaMetadata, first_metadata


def adopted_metadata(table: Table, content: Content) -> DeltaMetadata:
    """Returns the metadata of a table after version 0 has arrived. Version 0 decides; members of
    the registration that it lacks are stored beside it."""
    metadata = first_metadata(content)
    about = table.external or External()
    return msgspec.structs.replace(metadata, beside=beside_log(metadata, about.properties, table.comment))
