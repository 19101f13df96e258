"""A table's current protocol, metadata and domains, as one immutable snapshot; its obj id is the etag."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from turnstile.delta.core.content import ROW_TRACKING_DOMAIN, Content
from turnstile.store.core.answer_size import told
from turnstile.store.core.errors import TooLarge


class Beside(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the catalog keeps beside the log: values that engines tell it and no file holds. The log wins.

    Attributes:
        properties: table properties; one that the log has too counts as the log says.
        comment: used where the log has no description.
        uniform: conversion state of the newest commit that carried one.
        etag: when this snapshot repeats the visible metadata of another one, that one's etag.
        updated: when it was changed without a commit, in ms; 0 if it never was.
    """

    properties: dict[str, str] = {}
    comment: str | None = None
    uniform: dict[str, Any] | None = None
    etag: str = ""
    updated: int = 0


class DeltaMetadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """Protocol and metaData actions as last committed, domains by name, and the version that changed them last with
    its in-commit timestamp (ms; 0: written before snapshots knew it)."""

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


def first_snapshot(content: Content, version: int = 0) -> DeltaMetadata:
    """The snapshot that a commit with both a protocol and a metaData action creates."""
    if content.protocol is None or content.metadata is None:
        raise ValueError("content without protocol and metadata")
    empty = DeltaMetadata(version=version, protocol=content.protocol, metadata=content.metadata, domains={})
    return apply(empty, content, version)


def apply(snapshot: DeltaMetadata, content: Content, version: int) -> DeltaMetadata:
    """The snapshot after ``content`` became ``version``. Row tracking's high-water mark lives in the HEAD, not here."""
    domains = dict(snapshot.domains)
    for domain in content.domains:
        name = domain["domain"]
        if name == ROW_TRACKING_DOMAIN:
            continue
        if domain.get("removed"):
            domains.pop(name, None)
        else:
            domains[name] = domain.get("configuration")
    return DeltaMetadata(
        version=version,
        protocol=content.protocol or snapshot.protocol,
        metadata=content.metadata or snapshot.metadata,
        domains=domains,
        timestamp=content.ict,
        beside=msgspec.structs.replace(snapshot.beside, etag=""),
    )


def etag_of(id: str, snapshot: DeltaMetadata) -> str:
    """The etag of the snapshot stored under ``id``: it changes exactly when visible metadata does."""
    return snapshot.beside.etag or id


# -- metadata size ----------------------------------------------------------------------------------------------------
# What a table's metadata takes in the answer that says most about it, so that what is stored can be told.
#
# That is Unity Catalog's older API, which says every column twice: in words, and as JSON in a string. A table whose answer
# is larger than Lambda's could be loaded by nobody, and one client with the right to change properties could make it so.
# So a change that would is refused, before anything is written.


MAX_SHOWN: Final = 4_500_000
"""Bytes of an answer about metadata alone; ``answer_size.MOST`` leaves the rest to commits that are not published."""

_COLUMN: Final = 250
"""Bytes of a column's members in the older API, values apart, as Lambda has them."""

_FEATURE: Final = 60
"""Bytes of a table feature as a property, its name apart."""


def shown(snapshot: DeltaMetadata) -> int:
    """An upper bound of the bytes that any answer takes to tell ``snapshot``, as Lambda has them."""
    metadata, protocol = snapshot.metadata, snapshot.protocol
    fields = msgspec.json.decode(metadata.get("schemaString") or "{}").get("fields") or []
    columns = told(fields) + told(msgspec.json.encode(fields).decode()) + _COLUMN * len(fields)
    rest = {name: value for name, value in metadata.items() if name != "schemaString"}
    others = told([rest, protocol, protocol, snapshot.domains, snapshot.domains, snapshot.beside])
    features = len(protocol.get("readerFeatures") or []) + len(protocol.get("writerFeatures") or [])
    return columns + others + _FEATURE * features


def check_shown(snapshot: DeltaMetadata, *, room: int = 0) -> None:
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
