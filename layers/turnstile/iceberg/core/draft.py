"""Table metadata while the updates of one commit are applied, and the metadata of a new table.

Follows Java's ``TableMetadata.Builder``, including the ids that it assigns: clients compute them as
well, and compare.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from turnstile.iceberg.core.metadata import NEWEST, TableMetadata, check_readable
from turnstile.iceberg.core.partition import (
    FIRST_PARTITION_ID,
    UNSORTED,
    PartitionField,
    PartitionSpec,
    SortField,
    SortOrder,
    check_order,
    check_spec,
)
from turnstile.iceberg.core.schema import Schema, check, highest_id, with_new_ids
from turnstile.iceberg.core.snapshots import (
    MAIN,
    EncryptedKey,
    MetadataLogEntry,
    PartitionStatisticsFile,
    Snapshot,
    SnapshotLogEntry,
    SnapshotRef,
    StatisticsFile,
)
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.limits import INT_MAX, LONG_MAX

LAST_ADDED: Final = -1
DEFAULT_FORMAT: Final = 2

PREVIOUS_VERSIONS: Final = "write.metadata.previous-versions-max"
_PREVIOUS_DEFAULT: Final = 100

NEW_TABLE_DEFAULTS: Final = {"write.parquet.compression-codec": "zstd"}
"""Properties of new tables that do not choose others. Java's library adds them when it creates the
metadata."""

FORMAT_VERSION: Final = "format-version"
"""The property that chooses the format; it is not stored with the others."""


@dataclass
class Draft:
    """Mutable metadata. ``added_*``: the last additions of the updates."""

    now_ms: int
    base: TableMetadata | None = None
    format_version: int = DEFAULT_FORMAT
    uuid: str = ""
    location: str = ""
    last_sequence_number: int = 0
    last_column_id: int = 0
    schemas: dict[int, Schema] = field(default_factory=dict)
    current_schema_id: int = 0
    specs: dict[int, PartitionSpec] = field(default_factory=dict)
    default_spec_id: int = LAST_ADDED
    last_partition_id: int = FIRST_PARTITION_ID - 1
    orders: dict[int, SortOrder] = field(default_factory=dict)
    default_sort_order_id: int = LAST_ADDED
    properties: dict[str, str] = field(default_factory=dict)
    current_snapshot_id: int | None = None
    snapshots: dict[int, Snapshot] = field(default_factory=dict)
    refs: dict[str, SnapshotRef] = field(default_factory=dict)
    log: list[SnapshotLogEntry] = field(default_factory=list)
    statistics: dict[int, StatisticsFile] = field(default_factory=dict)
    partition_statistics: dict[int, PartitionStatisticsFile] = field(default_factory=dict)
    keys: dict[str, EncryptedKey] = field(default_factory=dict)
    next_row_id: int = 0
    added_schema: int | None = None
    added_spec: int | None = None
    added_order: int | None = None
    added_snapshots: set[int] = field(default_factory=set)
    passed_through: set[int] = field(default_factory=set)
    """Snapshots that were current only between two updates of this commit; they are not logged."""
    removed_snapshots: bool = False

    @classmethod
    def of(cls, base: TableMetadata, now_ms: int) -> Draft:
        return cls(
            now_ms=now_ms,
            base=base,
            format_version=base.format_version,
            uuid=base.table_uuid,
            location=base.location,
            last_sequence_number=base.last_sequence_number,
            last_column_id=base.last_column_id,
            schemas={schema.schema_id: schema for schema in base.schemas},
            current_schema_id=base.current_schema_id,
            specs={spec.spec_id: spec for spec in base.partition_specs},
            default_spec_id=base.default_spec_id,
            last_partition_id=base.last_partition_id,
            orders={order.order_id: order for order in base.sort_orders},
            default_sort_order_id=base.default_sort_order_id,
            properties=dict(base.properties),
            current_snapshot_id=base.current_snapshot_id,
            snapshots={snapshot.snapshot_id: snapshot for snapshot in base.snapshots},
            refs=dict(base.refs),
            log=list(base.snapshot_log),
            statistics={snapshot.snapshot_id: snapshot for snapshot in base.statistics},
            partition_statistics={snapshot.snapshot_id: snapshot for snapshot in base.partition_statistics},
            keys={key.key_id: key for key in base.encryption_keys},
            next_row_id=base.next_row_id,
        )

    def finish(self, previous_file: str = "", *, readable: bool = True) -> TableMetadata:
        """Returns the finished metadata, with ``previous_file`` (of ``base``) in its log; ``base``
        itself when nothing was changed. Raises InvalidRequest if a part is missing, or, with
        ``readable``, not every reader can read it.
        """
        if self.base is not None and self._finish(self.base.last_updated_ms, self.base.metadata_log) == self.base:
            return self.base
        self._check()
        files = self.base.metadata_log if self.base else ()
        if self.base is not None and previous_file:
            files = (*files, MetadataLogEntry(self.base.last_updated_ms, previous_file))[-self._files_kept() :]
        log = self._clean_log()
        # the logs of a registered table may end after all clocks here
        ends_ms = [*(entry.timestamp_ms for entry in log[-1:]), *(entry.timestamp_ms for entry in files[-1:])]
        updated_ms = max(self.now_ms, self.base.last_updated_ms if self.base else 0, *ends_ms)
        metadata = msgspec.structs.replace(self._finish(updated_ms, files), snapshot_log=log)
        if readable:
            check_readable(metadata)
        return metadata

    def _finish(self, updated_ms: int, files: tuple[MetadataLogEntry, ...]) -> TableMetadata:
        return TableMetadata(
            format_version=self.format_version,
            table_uuid=self.uuid,
            location=self.location,
            last_updated_ms=updated_ms,
            last_column_id=self.last_column_id,
            schemas=tuple(self.schemas.values()),
            current_schema_id=self.current_schema_id,
            partition_specs=tuple(self.specs.values()),
            default_spec_id=self.default_spec_id,
            last_partition_id=self.last_partition_id,
            sort_orders=tuple(self.orders.values()),
            default_sort_order_id=self.default_sort_order_id,
            last_sequence_number=self.last_sequence_number,
            current_snapshot_id=self.current_snapshot_id,
            next_row_id=self.next_row_id,
            properties=self.properties,
            snapshots=tuple(self.snapshots.values()),
            refs=self.refs,
            snapshot_log=tuple(self.log),
            metadata_log=files,
            statistics=tuple(self.statistics.values()),
            partition_statistics=tuple(self.partition_statistics.values()),
            encryption_keys=tuple(self.keys.values()),
        )

    def _check(self) -> None:
        if not self.uuid or not self.location:
            raise bad_update("the commit gives the table no uuid or no location")
        if not 1 <= self.format_version <= NEWEST:
            raise bad_update(f"format version {self.format_version} is not served")
        ids = (self.last_partition_id, *self.schemas, *self.specs, *self.orders)
        check_room(ids, (self.last_sequence_number, self.next_row_id))
        if not (
            self.current_schema_id in self.schemas
            and self.default_spec_id in self.specs
            and self.default_sort_order_id in self.orders
        ):
            raise bad_update("the commit leaves the table without schema, spec or sort order")

    def _clean_log(self) -> tuple[SnapshotLogEntry, ...]:
        """The snapshot log without snapshots that never were current after a commit, and without
        the history before a removed snapshot, where time travel would be wrong.

        Times never go back: a writer with a slow clock cannot repair its time by a retry, and its
        snapshot became current after its predecessor. The snapshot itself keeps its writer's time.
        """
        kept: list[SnapshotLogEntry] = []
        for entry in self.log:
            if entry.snapshot_id in self.snapshots:
                if entry.snapshot_id not in self.passed_through or entry.snapshot_id == self.current_snapshot_id:
                    since = max(entry.timestamp_ms, kept[-1].timestamp_ms if kept else 0)
                    kept.append(SnapshotLogEntry(since, entry.snapshot_id))
            elif self.removed_snapshots:
                kept.clear()
        return tuple(kept)

    def _files_kept(self) -> int:
        text = self.properties.get(PREVIOUS_VERSIONS, "")
        return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 10 else _PREVIOUS_DEFAULT

    def remove_snapshots(self, ids: Iterable[int]) -> None:
        """Removes snapshots with their statistics, and the branches and tags that lead to them."""
        for id in ids:
            if self.snapshots.pop(id, None) is not None:
                self.removed_snapshots = True
                self.statistics.pop(id, None)
                self.partition_statistics.pop(id, None)
        for name in [name for name, ref in self.refs.items() if ref.snapshot_id not in self.snapshots]:
            self.unpoint(name)

    def point(self, name: str, ref: SnapshotRef) -> None:
        if self.refs.get(name) == ref:
            return
        if name == MAIN:
            if self.current_snapshot_id in self.added_snapshots and self.current_snapshot_id is not None:
                self.passed_through.add(self.current_snapshot_id)
            self.current_snapshot_id = ref.snapshot_id
            added = ref.snapshot_id in self.added_snapshots
            since = self.snapshots[ref.snapshot_id].timestamp_ms if added else self.now_ms
            # a clock that is ahead would put this entry, and all that follow, into the future
            self.log.append(SnapshotLogEntry(min(since, self.now_ms), ref.snapshot_id))
        self.refs[name] = ref

    def unpoint(self, name: str) -> None:
        """Removes a branch or tag; without main there is no current snapshot."""
        self.refs.pop(name, None)
        if name == MAIN:
            self.current_snapshot_id = None


def new_table(
    *,
    uuid: str,
    location: str,
    schema: Schema,
    spec: PartitionSpec | None,
    order: SortOrder | None,
    properties: dict[str, str],
    now_ms: int,
) -> TableMetadata:
    """Returns the metadata of a new table, with new ids of fields: from 1 for columns, from 1000
    for partition fields. Raises InvalidRequest if the schema is not valid, or cannot be partitioned
    or sorted so.
    """
    version = _version(properties)
    check(schema, version)
    columns, fresh = with_new_ids(schema, 0)

    def source(field: PartitionField | SortField, where: str) -> int:
        if field.source_id not in fresh:
            raise InvalidRequest(f"source column {field.source_id} is not in the schema", field=where)
        return fresh[field.source_id]

    fields = tuple(
        msgspec.structs.replace(field, source_id=source(field, "spec"), field_id=FIRST_PARTITION_ID + position)
        for position, field in enumerate(spec.fields if spec else ())
    )
    numbered = PartitionSpec(fields, 0)
    check_spec(numbered, columns, version)
    keys = order.fields if order else ()
    keys = tuple(msgspec.structs.replace(key, source_id=source(key, "sort-order")) for key in keys)
    sorting = SortOrder(keys, 1 if keys else UNSORTED)
    check_order(sorting, columns)
    return TableMetadata(
        format_version=version,
        table_uuid=uuid,
        location=location,
        last_updated_ms=now_ms,
        last_column_id=highest_id(columns),
        schemas=(columns,),
        current_schema_id=0,
        partition_specs=(numbered,),
        default_spec_id=0,
        last_partition_id=FIRST_PARTITION_ID + len(fields) - 1,
        sort_orders=(sorting,),
        default_sort_order_id=sorting.order_id,
        properties={
            name: value for name, value in {**NEW_TABLE_DEFAULTS, **properties}.items() if name != FORMAT_VERSION
        },
    )


def _version(properties: dict[str, str]) -> int:
    text = properties.get(FORMAT_VERSION, str(DEFAULT_FORMAT))
    if text not in {str(version) for version in range(1, NEWEST + 1)}:
        raise InvalidRequest(f"format version {text[:20]!r} is not served", field=f"properties.{FORMAT_VERSION}")
    return int(text)


def check_room(ints: Iterable[int], longs: Iterable[int]) -> None:
    """Raises InvalidRequest if ids or counters are no ``int`` or ``long``: a client may have used
    the highest number."""
    if max(ints) > INT_MAX or max(longs) > LONG_MAX:
        raise InvalidRequest(
            "the next id or sequence number would be too large for Iceberg",
            field="updates",
            remedy="create another one in its place: the highest number is in use",
        )


def chosen_id(id: int, added: int | None, ids: Container[int], what: str) -> int:
    """Returns ``id``, or the last ``added`` one in place of ``LAST_ADDED``; raises InvalidRequest
    unless it is in ``ids``."""
    if id == LAST_ADDED:
        if added is None:
            raise bad_update(f"no {what} was added before")
        id = added
    if id not in ids:
        raise bad_update(f"{what} {id} is not known")
    return id


def bad_update(message: str) -> InvalidRequest:
    """Returns the refusal of a commit's updates."""
    return InvalidRequest(message, field="updates")
