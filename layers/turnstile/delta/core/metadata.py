"""Table metadata: protocol, metadata and domains of a Delta table at one version, as one obj; its
id is the etag."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from turnstile.delta.core.actions import fields_of
from turnstile.delta.core.content import ROW_TRACKING_DOMAIN, Content
from turnstile.store.core.errors import TooLarge
from turnstile.store.core.limits import response_size


class Beside(msgspec.Struct, frozen=True, omit_defaults=True):
    """The catalog's metadata of a table beside the log: values that engines send and no file holds.
    The log wins.

    ``uniform`` conversion state of the newest commit that carried one; ``etag`` that of the
    metadata with the same visible metadata as this one, if there is one; ``updated`` when it was
    changed without a commit (ms; 0: never); ``row_mark`` whether a client has set row tracking's
    domain, whose mark is in the HEAD.
    """

    properties: dict[str, str] = {}
    comment: str | None = None
    uniform: dict[str, Any] | None = None
    etag: str = ""
    updated: int = 0
    row_mark: bool = False


class DeltaMetadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """Protocol and metaData actions as last committed, domains by name, and the version that
    changed them last with its in-commit timestamp (ms; 0: written by a release that did not keep
    it).
    """

    version: int
    protocol: dict[str, Any]
    metadata: dict[str, Any]
    domains: dict[str, Any]
    timestamp: int = 0
    beside: Beside = Beside()

    @property
    def row_tracking(self) -> bool:
        """Whether writers must assign row ids (the feature is supported)."""
        return "rowTracking" in (self.protocol.get("writerFeatures") or [])


def first_metadata(content: Content, version: int = 0) -> DeltaMetadata:
    """The metadata that a commit with both a protocol and a metaData action creates."""
    if content.protocol is None or content.metadata is None:
        raise ValueError("content without protocol and metadata")
    empty = DeltaMetadata(version=version, protocol=content.protocol, metadata=content.metadata, domains={})
    after = apply(empty, content, version)
    return msgspec.structs.replace(after, version=version, timestamp=content.ict)


def apply(before: DeltaMetadata, content: Content, version: int) -> DeltaMetadata:
    """The metadata after ``content`` became ``version``; ``before`` itself where the commit repeats
    it. Row tracking's high-water mark lives in the HEAD, not here."""
    domains = dict(before.domains)
    for domain in content.domains:
        name = domain["domain"]
        if name == ROW_TRACKING_DOMAIN:
            continue
        if domain.get("removed"):
            domains.pop(name, None)
        else:
            domains[name] = domain.get("configuration")
    after = DeltaMetadata(
        version=version,
        protocol=content.protocol or before.protocol,
        metadata=content.metadata or before.metadata,
        domains=domains,
        timestamp=content.ict,
        beside=msgspec.structs.replace(before.beside, etag=""),
    )
    return before if content.whole and _visible(after) == _visible(before) else after


def _visible(table: DeltaMetadata) -> Any:
    """The metadata that clients see: features in any order, and without the time of its action."""
    features = {member: {*(table.protocol.get(member) or ())} for member in ("readerFeatures", "writerFeatures")}
    return table.protocol | features, table.metadata | {"createdTime": None}, table.domains


def etag_of(id: str, metadata: DeltaMetadata) -> str:
    """The etag of the metadata stored under ``id``: it changes exactly when the visible metadata
    changes."""
    return metadata.beside.etag or id


# -- size -------------------------------------------------------------------------------------------------------------
# Metadata that fits no response would make its table impossible to load, and one client with the
# right to change properties could bring that about. So it is measured before it is written, in the
# response that says most about it: Unity Catalog's older API has every column twice, once in words
# and once as JSON in a string.

MAX_SHOWN: Final = 4_500_000
"""Bytes of an answer about metadata alone; ``RESPONSE_BYTES_MAX`` leaves the rest to commits that
are not published."""

_COLUMN: Final = 250
"""Bytes of a column's members in the older API, values apart, as Lambda has them."""

_FEATURE: Final = 60
"""Bytes of a table feature as a property, its name apart."""


def most_response_bytes(table: DeltaMetadata) -> int:
    """An upper bound of the escaped bytes that any response takes for ``table``."""
    metadata = table.metadata
    protocol = table.protocol
    fields = fields_of(metadata)
    columns = response_size(fields) + response_size(msgspec.json.encode(fields).decode()) + _COLUMN * len(fields)
    rest = {name: value for name, value in metadata.items() if name != "schemaString"}
    others = response_size([rest, protocol, protocol, table.domains, table.domains, table.beside])
    features = len(protocol.get("readerFeatures") or []) + len(protocol.get("writerFeatures") or [])
    return columns + others + _FEATURE * features


def check_shown(table: DeltaMetadata, *, room: int = 0) -> None:
    """Raises TooLarge unless ``table`` fits a response, with ``room`` bytes left for later
    additions."""
    size = most_response_bytes(table)
    if size > MAX_SHOWN - room:
        raise TooLarge(
            f"the table's columns, properties and comment would take {size} bytes of an answer",
            field="metadata",
            remedy="shorten them; quotes and backslashes count up to eight times",
            limit=MAX_SHOWN,
            size=size,
        )


# -- properties --------------------------------------------------------------------------------------------------------

_INTERVAL: Final = re.compile(r"\s*(?:interval\s)?((?:\s*\d{1,9}\s+[a-z]+)+)\s*", re.ASCII | re.IGNORECASE)
_PART: Final = re.compile(r"(\d+)\s+([a-z]+)", re.ASCII | re.IGNORECASE)
_UNITS_MS: Final = {
    "week": 604_800_000, "day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1_000, "millisecond": 1,
}  # fmt: skip


def interval_ms(text: str) -> int | None:
    """Returns the length of an interval as Delta writes it, ``interval 7 days``; None for an
    invalid text."""
    match = _INTERVAL.fullmatch(text)
    parts = [(int(count), _UNITS_MS.get(unit.lower().removesuffix("s"), 0)) for count, unit in _PART.findall(text)]
    if match is None or not all(unit for _, unit in parts):
        return None
    return sum(count * unit for count, unit in parts)
