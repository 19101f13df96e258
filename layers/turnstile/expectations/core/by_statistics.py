"""Decides by the statistics of a file whether all of its rows satisfy predicates. Pure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from turnstile.planning.core.predicates import TRUE, Predicate, outcomes
from turnstile_predicates.file_stats import TableSchema
from turnstile_predicates.predicates import Column, Range, columns_of

_EXACT: Final = ("integer", "decimal", "float", "date")
"""Kinds whose bounds are values of rows."""


def undecided_predicates(predicates: Iterable[Predicate], ranges: Callable[[Column], Range] | None) -> list[Predicate]:
    """Returns the predicates that some row of a file may not satisfy, by the ranges of its columns;
    None: it has no rows."""
    if ranges is None:
        return []
    ranges = functools.cache(ranges)
    return [predicate for predicate in predicates if outcomes(predicate, ranges) != TRUE]


def is_broken(predicate: Predicate, schema: TableSchema, file: Mapping[str, Any]) -> bool:
    """Returns whether some row of a file breaks a predicate of one column for certain: the row with
    the least or the greatest value, or one of a file without values. Not known, so False, for a
    file with deleted rows, and for texts and times: their bounds may be cut."""
    columns = columns_of(predicate)
    ranges = schema.ranges_of(file)
    if len(columns) != 1 or ranges is None or file.get("deletionVector"):
        return False
    (column,) = columns
    field = schema.fields.get(column)
    found = ranges(column)
    nulls = Range(found.kind, has_values=False)
    if field is None or found.kind is None:
        return False
    if not found.has_values:
        rows = [nulls]
    elif found.kind in _EXACT and field.type != "float":
        rows = [Range(found.kind, end, end, has_nulls=False) for end in (found.low, found.high) if end is not None]
    else:
        rows = []
    return any(not outcomes(predicate, _only(row)) & TRUE for row in rows)


def _only(row: Range) -> Callable[[Column], Range]:
    return lambda _: row
