"""The snapshots, branches, tags and schemas of a table that have expired. Pure.

    branch main       never expires
    other references  expire when their snapshot is older than ``max-ref-age-ms``
    of a branch       its newest ``min-snapshots-to-keep`` ancestors stay, and the ancestors before
                      them that are younger than
                      ``max-snapshot-age-ms``, up to the first that is neither
    of a tag          its one snapshot stays
    others            snapshots that are in no branch and under no tag stay while they are younger
                      than the table's age
    schemas           expire if no remaining snapshot was written with them, except the current one
                      and the newest
                      ``SPARE_SCHEMAS``

Members that a reference lacks come from the table's properties (``history.expire.*``), else from
the defaults below.

Source: table specification, "Snapshot Retention Policy"; Java's ``RemoveSnapshots`` for points that
it leaves open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from turnstile.iceberg.core import updates as u
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.snapshots import MAIN, Snapshot, SnapshotRef
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.limits import LONG_MAX

EXPIRE: Final = "turnstile.maintenance.expire-snapshots"
"""Table property: ``true`` has the catalog expire snapshots."""

REMOVE: Final = "turnstile.maintenance.remove-orphan-files"
"""Table property: ``true`` has the catalog remove files that no metadata file names."""

GC_ENABLED: Final = "gc.enabled"
"""Iceberg's table property: whether maintenance may remove data files that no snapshot names any
more."""

MAX_SNAPSHOT_AGE: Final = "history.expire.max-snapshot-age-ms"
MIN_SNAPSHOTS: Final = "history.expire.min-snapshots-to-keep"
MAX_REF_AGE: Final = "history.expire.max-ref-age-ms"

DEFAULT_AGE_MS: Final = 5 * 24 * 3_600_000
DEFAULT_SNAPSHOTS: Final = 1

SPARE_SCHEMAS: Final = 10
"""Schemas without a snapshot that stay: a writer may have loaded the table with one of the newest,
and commit by it."""


class Retention(msgspec.Struct, frozen=True):
    """A table's properties for references without members of their own."""

    max_snapshot_age_ms: int = DEFAULT_AGE_MS
    min_snapshots: int = DEFAULT_SNAPSHOTS
    max_ref_age_ms: int = LONG_MAX

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Retention:
        """Raises InvalidRequest for a property that is no such number: nothing is expired on its
        word."""
        return cls(
            number(properties, MAX_SNAPSHOT_AGE, DEFAULT_AGE_MS, least=0),
            number(properties, MIN_SNAPSHOTS, DEFAULT_SNAPSHOTS, least=1),
            number(properties, MAX_REF_AGE, LONG_MAX, least=0),
        )


class Expired(msgspec.Struct, frozen=True):
    """The expired parts: names of references, and ids of snapshots and schemas in the order of the
    metadata."""

    refs: tuple[str, ...] = ()
    snapshot_ids: tuple[int, ...] = ()
    schema_ids: tuple[int, ...] = ()

    @property
    def updates(self) -> tuple[u.TableUpdate, ...]:
        """The updates of a commit that removes them; none when there is nothing to remove."""
        refs = tuple(u.RemoveSnapshotRef(name) for name in self.refs)
        snapshots = (u.RemoveSnapshots(self.snapshot_ids),) if self.snapshot_ids else ()
        schemas = (u.RemoveSchemas(self.schema_ids),) if self.schema_ids else ()
        return (*refs, *snapshots, *schemas)


def expires(properties: Mapping[str, str]) -> bool:
    """Whether a table with these ``properties`` asks the catalog to expire its snapshots."""
    return _asks(properties, EXPIRE)


def removes(properties: Mapping[str, str]) -> bool:
    """Whether a table with these ``properties`` asks the catalog to remove files that no metadata
    file names."""
    return _asks(properties, REMOVE)


def may_be_collected(age_ms: int, unnamed_ms: int) -> bool:
    """Whether gc, which leaves unnamed files for ``unnamed_ms``, may have removed files that were
    written before a file that is ``age_ms`` old. The other half of the time is a margin, for the
    duration of the writer's work until then, and for clocks.
    """
    return age_ms > unnamed_ms // 2


