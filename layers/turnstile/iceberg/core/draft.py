"""Metadata being changed: what the updates of one commit have made of it so far.

Follows ``TableMetadata.Builder`` of Iceberg's Java implementation, down to which ids it gives out: clients compute the
same and compare.
"""

from __future__ import annotations

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
from turnstile.iceberg.core.schema import Schema, check, highest_id, renumbered
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
from turnstile.iceberg.core.values import check_room
from turnstile.store.core.errors import InvalidRequest

LAST_ADDED: Final = -1
DEFAULT_FORMAT: Final = 2

PREVIOUS_VERSIONS: Final = "write.metadata.previous-versions-max"
_PREVIOUS_DEFAULT: Final = 100


@dataclass
class Draft:
    """Mutable metadata. ``added_*`` is what the updates added last; ``now_ms`` is the time of the change in ms."""

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
    """Snapshots that were current for a moment inside this commit: they do not belong into the log."""
    removed_snapshots: bool = False

    @classmethod
    def of(cls, base: TableMetadata, now_ms: int) -> Draft:
        """A draft that begins as ``base``."""
        return cls(
            now_ms=now_ms,
            base=base,
            format_version=base.format_version,
            uuid=base.table_uuid,
            location=base.location,
            last_sequence_number=base.last_sequence_number,
            last_column_id=base.last_column_id,
            schemas={one.schema_id: one for one in base.schemas},
            current_schema_id=base.current_schema_id,
            specs={one.spec_id: one for one in base.partition_specs},
            default_spec_id=base.default_spec_id,
            last_partition_id=base.last_partition_id,
            orders={one.order_id: one for one in base.sort_orders},
            default_sort_order_id=base.default_sort_order_id,
            properties=dict(base.properties),
            current_snapshot_id=base.current_snapshot_id,
            snapshots={one.snapshot_id: one for one in base.snapshots},
            refs=dict(base.refs),
            log=list(base.snapshot_log),
            statistics={one.snapshot_id: one for one in base.statistics},
            partition_statistics={one.snapshot_id: one for one in base.partition_statistics},
            keys={one.key_id: one for one in base.encryption_keys},
            next_row_id=base.next_row_id,
        )

    def done(self, previous_file: str = "") -> TableMetadata:
        """The finished metadata; ``base`` itself when nothing was changed.

        Args:
            previous_file: where ``base`` is stored; it joins the log of metadata files.

        Raises:
            InvalidRequest: something is missing, or no reader could read it.
        """
        if self.base is not None and self._finished(self.base.last_updated_ms, self.base.metadata_log) == self.base:
            return self.base
        self._check()
        files = self.base.metadata_log if self.base else ()
        if self.base is not None and previous_file:
            files = (*files, MetadataLogEntry(self.base.last_updated_ms, previous_file))[-self._files_kept() :]
        log = self._clean_log()
        # the logs of a table that was registered may end after all clocks here
        ends = [*(one.timestamp_ms for one in log[-1:]), *(one.timestamp_ms for one in files[-1:])]
        updated = max(self.now_ms, self.base.last_updated_ms if self.base else 0, *ends)
        made = msgspec.structs.replace(self._finished(updated, files), snapshot_log=log)
        check_readable(made)
        return made

    def _finished(self, updated: int, files: tuple[MetadataLogEntry, ...]) -> TableMetadata:
        return TableMetadata(
            format_version=self.format_version,
            table_uuid=self.uuid,
            location=self.location,
            last_updated_ms=updated,
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
            raise InvalidRequest("the commit gives the table no uuid or no location", field="updates")
        if not 1 <= self.format_version <= NEWEST:
            raise InvalidRequest(f"format version {self.format_version} is not served", field="updates")
        check_room(
            (self.last_partition_id, *self.schemas, *self.specs, *self.orders),
            (self.last_sequence_number, self.next_row_id),
        )
        if not (
            self.current_schema_id in self.schemas
            and self.default_spec_id in self.specs
            and self.default_sort_order_id in self.orders
        ):
            raise InvalidRequest("the commit leaves the table without schema, spec or sort order", field="updates")

    def _clean_log(self) -> tuple[SnapshotLogEntry, ...]:
        """The snapshot log without what never was current after a commit, and without gaps: history before a snapshot
        that was removed is dropped, since time travel would be wrong there.

        No entry is older than the one before it. A writer whose clock is behind cannot mend that by trying again, and
        its data is as good as any: so the log says that its snapshot became current no earlier than its predecessor,
        which is true, and the snapshot keeps the time that its writer gave it.
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
        given = self.properties.get(PREVIOUS_VERSIONS, "")
        return max(1, int(given)) if given.isascii() and given.isdigit() and len(given) < 10 else _PREVIOUS_DEFAULT

    def forget(self, snapshot_id: int) -> None:
        """Statistics of a snapshot go with it."""
        self.statistics.pop(snapshot_id, None)
        self.partition_statistics.pop(snapshot_id, None)

    def point(self, name: str, ref: SnapshotRef) -> None:
        """Make a branch or tag lead to a snapshot."""
        if self.refs.get(name) == ref:
            return
        if name == MAIN:
            if self.current_snapshot_id in self.added_snapshots and self.current_snapshot_id is not None:
                self.passed_through.add(self.current_snapshot_id)
            self.current_snapshot_id = ref.snapshot_id
            added = ref.snapshot_id in self.added_snapshots
            since = self.snapshots[ref.snapshot_id].timestamp_ms if added else self.now_ms
            # a clock that is ahead would date this entry, and all that follow, into the future
            self.log.append(SnapshotLogEntry(min(since, self.now_ms), ref.snapshot_id))
        self.refs[name] = ref

    def unpoint(self, name: str) -> None:
        """A branch or tag goes; without main there is no current snapshot."""
        self.refs.pop(name, None)
        if name == MAIN:
            self.current_snapshot_id = None


# -- creating ---------------------------------------------------------------------------------------------------------
# The metadata of a new table, from what a create request says.


FORMAT_VERSION = "format-version"
"""The property that chooses the format; it is not stored with the others."""


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
    """The metadata of a table that nobody has written to.

    Ids of fields are given out here, from 1 for columns and from 1000 for partition fields, whatever the request says.

    Raises:
        InvalidRequest: the schema is none, or cannot be partitioned or sorted so.
    """
    version = _version(properties)
    check(schema, version)
    columns, fresh = renumbered(schema, 0)

    def source(field: PartitionField | SortField, where: str) -> int:
        """The new id of a field's column, which a table that has no past cannot have lost."""
        if field.source_id not in fresh:
            raise InvalidRequest(f"source column {field.source_id} is not in the schema", field=where)
        return fresh[field.source_id]

    fields = tuple(
        msgspec.structs.replace(field, source_id=source(field, "spec"), field_id=FIRST_PARTITION_ID + position)
        for position, field in enumerate(spec.fields if spec else ())
    )
    made = PartitionSpec(fields, 0)
    check_spec(made, columns, version)
    keys = tuple(
        msgspec.structs.replace(field, source_id=source(field, "sort-order"))
        for field in (order.fields if order else ())
    )
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
        partition_specs=(made,),
        default_spec_id=0,
        last_partition_id=FIRST_PARTITION_ID + len(fields) - 1,
        sort_orders=(sorting,),
        default_sort_order_id=sorting.order_id,
        properties={name: value for name, value in properties.items() if name != FORMAT_VERSION},
    )


def _version(properties: dict[str, str]) -> int:
    given = properties.get(FORMAT_VERSION, str(DEFAULT_FORMAT))
    if given not in {str(version) for version in range(1, NEWEST + 1)}:
        raise InvalidRequest(f"format version {given[:20]!r} is not served", field=f"properties.{FORMAT_VERSION}")
    return int(given)
