"""Reads what rewriting a table is worth: a stream over its files, a few thousand at a time, up to a deadline.

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
from turnstile.maintenance.state import Rows, TableState, vectors_of
from turnstile.store.ports import Clock

if TYPE_CHECKING:
    import pyarrow as pa

SurveyedFile = tuple[Mapping[str, str | None], int, int, int | None, int | None]
"""Partition values by physical name, bytes, time of modification in ms, and of a file with a deletion vector the rows that it deletes, and all rows where
that is known."""


class SurveyedFiles(Protocol):
    """The files of a version of a table; ``metadata``: the action's members."""

    metadata: dict[str, Any]

    def chunks(self) -> Iterator[list[SurveyedFile]]:
        """Yields the files, some at a time."""


Indexed = Callable[[TableHead, int], SurveyedFiles | None]
"""Finds the files of a version in an index of the table's (``planning.survey``); None where there is none."""


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
    """Returns the sums over files; not ``complete`` if that took longer than until ``until_ms``. Raises what reading them raises."""
    survey = Survey(target_bytes, since_ms)
    for chunk in files.chunks():
        for values, size, modified_ms, deleted, rows in chunk:
            survey.add(_key(columns, values), size, modified_ms, deleted, rows)
        if clock.now_ms() > until_ms:
            survey.complete = False
            break
    return survey


class LoggedFiles:
    """The files of a state, which is read from checkpoint and log."""

    def __init__(self, state: TableState) -> None:
        self._state, self.metadata = state, state.metadata

    def chunks(self) -> Iterator[list[SurveyedFile]]:
        """Yields the files. Raises UnsupportedTable for a log that cannot be read."""
        for chunk in self._state.chunks():
            if isinstance(chunk, Rows):
                yield [_of_row(add) for add in chunk.adds]
            elif chunk.adds is not None:
                yield _of_columns(chunk.adds)


def _of_row(add: Add) -> SurveyedFile:
    vector = add.deletionVector
    rows = None if vector is None else _records(add.stats)
    deleted = None if vector is None else vector.cardinality
    return add.partitionValues, add.size, add.modificationTime, deleted, rows


def _of_columns(adds: pa.StructArray) -> list[SurveyedFile]:
    from turnstile.maintenance.stats import stats_as_json

    sizes, times = adds.field("size").to_pylist(), adds.field("modificationTime").to_pylist()
    partitions: list[Any] = adds.field("partitionValues").to_pylist()
    vectors = vectors_of(adds)
    stats = stats_as_json(adds).to_pylist() if any(vectors) else [None] * len(adds)
    return [
        (
            dict(values or ()),
            size,
            time_ms,
            None if vector is None else vector.cardinality,
            None if vector is None else _records(text),
        )
        for values, size, time_ms, vector, text in zip(partitions, sizes, times, vectors, stats, strict=True)
    ]


def _key(columns: Sequence[PartitionColumn], values: Mapping[str, str | None]) -> PartitionKey:
    return tuple(values.get(column.physical) or None for column in columns)


def _records(stats: str | None) -> int | None:
    """The number of rows in a file's statistics; None if they do not say it."""
    try:
        return _STATS.decode(stats).numRecords if stats else None
    except (*NOT_JSON, msgspec.ValidationError):
        return None
