"""Applies updates to a view as Iceberg's Java implementation does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from turnstile.iceberg.core import updates as u
from turnstile.iceberg.core.draft import LAST_ADDED, bad_update, check_room, chosen_id
from turnstile.iceberg.core.metadata import NEWEST
from turnstile.iceberg.core.schema import Schema, check, same
from turnstile.iceberg.core.views import VIEW_FORMAT, VersionLogEntry, ViewMetadata, ViewVersion
from turnstile.store.core.errors import InvalidRequest

HISTORY_SIZE: Final = "version.history.num-entries"
DROP_DIALECTS: Final = "replace.drop-dialect.allowed"
_HISTORY_DEFAULT: Final = 10


class BadArgument(InvalidRequest):
    """A request that Java's clients raise as IllegalArgumentException, as their own catalogs do."""


@dataclass
class _Draft:
    now_ms: int
    uuid: str
    location: str
    schemas: dict[int, Schema]
    versions: dict[int, ViewVersion]
    log: list[VersionLogEntry]
    properties: dict[str, str]
    current: int
    added_schema: int | None = None
    added_version: int | None = None
    added: set[int] = field(default_factory=set)


def apply_updates(base: ViewMetadata, updates: Sequence[u.ViewUpdate], now_ms: int) -> ViewMetadata:
    """Returns ``base`` after ``updates``; ``base`` itself when they change nothing. Raises
    InvalidRequest for an update that cannot be applied, or that removes a dialect without
    ``DROP_DIALECTS``.
    """
    draft = _Draft(
        now_ms,
        base.view_uuid,
        base.location,
        {schema.schema_id: schema for schema in base.schemas},
        {version.version_id: version for version in base.versions},
        list(base.version_log),
        dict(base.properties),
        base.current_version_id,
    )
    for update in updates:
        _apply(update, draft)
    metadata = _finish(draft)
    _check_dialects(base.current, metadata)
    return base if metadata == base else metadata


def new_view(
    *, uuid: str, location: str, schema: Schema, version: ViewVersion, properties: dict[str, str], now_ms: int
) -> ViewMetadata:
    """Returns the metadata of a new view; raises InvalidRequest."""
    draft = _Draft(now_ms, uuid, location, {}, {}, [], dict(properties), LAST_ADDED)
    _apply(u.AddSchema(schema), draft)
    _apply(u.AddViewVersion(msgspec.structs.replace(version, version_id=1, schema_id=LAST_ADDED)), draft)
    _apply(u.SetCurrentViewVersion(LAST_ADDED), draft)
    return _finish(draft)


def _apply(update: u.ViewUpdate, draft: _Draft) -> None:
    match update:
        case u.AssignUuid(uuid):
            if uuid.lower() != draft.uuid.lower():
                raise bad_update("the uuid of a view cannot be changed")
        case u.UpgradeFormatVersion(version):
            if version != VIEW_FORMAT:
                raise bad_update(f"view format version {version} is not served")
        case u.SetLocation(location):
            draft.location = location  # a text: the catalog writes a view's files where it chose to
        case u.SetProperties(changed):
            draft.properties |= changed
        case u.RemoveProperties(removals):
            draft.properties = {name: value for name, value in draft.properties.items() if name not in removals}
        case u.AddSchema(schema):
            _add_schema(schema, draft)
        case u.AddViewVersion(version):
            _add_version(version, draft)
        case u.SetCurrentViewVersion(id):
            id = chosen_id(id, draft.added_version, draft.versions, "version")
            if id != draft.current:
                draft.current = id
                since = draft.versions[id].timestamp_ms if id in draft.added else draft.now_ms
                draft.log.append(VersionLogEntry(since, id))


def _add_schema(schema: Schema, draft: _Draft) -> None:
    check(schema, NEWEST)
    id = next((other.schema_id for other in draft.schemas.values() if same(other, schema)), None)
    if id is None:
        id = max(draft.schemas, default=-1) + 1
        draft.schemas[id] = msgspec.structs.replace(schema, schema_id=id)
    draft.added_schema = id


def _add_version(version: ViewVersion, draft: _Draft) -> None:
    schema_id = chosen_id(version.schema_id, draft.added_schema, draft.schemas, "schema")
    version = msgspec.structs.replace(version, schema_id=schema_id)
    dialects = _dialects(version)
    if len(dialects) != len(version.representations):
        twice = Counter(representation.dialect.lower() for representation in version.representations).most_common(1)[0][
            0
        ]
        raise BadArgument(
            f"Invalid view version: Cannot add multiple queries for dialect {twice}", field="view-version"
        )
    if any(representation.type != "sql" for representation in version.representations) or not dialects:
        raise bad_update("a version has representations of type sql, and at least one")
    id = next((other.version_id for other in draft.versions.values() if _meaning(other) == _meaning(version)), None)
    if id is None:
        id = max([version.version_id, *(other + 1 for other in draft.versions)])
        draft.versions[id] = msgspec.structs.replace(version, version_id=id)
        draft.added.add(id)
    draft.added_version = id


def _meaning(version: ViewVersion) -> object:
    """The version without its id and time."""
    return msgspec.structs.replace(version, version_id=0, timestamp_ms=0)


def _finish(draft: _Draft) -> ViewMetadata:
    """The metadata with as many versions as its properties allow: the newest, the current, and
    versions just added."""
    text = draft.properties.get(HISTORY_SIZE, str(_HISTORY_DEFAULT))
    if not (text.isascii() and text.isdigit() and int(text[:9]) > 0):
        raise bad_update(f"{HISTORY_SIZE} must be a positive number, not {text[:20]!r}")
    check_room((*draft.schemas, *draft.versions), (0,))
    keep = max(int(text[:9]), len({*draft.added, draft.current}))
    newest = [id for id in sorted(draft.versions, reverse=True) if id != draft.current][: keep - 1]
    kept = {draft.current, *newest}
    log: list[VersionLogEntry] = []
    for entry in draft.log:
        if entry.version_id in kept:
            log.append(entry)
        else:
            log.clear()  # a history with gaps would be wrong
    return ViewMetadata(
        view_uuid=draft.uuid,
        format_version=VIEW_FORMAT,
        location=draft.location,
        schemas=tuple(draft.schemas.values()),
        current_version_id=draft.current,
        versions=tuple(version for id, version in draft.versions.items() if id in kept),
        version_log=tuple(log),
        properties=draft.properties,
    )


def _check_dialects(before: ViewVersion, after: ViewMetadata) -> None:
    lost = _dialects(before) - _dialects(after.current)
    if lost and after.properties.get(DROP_DIALECTS, "false").lower() != "true":
        raise bad_update(
            f"the view would lose dialect {', '.join(sorted(lost))}; set {DROP_DIALECTS}=true if it is meant"
        )


def _dialects(version: ViewVersion) -> set[str]:
    return {representation.dialect.lower() for representation in version.representations}
