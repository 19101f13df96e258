"""Writing the rows of one commit as Parquet files, with their statistics.

Files lie beside one another in the table's folder, under unique names: partition values are in the
log, and a folder named after one would need its characters escaped and its length bounded.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from turnstile_client.errors import DataMismatch
from turnstile_client.failures import failures_at
from turnstile_client.storage import Storage
from turnstile_rows.commits import DataFile
from turnstile_rows.definitions import Definition
from turnstile_rows.layouts import Layout
from turnstile_rows.partitions import Texts, split
from turnstile_rows.statistics import Statistics

log = logging.getLogger("turnstile_client")

#: Bytes after which a file is ended, unless the table's property says otherwise.
TARGET_BYTES: Final = 128 * 1024 * 1024
#: Bytes of rows that wait, for all files together; and rows of a row group at most.
_WAITING_BYTES: Final = 256 * 1024 * 1024
_GROUP_ROWS: Final = 1_048_576
_GROUP_BYTES: Final = 64 * 1024 * 1024
#: Files that are written at once: each keeps a connection or a descriptor.
_OPEN: Final = 64


class _OpenFile:
    """A file that is being written. Rows wait until they are a row group."""

    def __init__(self, name: str, texts: Texts, statistics: Statistics) -> None:
        self.name = name
        self.texts = texts
        self.statistics = statistics
        self.waiting = list[pa.RecordBatch]()
        self.waiting_bytes = 0
        self.sink: Any = None
        self.writer: pq.ParquetWriter | None = None


class Writer:
    """Writes rows of a table's schema below ``storage``. After :meth:`close`, ``files`` are the
    written files; :meth:`discard` removes everything, at any time."""

    def __init__(self, storage: Storage, definition: Definition, target_bytes: int = TARGET_BYTES) -> None:
        self._storage = storage
        self._partitions = definition.partitions
        self._target = target_bytes
        self._layout = Layout(definition)
        self._schema = self._layout.schema
        self._open = dict[Texts, _OpenFile]()
        self._names = list[str]()
        self.files = list[DataFile]()

    def write(self, batch: pa.RecordBatch) -> None:
        """Writes rows. Raises :class:`turnstile_client.errors.StorageFailure`, and
        :class:`turnstile_client.errors.DataMismatch` for a partition value that cannot be kept."""
        for texts, part in split(batch, self._partitions):
            file = self._open.pop(texts, None) or self._begin(texts)
            self._open[texts] = file  # the latest last
            rows = self._layout.rows(part)
            file.waiting.append(rows)
            file.waiting_bytes += rows.nbytes
            file.statistics.add(rows)
            if file.waiting_bytes >= _GROUP_BYTES:
                self._flush(file)
            while sum(each.waiting_bytes for each in self._open.values()) > _WAITING_BYTES:
                self._flush(max(self._open.values(), key=lambda each: each.waiting_bytes))
            if file.sink is not None and file.sink.tell() >= self._target:
                self._end(self._open.pop(texts))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends all files; removes them if the block, or that, does not succeed."""
        if error is not None:
            self.discard()
            return
        try:
            self.close()
        except BaseException:
            self.discard()
            raise

    def close(self) -> None:
        """Ends all files."""
        while self._open:
            self._end(self._open.pop(next(iter(self._open))))

    def discard(self) -> None:
        """Removes the written files. A file that cannot be removed now is left to VACUUM: no commit
        names it."""
        for file in self._open.values():
            with suppress(Exception):
                if file.writer is not None:
                    file.writer.close()
                    file.sink.close()
        self._open.clear()
        ended = {file.path for file in self.files}
        for name in self._names:
            try:
                self._storage.remove(name)
            except OSError as e:
                if (
                    self._storage.is_s3 and name not in ended
                ):  # an object is there once its upload has ended, and not before
                    continue
                log.warning(
                    "turnstile_client: %s is left in the table's folder, and is no part of the table: %s", name, e
                )
        self._names.clear()
        self.files.clear()

    def _begin(self, texts: Texts) -> _OpenFile:
        if len(self._open) >= _OPEN:
            self._end(self._open.pop(next(iter(self._open))))
        return _OpenFile(f"part-{uuid.uuid4()}.snappy.parquet", texts, Statistics(self._layout.indexed))

    def _flush(self, file: _OpenFile) -> None:
        with failures_at(self._storage.location):
            self._write_waiting(file)

    def _write_waiting(self, file: _OpenFile) -> None:
        if file.writer is None:
            self._names.append(file.name)
            file.sink = self._storage.system().open_output_stream(self._storage.path(file.name))
            file.writer = pq.ParquetWriter(file.sink, self._schema, compression="snappy", store_schema=False)
        file.writer.write_table(pa.Table.from_batches(file.waiting, self._schema), row_group_size=_GROUP_ROWS)
        file.waiting.clear()
        file.waiting_bytes = 0

    def _end(self, file: _OpenFile) -> None:
        if file.waiting or file.writer is None:
            self._flush(file)
        assert file.writer is not None
        with failures_at(self._storage.location):
            file.writer.close()
            size = file.sink.tell()
            file.sink.close()
        values = self._layout.partition_values(file.texts)
        written = DataFile(
            file.name, values, size, int(time.time() * 1000), file.statistics.text(), file.statistics.rows
        )
        self.files.append(written)


def target_bytes(definition: Definition) -> int:
    """The size at which files of a table are ended: its property ``delta.targetFileSize``, if that
    is a number of bytes, or with a unit."""
    text = definition.properties.get("delta.targetFileSize", "").strip().lower()
    units = {"kb": 2**10, "k": 2**10, "mb": 2**20, "m": 2**20, "gb": 2**30, "g": 2**30, "b": 1, "": 1}
    number = text.rstrip("kmgb")
    return int(number) * units.get(text[len(number) :], 1) if number.isdecimal() and int(number) else TARGET_BYTES


def batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The batches of a stream that have rows."""
    return (batch for batch in reader if batch.num_rows)


def stream_of(data: Any) -> pa.RecordBatchReader:
    """Rows of a table of Arrow, or of anything that exports Arrow's C stream (Polars, DuckDB, ...),
    or a pandas DataFrame. Raises :class:`DataMismatch` for anything else."""
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return data.to_reader()
    if type(data).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(data, preserve_index=False).to_reader()
    if hasattr(data, "__arrow_c_stream__"):
        try:
            return pa.RecordBatchReader.from_stream(data)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:  # a type that only the library has, such as Int128
            raise DataMismatch(f"the data has a column of a type that Arrow has not: {e}; cast it") from None
    raise DataMismatch(
        f"{type(data).__name__} is no table: give one of pyarrow, Polars, DuckDB or pandas, or an object that exports "
        f"__arrow_c_stream__"
    )
