"""A table's current protocol, metadata and domains, as one immutable snapshot; its obj id is the etag."""

from __future__ import annotations

from typing import Any

import msgspec

from turnstile.delta.core.content import ROW_TRACKING_DOMAIN, Content


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


class MetadataSnapshot(msgspec.Struct, frozen=True, omit_defaults=True):
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


def first_snapshot(content: Content, version: int = 0) -> MetadataSnapshot:
    """The snapshot that a commit with both a protocol and a metaData action creates."""
    if content.protocol is None or content.metadata is None:
        raise ValueError("content without protocol and metadata")
    empty = MetadataSnapshot(version=version, protocol=content.protocol, metadata=content.metadata, domains={})
    return apply(empty, content, version)


def apply(snapshot: MetadataSnapshot, content: Content, version: int) -> MetadataSnapshot:
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
    return MetadataSnapshot(
        version=version,
        protocol=content.protocol or snapshot.protocol,
        metadata=content.metadata or snapshot.metadata,
        domains=domains,
        timestamp=content.ict,
        beside=msgspec.structs.replace(snapshot.beside, etag=""),
    )


def etag_of(id: str, snapshot: MetadataSnapshot) -> str:
    """The etag of the snapshot stored under ``id``: it changes exactly when visible metadata does."""
    return snapshot.beside.etag or id
