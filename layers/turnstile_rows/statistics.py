"""Statistics of a data file, from the rows as they are written.

Bounds are never too narrow: where the least or greatest value cannot be told so that every reader
understands it (NaN, infinity, a date before the year 1), the column has none. Source: Delta
protocol, "Per-file Statistics"; which columns have them: Delta's properties
``delta.dataSkippingNumIndexedCols`` and ``delta.dataSkippingStatsColumns``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from turnstile_rows.definitions import Definition

_INDEXED: Final = 32
#: Characters of a text that a bound keeps, and what makes a greatest value that was cut greater
#: than all that begin so.
_CHARACTERS: Final = 32
_LAST: Final = "\U0010ffff"
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")
_MS: Final = timedelta(milliseconds=1)

Path = tuple[str, ...]


def indexed_columns(definition: Definition, stored: pa.Schema | None = None) -> frozenset[Path]:
    """The columns, by the names from the outside in, that statistics are collected of. Columns that
    the table is clustered by are always among them. ``stored``: the data columns as files name
    them, by default as the table does.
    """
    stored = definition.data_schema if stored is None else stored
    own = [leaf for column in definition.data_schema for leaf in _leaves(column, ())]
    leaves = [leaf for column in stored for leaf in _leaves(column, ())]
    clustered = frozenset(leaf for leaf in leaves if ".".join(leaf) in definition.clustering)
    names = definition.properties.get("delta.dataSkippingStatsColumns")
    if names is not None:
        wanted = [name.strip().replace("`", "") for name in names.split(",")]
        return clustered | {
            leaf
            for leaf, path in zip(leaves, own, strict=True)
            if any(f"{'.'.join(path)}.".startswith(f"{name}.") for name in wanted)
        }
    try:
        count = int(definition.properties.get("delta.dataSkippingNumIndexedCols", _INDEXED))
    except ValueError:
        count = _INDEXED
    return clustered | frozenset(leaves if count < 0 else leaves[:count])


def _leaves(column: pa.Field, above: Path) -> Iterator[Path]:
    if types.is_struct(column.type):
        for member in column.type:
            yield from _leaves(member, (*above, column.name))
    else:
        yield (*above, column.name)


class Statistics:
    """The statistics of one file: rows are added as they are written, and :meth:`text` is the value
    for its action. ``indexed``: of :func:`indexed_columns`."""

    def __init__(self, indexed: frozenset[Path]) -> None:
        self._indexed = indexed
        self.rows = 0
        self._nulls = dict[Path, int]()
        self._bounds = dict[Path, tuple[Any, Any] | None]()

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes rows into account."""
        self.rows += batch.num_rows
        for name, values in zip(batch.schema.names, batch.columns, strict=True):
            self._add((name,), values)

    def _add(self, path: Path, values: pa.Array) -> None:
        if types.is_struct(values.type):
            for member, inner in zip(values.type, values.flatten(), strict=True):
                self._add((*path, member.name), inner)
        elif path in self._indexed:
            self._nulls[path] = self._nulls.get(path, 0) + values.null_count
            if _has_bounds(values.type) and values.null_count < len(values):
                self._widen(path, _bounds(values))

    def _widen(self, path: Path, bounds: tuple[Any, Any] | None) -> None:
        before = self._bounds.get(path, bounds)
        if before is None or bounds is None:
            self._bounds[path] = None
        else:
            self._bounds[path] = min(before[0], bounds[0]), max(before[1], bounds[1])

    def text(self) -> str:
        """The statistics as JSON."""
        least = dict[str, Any]()
        greatest = dict[str, Any]()
        nulls = dict[str, Any]()
        for path, count in self._nulls.items():
            _put(nulls, path, count)
        for path, bounds in self._bounds.items():
            if bounds is not None:
                low = _json_bound(bounds[0], is_high=False)
                high = _json_bound(bounds[1], is_high=True)
                if low is not None:
                    _put(least, path, low)
                if high is not None:
                    _put(greatest, path, high)
        told = {"numRecords": self.rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
        return _ENCODER.encode(told).decode()


def _has_bounds(type: pa.DataType) -> bool:
    kinds = (types.is_integer, types.is_floating, types.is_decimal, types.is_date, types.is_timestamp, types.is_string)
    return any(is_kind(type) for is_kind in kinds)


def _bounds(values: pa.Array) -> tuple[Any, Any] | None:
    """The least and the greatest value, of which there is one; None where they cannot be told."""
    if types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        return None
    try:
        bounds = pc.min_max(values).as_py()
    except (ValueError, OverflowError):  # a date or time that Python does not have
        return None
    low = bounds["min"]
    high = bounds["max"]
    return None if isinstance(low, float) and (math.isinf(low) or math.isinf(high)) else (low, high)


def _json_bound(value: Any, *, is_high: bool) -> Any:
    """A bound in JSON; None for a greatest text that cannot be cut. Times have milliseconds, the
    greatest is rounded up."""
    if isinstance(value, str) and len(value) > _CHARACTERS:
        kept = value[:_CHARACTERS]
        rest = value[_CHARACTERS:]
        if not is_high:
            return kept
        return None if rest.startswith(_LAST) else kept + _LAST
    if isinstance(value, datetime):
        return _moment(value, is_high=is_high)
    return (
        value.isoformat()
        if isinstance(value, date)
        else value
        if isinstance(value, str | int | float | Decimal)
        else None
    )


def _moment(value: datetime, *, is_high: bool) -> str | None:
    zone = "" if value.tzinfo is None else "Z"
    cut = value.replace(tzinfo=None, microsecond=value.microsecond // 1000 * 1000)
    try:
        rounded = cut + _MS if is_high and value.microsecond % 1000 else cut
    except OverflowError:
        return None
    return rounded.isoformat(timespec="milliseconds") + zone


def _put(group: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        group = group.setdefault(name, {})
    group[path[-1]] = value
