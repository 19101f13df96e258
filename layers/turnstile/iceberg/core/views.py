"""A view's metadata and its JSON (view specification, version 1)."""

from __future__ import annotations

from typing import Final

import msgspec

from turnstile.iceberg.core.schema import Schema
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.limits import Int32, NonNegative64

VIEW_FORMAT: Final = 1


class Representation(msgspec.Struct, frozen=True, rename="kebab"):
    """One definition of a view, in one dialect; ``type`` is always sql today."""

    type: str
    sql: str
    dialect: str


class ViewVersion(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """One version of a view: its definitions and their context."""

    version_id: Int32
    timestamp_ms: NonNegative64
    schema_id: Int32
    summary: dict[str, str]
    representations: tuple[Representation, ...]
    default_namespace: tuple[str, ...]
    default_catalog: str | None = None


class VersionLogEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """Since when a version was the current one (ms)."""

    timestamp_ms: NonNegative64
    version_id: Int32


class ViewMetadata(msgspec.Struct, frozen=True, rename="kebab"):
    """Everything about a view."""

    view_uuid: str
    format_version: Int32
    location: str
    schemas: tuple[Schema, ...]
    current_version_id: Int32
    versions: tuple[ViewVersion, ...]
    version_log: tuple[VersionLogEntry, ...]
    properties: dict[str, str] = {}

    @property
    def current(self) -> ViewVersion:
        """The current version."""
        return next(version for version in self.versions if version.version_id == self.current_version_id)


def parse(raw: bytes) -> ViewMetadata:
    """Returns the metadata in a file; raises InvalidRequest."""
    try:
        metadata = msgspec.json.decode(raw, type=ViewMetadata)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(f"not view metadata: {error}", field="metadata") from None
    if metadata.format_version != VIEW_FORMAT:
        raise InvalidRequest(f"view format version {metadata.format_version} is not served", field="metadata")
    if metadata.current_version_id not in {version.version_id for version in metadata.versions}:
        raise InvalidRequest(f"view version {metadata.current_version_id} is missing", field="metadata")
    return metadata
