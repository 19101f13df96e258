"""Rows that do not fit their table, as rows of the table of rejected rows beside it (docs/rows.md).

The table has a row for each of them: the JSON of the row as it was sent, its place in the request,
and the column and the problem by which it was refused. So a person corrects the rows and sends them
again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
import pyarrow as pa

from turnstile.ingest.core.errors import InvalidRows
from turnstile.store.core.errors import TooLarge
from turnstile_rows.conforming import Conformer
from turnstile_rows.definitions import Definition, new_definition
from turnstile_rows.schemas import TIMESTAMP, delta_schema

SUFFIX: Final = "_rejected"
"""The end of the table's name, after the name of the table that refused the rows."""
ROWS_MAX: Final = 10_000
"""Rejected rows of one request. A body of which more do not fit is refused: it is for another
table."""

BYTES_OF_BODY: Final = 8 * 1024 * 1024
BYTES_MORE: Final = 4 * 1024 * 1024
"""Bytes of the texts of rejected rows: two for each byte of the body, and so many more."""
PROBLEM_MAX: Final = 2_000
"""Characters of a problem: it may name columns of the table."""

SCHEMA: Final = pa.schema([
    pa.field("rejected_at", TIMESTAMP),
    pa.field("principal", pa.string()),
    pa.field("request", pa.string()),
    pa.field("place", pa.string()),
    pa.field("column", pa.string()),
    pa.field("problem", pa.string()),
    pa.field("row", pa.string()),
])  # fmt: skip
COMMENT: Final = "Rows that did not fit the table beside it, with the reasons. Correct them and send them again."


class Reject(msgspec.Struct, frozen=True):
    """A row that does not fit. ``place``: of the row in its request; ``column``: the column at
    fault, empty where it is the whole row; ``row``: the row as it was sent, as JSON where the body
    is no JSON."""

    place: str
    column: str
    problem: str
    row: str


class Misfits:
    """Gathers the rows of a batch that do not fit, each with its first problem."""

    def __init__(self) -> None:
        self.found: dict[int, InvalidRows] = {}

    def add(self, position: int, error: InvalidRows) -> None:
        """Records the problem of the row at a position. Raises TooLarge for too many rows."""
        self.found.setdefault(position, error)
        if len(self.found) > ROWS_MAX:
            raise too_many(error)

    def leave_out(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows of ``batch`` that fit. Requires that its first row has position 0."""
        return batch.filter(pa.array([at not in self.found for at in range(batch.num_rows)], pa.bool_()))


def too_many(example: InvalidRows) -> TooLarge:
    """The refusal of a body with too many rows that do not fit; ``example``: the problem of one."""
    return TooLarge(
        f"more than {ROWS_MAX} rows do not fit the table; one of them: {example.message}",
        field="body",
        remedy="check that the rows are for this table; none was added",
        limit=ROWS_MAX,
    )


class Rejects:
    """The rows of a body of ``size`` bytes that do not fit, in their order. Their number and their
    bytes are bounded: JSON of a row of CSV repeats the names of the columns."""

    def __init__(self, size: int) -> None:
        self.rows: list[Reject] = []
        self._left = bytes_max(size)

    def require(self, size: int, error: InvalidRows) -> None:
        """Raises TooLarge where there is no room for a row of about ``size`` bytes."""
        if len(self.rows) >= ROWS_MAX:
            raise too_many(error)
        if size > self._left:
            text = "the rows that do not fit take too many bytes"
            raise TooLarge(text, field="body", remedy="send fewer rows in one request")

    def add(self, place: str, error: InvalidRows, row: str) -> None:
        """Adds a row; its problem is the error's without the place. Raises TooLarge for too many
        rows or bytes."""
        size = len(row.encode(errors="replace"))
        self.require(size, error)
        self._left -= size
        problem = error.message.removeprefix(f"{place}: ")
        self.rows.append(Reject(place, _column_in(error), problem[:PROBLEM_MAX], row))


def set_apart(
    batch: pa.RecordBatch,
    misfits: Misfits,
    rejects: Rejects,
    place_of: Callable[[int], str],
    text_at: Callable[[int], str],
) -> pa.RecordBatch:
    """Adds the misfits of a batch to ``rejects``, in their order, and returns the other rows.
    ``place_of`` and ``text_at`` return the place and the text of the row at a position. Raises
    TooLarge."""
    for at, error in sorted(misfits.found.items()):
        rejects.add(place_of(at), error, text_at(at))
    return misfits.leave_out(batch)


def bytes_max(size: int) -> int:
    """How many bytes the texts of the rejected rows of a body of ``size`` bytes may have."""
    return min(2 * size, BYTES_OF_BODY) + BYTES_MORE


def _column_in(error: InvalidRows) -> str:
    return "" if error.field in (None, "body") else str(error.field)


def text_of(row: Any) -> str:
    """A row as JSON; values that JSON has not as texts."""
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False, default=str)


def definition_to_be(features: Sequence[str], properties: Mapping[str, str]) -> Definition:
    """Returns the definition of a table of rejected rows that is to be created, with the features
    and properties that the catalog requires."""
    definition = new_definition(delta_schema(SCHEMA), (), {}, tuple(features))
    return replace(definition, properties=dict(properties))


def batch_of(
    rejects: Iterable[Reject], definition: Definition, *, now_ms: int, principal: str, request: str
) -> pa.RecordBatch:
    """Returns rejected rows of one request in the columns of their table. Raises DataMismatch for a
    table that was not made for them."""
    rows = [(one.place, one.column, one.problem, one.row) for one in rejects]
    constant = (now_ms * 1000, principal, request)
    columns = [
        *(pa.array([value] * len(rows), field.type) for value, field in zip(constant, SCHEMA, strict=False)),
        *(pa.array(values, pa.string()) for values in zip(*rows, strict=True)),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    [conformed] = Conformer(SCHEMA, definition.schema).conform(batch)
    return conformed
