"""The consequence of a predicate on a column for a partition column that Delta generates from it.
Pure.

    with_generated(predicate, columns)        # ts >= '2026-11-01'  ->  ts >= '2026-11-01' AND (day
                                                                        IS NULL OR day >= DATE
                                                                        '2026-10-31')

A row that satisfies the predicate satisfies the added part, so no file is left out that has one
(I16). It is made for expressions that keep the order of their column: dates and years of a time,
times that are cut off, formats from the year on, the beginning of a text, and the column itself. A
TIMESTAMP is a day wider on either side, for the writer's time zone is not known; the partition
column may be null, for a writer may have written it so. Source: Delta protocol, "Generated
Columns"; Delta 4.4, ``OptimizablePartitionExpression``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

from turnstile.planning.core.predicates import (
    And,
    Comparison,
    In,
    IsNull,
    Or,
    Plain,
    Predicate,
    StartsWith,
    TableColumns,
    TypedColumn,
    Value,
)
from turnstile.store.core.errors import InvalidRequest

MAX_VALUES: Final = 100
"""Of one IN; of longer lists nothing is derived."""
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - of both kinds of times
_DAY: Final = timedelta(days=1)
_YEARS: Final = range(1000, 10_000)
"""Years whose texts have four digits."""

_COLUMN: Final = r"(?P<column>\w+(?:\.\w+)*)"
_EXPRESSIONS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (rf"cast\( ?{_COLUMN} as date ?\)", "day"),
        (rf"(?:to_date|date)\( ?{_COLUMN} ?\)", "day"),
        (rf"year\( ?{_COLUMN} ?\)", "year"),
        (rf"date_format\( ?{_COLUMN} ?, ?'(?P<unit>yyyy|yyyy-mm|yyyy-mm-dd|yyyy-mm-dd-hh)' ?\)", "text"),
        (rf"date_trunc\( ?'(?P<unit>year|month|day|hour)' ?, ?{_COLUMN} ?\)", "time"),
        (rf"trunc\( ?{_COLUMN} ?, ?'(?P<unit>year|month)' ?\)", "date"),
        (rf"(?:substring|substr)\( ?{_COLUMN} ?, ?[01] ?, ?(?P<unit>\d{{1,6}}) ?\)", "prefix"),
        (rf"left\( ?{_COLUMN} ?, ?(?P<unit>\d{{1,6}}) ?\)", "prefix"),
        (_COLUMN, "same"),
    )
)
_TYPES: Final = {"day": "date", "date": "date", "text": "string", "prefix": "string", "time": "timestamp"}
_FORMATS: Final = {"yyyy": "%Y", "yyyy-mm": "%Y-%m", "yyyy-mm-dd": "%Y-%m-%d", "yyyy-mm-dd-hh": "%Y-%m-%d-%H"}


class _Generated(NamedTuple):
    """A partition column, and from which column it is generated, how."""

    partition: TypedColumn
    source: TypedColumn
    kind: str
    unit: str


def with_generated(predicate: Predicate, columns: TableColumns) -> Predicate:
    """Returns the predicate with its consequences for generated partition columns; itself if there
    are none."""
    generated = [_parse_generated(name, text, columns) for name, text in columns.generated]
    derived = [part for each in generated if each and (part := _derive(predicate, each)) is not None]
    if not derived:
        return predicate
    parts = predicate.parts if isinstance(predicate, And) else (predicate,)
    return And((*parts, *derived))


def _parse_generated(name: str, expression: str, columns: TableColumns) -> _Generated | None:
    text = re.sub(r"\s+", " ", expression.replace("`", "")).strip()
    for pattern, kind in _EXPRESSIONS:
        match = pattern.fullmatch(text)
        if match is None:
            continue
        with suppress(InvalidRequest):
            partition = columns.find_column([name])
            source = columns.find_column(match["column"])
            unit = (match.groupdict().get("unit") or "").lower()
            if partition.field is None or source.field is None:
                return None
            is_right = partition.field.type == (source.field.type if kind == "same" else _TYPES.get(kind, "integer"))
            return _Generated(partition, source, kind, unit) if is_right else None
        return None
    return None


def _derive(predicate: Predicate, generated: _Generated) -> Predicate | None:
    """The consequence of a predicate for the partition column; None for none."""
    match predicate:
        case And(parts):
            bounding = [each for part in parts if (each := _derive(part, generated)) is not None]
            return None if not bounding else bounding[0] if len(bounding) == 1 else And(tuple(bounding))
        case Or(parts):
            each_part = [_derive(part, generated) for part in parts]
            some = tuple(part for part in each_part if part is not None)
            return Or(some) if some and len(some) == len(each_part) else None
        case IsNull(column) if column == generated.source.name:
            return generated.partition.is_null()
        case Comparison(column, operator, Value() as value) if column == generated.source.name:
            return _within(generated, value, low=operator not in ("<", "<="), high=operator not in (">", ">="))
        case In(column, values) if column == generated.source.name:
            return _any(_within(generated, value) for value in values) if len(values) <= MAX_VALUES else None
        case StartsWith(column, prefix) if column == generated.source.name and generated.kind in ("prefix", "same"):
            begins = prefix if generated.kind == "same" else prefix[: int(generated.unit)]
            return Or((generated.partition.is_null(), StartsWith(generated.partition.name, begins)))
    return None


def _any(parts: Iterable[Predicate | None]) -> Predicate | None:
    listed = list(parts)
    some = tuple(part for part in listed if part is not None)
    return Or(some) if some and len(some) == len(listed) else None


def _within(generated: _Generated, value: Value | None, *, low: bool = True, high: bool = True) -> Predicate | None:
    """That the partition value is one of the values from which on, or up to which, the column may
    have been; None where that is not known."""
    if value is None or generated.source.field is None or value.kind != generated.source.field.kind:
        return None
    column = generated.partition
    limits = list[Predicate]()
    try:
        least, most = _bounds(generated, value)
        limits += [column.compare(">=", least)] if low else []
        limits += [column.compare("<=", most)] if high else []
    except (InvalidRequest, OverflowError, ValueError):
        return None
    return Or((column.is_null(), And(tuple(limits))))


def _bounds(generated: _Generated, value: Value) -> tuple[Plain, Plain]:
    """The least and the greatest partition value of a column's value. Raises OverflowError or
    ValueError where there is none."""
    if generated.kind == "same":
        plain = _plain(value)
        return plain, plain
    if generated.kind == "prefix":
        return value.value[: int(generated.unit)], value.value[: int(generated.unit)]
    if value.kind not in ("date", "timestamp", "timestamp_ntz"):
        raise ValueError(value.kind)
    at = _EPOCH + (timedelta(days=value.value) if value.kind == "date" else timedelta(microseconds=value.value))
    wider = _DAY if value.kind == "timestamp" else timedelta(0)
    if generated.kind == "time":  # cut off in some zone, and a moment again: never after the value
        return (_cut(at - wider, generated.unit) - wider).replace(tzinfo=UTC), at.replace(tzinfo=UTC)
    of_time = _OF_TIMES[generated.kind]
    return of_time(at - wider, generated.unit), of_time(at + wider, generated.unit)


def _plain(value: Value) -> Plain:
    if value.kind == "date":
        return (_EPOCH + timedelta(days=value.value)).date()
    if value.kind in ("timestamp", "timestamp_ntz"):
        at = _EPOCH + timedelta(microseconds=value.value)
        return at.replace(tzinfo=UTC) if value.kind == "timestamp" else at
    plain: Plain = value.value
    return plain


def _day(at: datetime, _: str) -> date:
    return at.date()


def _year(at: datetime, _: str) -> int:
    return at.year


def _text(at: datetime, unit: str) -> str:
    if at.year not in _YEARS:
        raise ValueError(at.year)
    return at.strftime(_FORMATS[unit])


def _cut(at: datetime, unit: str) -> datetime:
    cut = at.replace(minute=0, second=0, microsecond=0)
    cut = cut if unit == "hour" else cut.replace(hour=0)
    cut = cut if unit in ("hour", "day") else cut.replace(day=1)
    return cut.replace(month=1) if unit == "year" else cut


def _date(at: datetime, unit: str) -> date:
    return _cut(at, unit).date()


_OF_TIMES: Final[dict[str, Callable[[datetime, str], Plain]]] = {
    "day": _day, "year": _year, "text": _text, "date": _date,
}  # fmt: skip
