"""Reads what rewriting a table is worth: a stream over its files, a few thousand at a time, up to a deadline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from turnstile.delta.core.actions import NOT_JSON, Add
from turnstile.maintenance.core.candidates import PartitionColumn, PartitionKey, Survey
from turnstile.maintenance.state import Rows, TableState, vectors_of
from turnstile.store.ports import Clock

if TYPE_CHECKING:
    import pyarrow as pa


class _Stats(msgspec.Struct):
    numRecords: int | None = None


_STATS = msgspec.json.Decoder(_Stats)


def survey_of(
    state: TableState,
    columns: Sequence[PartitionColumn],
    *,
    target_bytes: int,
    since_ms: int,
    clock: Clock,
    until_ms: int,
) -> Survey:
    """Returns the sums over the files of a state; not ``complete`` if that took longer than until ``until_ms``. Raises
    UnsupportedTable for a log that cannot be read."""
    survey = Survey(target_bytes, since_ms)
    for chunk in state.chunks():
        if isinstance(chunk, Rows):
            for add in chunk.adds:
                _add_row(survey, columns, add)
        elif chunk.adds is not None:
            _add_columns(survey, columns, chunk.adds)
        if clock.now_ms() > until_ms:
            survey.complete = False
            break
    return survey


def _add_row(survey: Survey, columns: Sequence[PartitionColumn], add: Add) -> None:
    vector = add.deletionVector
    rows = None if vector is None else _records(add.stats)
    deleted = None if vector is None else vector.cardinality
    survey.add(_key(columns, add.partitionValues), add.size, add.modificationTime, deleted, rows)


def _add_columns(survey: Survey, columns: Sequence[PartitionColumn], adds: pa.StructArray) -> None:
    from turnstile.maintenance.stats import stats_as_json

    sizes, times = adds.field("size").to_pylist(), adds.field("modificationTime").to_pylist()
    keys: list[Any] = adds.field("partitionValues").to_pylist() if columns else [()] * len(adds)
    vectors = vectors_of(adds)
    stats = stats_as_json(adds).to_pylist() if any(vectors) else [None] * len(adds)
    for size, time_ms, values, vector, text in zip(sizes, times, keys, vectors, stats, strict=True):
        deleted = None if vector is None else vector.cardinality
        rows = None if vector is None else _records(text)
        survey.add(_key(columns, dict(values or ())), size, time_ms, deleted, rows)


def _key(columns: Sequence[PartitionColumn], values: dict[str, str | None]) -> PartitionKey:
    return tuple(values.get(column.physical) or None for column in columns)


def _records(stats: str | None) -> int | None:
    """The number of rows in a file's statistics; None if they do not say it."""
    try:
        return _STATS.decode(stats).numRecords if stats else None
    except (*NOT_JSON, msgspec.ValidationError):
        return None