def _asks(properties: Mapping[str, str], name: str) -> bool:
    """As in Java, every other text than ``true`` means no; ``gc.enabled`` is true unless it says
    otherwise."""
    allowed = properties.get(GC_ENABLED, "true").lower() == "true"
    return allowed and properties.get(name, "false").lower() == "true"


def expired_parts(metadata: TableMetadata, now_ms: int) -> Expired:
    """Returns the parts that have expired at ``now_ms``; raises InvalidRequest as
    ``Retention.of``."""
    retention = Retention.of(metadata.properties)
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    refs = {name: ref for name, ref in metadata.refs.items() if _stays(name, ref, snapshots, retention, now_ms)}
    in_refs = set[int]()
    kept = {ref.snapshot_id for ref in refs.values()}
    for ref in refs.values():
        if ref.type == "branch":
            kept |= _kept_of_branch(ref, snapshots, retention, now_ms)
            in_refs |= {snapshot.snapshot_id for snapshot in _ancestors(ref.snapshot_id, snapshots)}
        else:
            in_refs.add(ref.snapshot_id)
    oldest_ms = now_ms - retention.max_snapshot_age_ms
    kept |= {id for id, one in snapshots.items() if id not in in_refs and one.timestamp_ms >= oldest_ms}
    gone = tuple(snapshot.snapshot_id for snapshot in metadata.snapshots if snapshot.snapshot_id not in kept)
    return Expired(tuple(name for name in metadata.refs if name not in refs), gone, _unused_schemas(metadata, kept))


def _unused_schemas(metadata: TableMetadata, kept: set[int]) -> tuple[int, ...]:
    """Ids of schemas that nothing needs once only the snapshots ``kept`` are left. None where a
    snapshot does not say its schema."""
    used = {one.schema_id for one in metadata.snapshots if one.snapshot_id in kept}
    if None in used:
        return ()
    unused = sorted(
        one.schema_id for one in metadata.schemas if one.schema_id not in used | {metadata.current_schema_id}
    )
    going = set(unused[:-SPARE_SCHEMAS])
    return tuple(one.schema_id for one in metadata.schemas if one.schema_id in going)


def _stays(name: str, ref: SnapshotRef, snapshots: Mapping[int, Snapshot], retention: Retention, now_ms: int) -> bool:
    max_age_ms = retention.max_ref_age_ms if ref.max_ref_age_ms is None else ref.max_ref_age_ms
    return name == MAIN or now_ms - snapshots[ref.snapshot_id].timestamp_ms <= max_age_ms


def _kept_of_branch(ref: SnapshotRef, snapshots: Mapping[int, Snapshot], retention: Retention, now_ms: int) -> set[int]:
    max_age_ms = retention.max_snapshot_age_ms if ref.max_snapshot_age_ms is None else ref.max_snapshot_age_ms
    least = retention.min_snapshots if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep
    kept = set[int]()
    for snapshot in _ancestors(ref.snapshot_id, snapshots):
        if len(kept) >= least and snapshot.timestamp_ms < now_ms - max_age_ms:
            break
        kept.add(snapshot.snapshot_id)
    return kept


def _ancestors(id: int | None, snapshots: Mapping[int, Snapshot]) -> Iterator[Snapshot]:
    """A snapshot and its ancestors, newest first. Metadata come from clients, so a circle of
    parents ends as well."""
    visited = set[int]()
    while id is not None and id in snapshots and id not in visited:
        visited.add(id)
        yield snapshots[id]
        id = snapshots[id].parent_snapshot_id


def number(properties: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    """The number that a table's property ``name`` is; raises InvalidRequest if it is no number from
    ``least`` on."""
    text = properties.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= LONG_MAX):
        problem = f"{name}={text[:40]!r} is no number from {least} on"
        raise InvalidRequest(problem, field=f"properties.{name}", remedy="correct the table's property")
    return int(text)
