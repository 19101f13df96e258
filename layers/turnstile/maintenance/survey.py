"""Sums up the files of a table for the benefit of rewriting it: a stream over its files, a few
thousand at a time, up to a deadline.

    files = indexed(head, head.floor) or LoggedFiles(open_state(storage, head.floor))
    survey_of(files, partition_columns(files.metadata), ...)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from turnstile.delta.core.actions import NOT_JSON, Add
from turnstile.delta.core.head import TableHead
from turnstile.maintenance.core.candidates import PartitionColumn, PartitionKey, Survey
from turnstile.maintenance.file_actions import Rows, vectors_of
from turnstile.maintenance.state import TableState
from turnstile.store.ports import Clock

if TYPE_CHECKING:
    import pyarrow as pa


class SurveyedFiles(Protocol):
    """The files of a version of a table; ``metadata``: the action's members."""

    metadata: dict[str, Any]

    def add_files(self, survey: Survey, columns: Sequence[PartitionColumn]) -> Iterator[None]:
        """Adds the files to ``survey``, some with each step."""


Indexed = Callable[[TableHead, int], SurveyedFiles | None]
"""Finds the files of a version in an index of the table's (``planning.survey``); None where there
is none."""


class _Stats(msgspec.Struct):
    numRecords: int | None = None


_STATS = msgspec.json.Decoder(_Stats)


def survey_of(
    files: SurveyedFiles,
    columns: Sequence[PartitionColumn],
    *,
    target_bytes: int,
    since_ms: int,
    clock: Clock,
    until_ms: int,
) -> Survey:
    """Returns the sums over files; not ``complete`` if that took longer than until ``until_ms``.
    Raises the errors of reading them."""
    survey = Survey(target_bytes, since_ms)
    for _ in files.add_files(survey, columns):
        if clock.now_ms() > until_ms:
            survey.complete = False
            break
    return survey


class LoggedFiles:
    """The files of a state, which is read from checkpoint and log."""

    def __init__(self, state: TableState) -> None:
        self._state = state
        self.metadata = state.metadata

    def add_files(self, survey: Survey, columns: Sequence[PartitionColumn]) -> Iterator[None]:
        """Adds the files. Raises UnsupportedTable for a log that cannot be read."""
        for chunk in self._state.chunks():
            if isinstance(chunk, Rows):
                for add in chunk.adds:
                    _add_row(survey, columns, add)
            elif chunk.adds is not None:
                _add_columns(survey, columns, chunk.adds)
            yield


def _add_row(survey: Survey, columns: Sequence[PartitionColumn], add: Add) -> None:
    vector = add.deletionVector
    rows = None if vector is None else _records(add.stats)
    deleted = None if vector is None else vector.cardinality
    survey.add(partition_key(columns, add.partitionValues), add.size, add.modificationTime, deleted, rows)


def _add_columns(survey: Survey, columns: Sequence[PartitionColumn], adds: pa.StructArray) -> None:
    from turnstile.maintenance.stats import stats_as_json

    sizes = adds.field("size").to_pylist()
    times = adds.field("modificationTime").to_pylist()
    keys: list[Any] = adds.field("partitionValues").to_pylist() if columns else [()] * len(adds)
    vectors = vectors_of(adds)
    stats = stats_as_json(adds).to_pylist() if any(vectors) else [None] * len(adds)
    for size, time_ms, values, vector, text in zip(sizes, times, keys, vectors, stats, strict=True):
        deleted = None if vector is None else vector.cardinality
        rows = None if vector is None else _records(text)
        survey.add(partition_key(columns, dict(values or ())), size, time_ms, deleted, rows)


def partition_key(columns: Sequence[PartitionColumn], values: Mapping[str, str | None]) -> PartitionKey:
    """Returns a partition by its values, an empty text being none."""
    return tuple(values.get(column.physical) or None for column in columns)


def _records(stats: str | None) -> int | None:
    """The number of rows in a file's statistics; None if they do not say it."""
    try:
        return _STATS.decode(stats).numRecords if stats else None
    except (*NOT_JSON, msgspec.ValidationError):
        return None
