"""Rows as the data files of one commit: one Parquet file for each partition."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet

from turnstile.store.core.errors import TooLarge
from turnstile_rows.definitions import Definition
from turnstile_rows.layouts import Layout
from turnstile_rows.partitions import Texts, split
from turnstile_rows.statistics import Statistics

PARTITIONS: Final = 64
"""Partitions that one request may write to: each is a file, and a request to the store."""


class EncodedFile(msgspec.Struct, frozen=True):
    """A data file that is not written yet; ``stats``: JSON, as in its action."""

    partition_values: dict[str, str | None]
    content: bytes
    stats: str
    rows: int


Parts = dict[Texts, list[pa.RecordBatch]]
"""Rows by partition, without the partition columns."""


def parts_of(batches: Iterable[pa.RecordBatch], definition: Definition) -> Parts:
    """Returns rows in the columns of the table by partition. Raises TooLarge for rows of too many
    partitions, DataMismatch for a partition value that cannot be kept."""
    parts: Parts = {}
    for batch in filter(len, batches):
        for texts, rows in split(batch, definition.partitions):
            parts.setdefault(texts, []).append(rows)
        _require_few(len(parts))
    return parts


def encode_parts(requests: Iterable[Parts], definition: Definition) -> list[EncodedFile]:
    """Returns the files of the rows of several requests. Raises TooLarge for rows of too many
    partitions, Unsupported for columns without the ids that the table's files need."""
    layout = Layout(definition)
    together: Parts = {}
    for parts in requests:
        for texts, rows in parts.items():
            together.setdefault(texts, []).extend(map(layout.rows, rows))
        _require_few(len(together))
    return [_encode(layout.partition_values(texts), rows, layout) for texts, rows in together.items()]


def _require_few(partitions: int) -> None:
    if partitions > PARTITIONS:
        text = f"the rows are of more than {PARTITIONS} partitions"
        raise TooLarge(text, field="body", remedy="send rows of fewer partitions in one request", limit=PARTITIONS)


def _encode(values: dict[str, str | None], rows: Sequence[pa.RecordBatch], layout: Layout) -> EncodedFile:
    statistics = Statistics(layout.indexed)
    sink = io.BytesIO()
    table = pa.Table.from_batches(rows, layout.schema).combine_chunks()
    for each in table.to_batches():
        statistics.add(each)
    pyarrow.parquet.write_table(table, sink, compression="snappy", store_schema=False)
    return EncodedFile(values, sink.getvalue(), statistics.text(), statistics.rows)
