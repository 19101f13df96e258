"""What a table's metadata takes in the answer that says most about it, so that what is stored can be told.

That is Unity Catalog's older API, which says every column twice: in words, and as JSON in a string. A table whose answer
is larger than Lambda's could be loaded by nobody, and one client with the right to change properties could make it so.
So a change that would is refused, before anything is written.
"""

from __future__ import annotations

from typing import Final

import msgspec

from turnstile.delta.core.metadata import MetadataSnapshot
from turnstile.store.core.answer_size import told
from turnstile.store.core.errors import TooLarge

MAX_SHOWN: Final = 4_500_000
"""Bytes of an answer about metadata alone; ``answer_size.MOST`` leaves the rest to commits that are not published."""

_COLUMN: Final = 250
"""Bytes of a column's members in the older API, values apart, as Lambda has them."""

_FEATURE: Final = 60
"""Bytes of a table feature as a property, its name apart."""


def shown(snapshot: MetadataSnapshot) -> int:
    """An upper bound of the bytes that any answer takes to tell ``snapshot``, as Lambda has them."""
    metadata, protocol = snapshot.metadata, snapshot.protocol
    fields = msgspec.json.decode(metadata.get("schemaString") or "{}").get("fields") or []
    columns = told(fields) + told(msgspec.json.encode(fields).decode()) + _COLUMN * len(fields)
    rest = {name: value for name, value in metadata.items() if name != "schemaString"}
    others = told([rest, protocol, protocol, snapshot.domains, snapshot.domains, snapshot.beside])
    features = len(protocol.get("readerFeatures") or []) + len(protocol.get("writerFeatures") or [])
    return columns + others + _FEATURE * features


def check_shown(snapshot: MetadataSnapshot, *, room: int = 0) -> None:
    """Judge ``snapshot`` before it is stored.

    Args:
        room: bytes that are to be left for what will be added to it.

    Raises:
        TooLarge: an answer with it would not fit.
    """
    size = shown(snapshot)
    if size > MAX_SHOWN - room:
        raise TooLarge(
            f"the table's columns, properties and comment would take {size} bytes of an answer",
            field="metadata",
            remedy="shorten them; quotes and backslashes count up to eight times",
            limit=MAX_SHOWN,
            size=size,
        )
