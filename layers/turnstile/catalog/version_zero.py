"""Version 0 of a new table: read from storage and judged before the table exists."""

from __future__ import annotations

import msgspec

from turnstile.catalog.staging import UUID_PROPERTY
from turnstile.delta.core.content import Content, read_content
from turnstile.delta.core.head import ROWS_UNREAD
from turnstile.delta.limits import Limits
from turnstile.delta.ratify import TimestampAhead
from turnstile.store.core.errors import InvalidCommit, NotFound
from turnstile.store.core.paths import published_path
from turnstile.store.world import World


class VersionZero(msgspec.Struct, frozen=True):
    """What registration needs of it; ``row_hwm`` the row-id high-water mark, None without row tracking."""

    content: Content
    row_hwm: int | None


def read_version_zero(world: World, limits: Limits, location: str, table_id: str) -> VersionZero:
    """Read ``_delta_log/00000000000000000000.json`` below ``location``.

    Raises:
        NotFound: the file is not there.
        InvalidCommit: it breaks the catalog-managed contract; the message names the member.
    """
    path = published_path(0)
    found = world.storages.open(location).read(path, limit=limits.staged_bytes)
    if found is None:
        raise NotFound("commit", path, field="table_id", remedy="write version 0 before registering the table")
    raw, stat = found
    content = read_content(raw, whole=len(raw) == stat.size, first_version=True)
    now = world.clock.now_ms()
    if content.ict > now + limits.clock_skew_ms:
        raise TimestampAhead(
            f"in-commit timestamp {content.ict} is {(content.ict - now) // 1000} s ahead of the server's clock",
            field="commitInfo.inCommitTimestamp",
            remedy="correct the writer's clock; an accepted timestamp could never be undercut again",
            server=now,
        )
    stored = (content.metadata or {}).get("configuration", {}).get(UUID_PROPERTY)
    if stored is not None and str(stored).lower() != table_id:
        raise InvalidCommit(
            f"metaData.configuration has {UUID_PROPERTY} {stored!r}, not this table's id {table_id}",
            field=f"metaData.configuration.{UUID_PROPERTY}",
            remedy="leave the property out, or set it to table_id",
        )
    return VersionZero(content, _row_hwm(content))


def _row_hwm(content: Content) -> int | None:
    features = (content.protocol or {}).get("writerFeatures") or []
    if "rowTracking" not in features:
        return None
    if not content.whole:
        return ROWS_UNREAD
    return -1 if content.hwm is None else content.hwm
