"""The files and rows of an Iceberg table, for checks of its expectations before a branch is
promoted (``expectations.sources``, ``branches.checks``).

    added files   data files of the current snapshot that the base's has not. Manifests that both
                  snapshots have are not read
    deletes       rows that position deletes or a deletion vector name are left out; a file with
                  equality deletes is decided by its statistics, or is not checked
    columns       are found by the ids of fields; a file without ids is not checked

Source: table specification, "Scan Planning".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from turnstile.expectations.core.conditions import NotEvaluated
from turnstile.expectations.sources import DAY_US, CheckedFile
from turnstile.iceberg.core.files import manifests
from turnstile.iceberg.core.files.content_files import ContentFile, DeleteFiles
from turnstile.iceberg.core.files.file_ranges import ScanColumns, current_columns, map_of
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.partition import PartitionSpec
from turnstile.iceberg.scans.manifest_reader import ManifestReader, Wanted
from turnstile.planning.core.predicates import TableColumns, TypedColumn
from turnstile.planning.read_budget import ReadBudget
from turnstile.store.core.errors import TooLarge, UnsupportedTable
from turnstile.store.ports import Storages
from turnstile_predicates.predicates import Column, Range

if TYPE_CHECKING:
    import pyarrow as pa

    from turnstile.iceberg.expectations.deleted_rows import DeletedRows
    from turnstile.planning.file_rows import TableFiles

FILES_MAX: Final = 50_000
"""Data files of a snapshot that are looked at."""
MANIFESTS_MAX: Final = 1_000
"""Manifests and lists of a table that are read: each is a request."""
_NO_PARTITIONS: Final = PartitionSpec(())


@contextmanager
def _as_not_evaluated() -> Iterator[None]:
    """Raises NotEvaluated for manifests that are not read here."""
    try:
        yield
    except (UnsupportedTable, TooLarge) as error:
        raise NotEvaluated(error.public_message) from error


class IcebergFile:
    """A data file by its record in a manifest, with the delete files that may concern it."""

    def __init__(
        self, file: ContentFile, columns: ScanColumns, spec: PartitionSpec, deletes: Sequence[ContentFile]
    ) -> None:
        self.file = file
        self.spec = spec
        self.deletes = deletes
        self._columns = columns

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def has_deleted_rows(self) -> bool:
        return bool(self.deletes)

    def ranges(self) -> Callable[[Column], Range] | None:
        return self._columns.ranges_of_file(self.file.record, self.spec) if self._count else None

    def rows(self) -> int:
        if not all(delete.is_vector for delete in self.deletes):
            raise NotEvaluated(f"delete files do not say how many rows {self.path[-200:]!r} still has")
        return self._count - sum(int(delete.record[manifests.RECORD_COUNT]) for delete in self.deletes)

    def nulls(self, column: TypedColumn) -> int:
        nulls = map_of(self.file.record, manifests.NULL_COUNTS).get(self._columns.id_of(column.name) or 0)
        if len(column.name) > 1 or type(nulls) is not int or (nulls and self.deletes):
            raise NotEvaluated(f"the statistics of {self.path[-200:]!r} do not say how many nulls it has")
        return nulls

    def newest_us(self, column: TypedColumn) -> int | None:
        if not self._count:
            return None
        found = self._columns.ranges_of_file(self.file.record, _NO_PARTITIONS)(column.name)
        if not found.has_values:
            return None
        if found.high is None:
            raise NotEvaluated(f"the statistics of {self.path[-200:]!r} do not say which value is its newest")
        high: int = found.high
        return high * DAY_US if found.kind == "date" else high

    @property
    def _count(self) -> int:
        return int(self.file.record[manifests.RECORD_COUNT])


class Reads(NamedTuple):
    """Storages, and bounds on the bytes of data files (``rows``) and of manifests that are read."""

    storages: Storages
    rows: ReadBudget
    manifests: ReadBudget


class IcebergSource:
    """``TableSource`` of an Iceberg table: its current snapshot. ``base``: the table before the
    branch; None: the branch created it."""

    def __init__(self, reads: Reads, location: str, metadata: TableMetadata, base: TableMetadata | None = None) -> None:
        self._reads = reads
        self._location = location
        self._metadata = metadata
        self._base = base
        self._contents: dict[str, bytes] = {}

    @cached_property
    def columns(self) -> TableColumns:
        return self._columns.table

    @cached_property
    def shown_names(self) -> Sequence[str]:
        fields = self.columns.schema.fields
        return [name[0] for name, field in fields.items() if len(name) == 1 and field.kind is not None]

    def require_readable(self) -> None:
        """Files are refused one by one."""

    def files(self) -> Iterator[IcebergFile]:
        return self._with_deletes(self._data_files(self._metadata, self._manifests_of(self._metadata), statistics=True))

    def added_files(self) -> Iterator[IcebergFile]:
        """Yields the files that the base does not have."""
        listed = self._manifests_of(self._metadata)
        before = [] if self._base is None else self._manifests_of(self._base)
        both = {each[manifests.PATH] for each in listed} & {each[manifests.PATH] for each in before}
        own = [each for each in listed if each[manifests.PATH] not in both]
        gone = [each for each in before if each[manifests.PATH] not in both]
        known = {file.path for file in self._data_files(self._base or self._metadata, gone, statistics=False)}
        found = self._data_files(self._metadata, own, statistics=True)
        return self._with_deletes(file for file in found if file.path not in known)

    def read(self, file: CheckedFile, names: Sequence[str]) -> Iterator[list[pa.Array]]:
        from turnstile.iceberg.expectations.deleted_rows import place_of_file
        from turnstile.iceberg.expectations.file_columns import read_columns

        assert isinstance(file, IcebergFile)
        record = file.file.record
        if str(record.get(manifests.FILE_FORMAT)).lower() != "parquet":
            raise NotEvaluated(f"{file.path[-200:]!r} is no Parquet file")
        fields = {field.name: field for field in self._metadata.schema.fields}
        partitioned = {each.source_id for each in file.spec.fields if each.transform == "identity"}
        deleted = self._deleted_rows.of(file.path, file.deletes) if file.deletes else None
        place = place_of_file(file.path)
        return read_columns(self._table_files, place, [fields[name] for name in names], partitioned, deleted=deleted)

    @cached_property
    def _table_files(self) -> TableFiles:
        from turnstile.planning.file_rows import TableFiles

        return TableFiles(self._reads.storages, self._location, self._reads.rows)

    @cached_property
    def _deleted_rows(self) -> DeletedRows:
        from turnstile.iceberg.expectations.deleted_rows import DeletedRows

        return DeletedRows(self._table_files)

    @cached_property
    def _columns(self) -> ScanColumns:
        return current_columns(self._metadata)

    @cached_property
    def _deletes(self) -> DeleteFiles:
        reader = self._reader(self._metadata)
        deletes = reader.no_deletes()
        with _as_not_evaluated():
            reader.read_deletes(self._manifests_of(self._metadata), deletes)
        return deletes

    def _manifests_of(self, metadata: TableMetadata) -> list[dict[int, Any]]:
        """The manifests of the current snapshot."""
        snapshot = metadata.snapshot(metadata.current_snapshot_id)
        if snapshot is None:
            return []
        with _as_not_evaluated():
            return list(self._reader(metadata).manifests(snapshot))

    def _data_files(
        self, metadata: TableMetadata, listed: Sequence[dict[int, Any]], *, statistics: bool
    ) -> Iterator[ContentFile]:
        reader = self._reader(metadata)
        wanted = Wanted(statistics=statistics)
        number = 0
        with _as_not_evaluated():
            for manifest in listed:
                for file in () if manifest.get(manifests.CONTENT) else reader.files(manifest, wanted):
                    number += 1
                    if number > FILES_MAX:
                        raise NotEvaluated(f"the snapshot has more than {FILES_MAX} files")
                    if file is not None:
                        yield file

    def _with_deletes(self, files: Iterator[ContentFile]) -> Iterator[IcebergFile]:
        reader = self._reader(self._metadata)
        for file in files:
            yield IcebergFile(file, self._columns, reader.spec(file.spec_id), self._deletes.of(file))

    def _reader(self, metadata: TableMetadata) -> ManifestReader:
        return ManifestReader(self._reads.storages, metadata, [self._location], self._content)

    def _content(self, path: str, read: Callable[[str], bytes]) -> bytes:
        """The content of a manifest, which is read once."""
        if path not in self._contents:
            if len(self._contents) >= MANIFESTS_MAX:
                raise NotEvaluated(f"more than {MANIFESTS_MAX} manifests would be read")
            content = read(path)
            self._reads.manifests.count(len(content))
            self._contents[path] = content
        return self._contents[path]
