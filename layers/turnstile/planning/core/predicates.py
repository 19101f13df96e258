"""Predicates over the columns of a Delta table: built here from names and plain values, evaluated
by ``turnstile_predicates``.

    columns = TableColumns(metadata)                            # the ``metaData`` action
    day = columns.named("day")                                  # or ("address", "city"); case does
                                                                not count unless asked
    predicate = And((day.compare("=", "2026-11-01"), Not(columns.named("id").is_null())))
    outcomes(predicate, range_of) & TRUE                        # some row of the file may satisfy
                                                                it

The tree is that of ``turnstile_predicates.predicates``, which conflict checks of transactions use
as well: ``Comparison``, ``In``, ``IsNull``, ``StartsWith``, ``And``, ``Or``, ``Not``, ``UNKNOWN``.
It is three-valued: ``!=`` is ``Not`` of ``=``, so null is neither. A value becomes a literal in the
type of its column. A value that the column's type cannot hold exactly becomes a sound replacement:
a number between two integers stays a decimal, a number that no FLOAT is equal to makes the
comparison ``UNKNOWN``, which excludes nothing.

Times: a TIMESTAMP column takes texts with a zone; one without counts as UTC. A TIMESTAMP_NTZ column
takes texts without.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final, Literal

import msgspec

from turnstile.store.core.errors import InvalidRequest
from turnstile_predicates.file_stats import Field, TableSchema, round_number
from turnstile_predicates.predicates import (
    TRUE,
    UNKNOWN,
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Kind,
    Like,
    Not,
    Or,
    Predicate,
    StartsWith,
    Value,
    columns_of,
    outcomes,
)

__all__ = [
    "TRUE", "UNKNOWN", "And", "Column", "Comparison", "In", "IsNull", "Kind", "Like", "NoSuchColumn", "Not",
    "Operator", "Or", "Predicate", "StartsWith", "TableColumns", "TypedColumn", "Value", "columns_of", "outcomes",
]  # fmt: skip

Operator = Literal["=", "!=", "<=>", "<", "<=", ">", ">="]
Plain = str | int | float | bool | Decimal | date | datetime | None
"""The types of a value: of JSON, or of a parser of SQL."""

MAX_VALUES: Final = 10_000
"""Values of one IN."""
MAX_EXPONENT: Final = 100
"""Of ten, in a number: decimals have 38 digits."""
_EXACT: Final = Context(prec=25_000)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_EXPRESSION: Final = "delta.generationExpression"
_WILDCARDS: Final = re.compile(r"[%_\\]")


class NoSuchColumn(InvalidRequest):
    """A predicate, or another condition, names a column that the table does not have."""


class TypedColumn(msgspec.Struct, frozen=True):
    """A column, or a field of a struct. ``field`` None: it has a type without an order (array, map,
    struct, variant)."""

    name: Column
    field: Field | None

    def compare(self, operator: Operator, value: Plain) -> Predicate:
        """Returns ``column operator value``. Raises InvalidRequest for a value that cannot be one
        of the column's type."""
        if operator == "!=":
            return Not(self.compare("=", value))
        if value is None:
            return Comparison(self.name, operator, None)
        literal = self._literal(value)
        return UNKNOWN if literal is None else Comparison(self.name, operator, literal)

    def between(self, low: Plain, high: Plain) -> Predicate:
        """Returns ``column BETWEEN low AND high``, both included. Raises as ``compare``."""
        return And((self.compare(">=", low), self.compare("<=", high)))

    def is_in(self, values: Iterable[Plain]) -> Predicate:
        """Returns ``column IN (values)``. Raises as ``compare``, and for more than
        ``MAX_VALUES``."""
        given = list(values)
        if len(given) > MAX_VALUES:
            raise _refusal(f"{self.display_name} IN (...) has {len(given)} values", f"list at most {MAX_VALUES}")
        literals = [None if value is None else self._literal(value) for value in given]
        if any(literal is None and value is not None for literal, value in zip(literals, given, strict=True)):
            return UNKNOWN
        return In(self.name, tuple(literals))

    def is_null(self) -> Predicate:
        """Returns ``column IS NULL``."""
        return IsNull(self.name)

    def starts_with(self, prefix: str) -> Predicate:
        """Returns ``column LIKE 'prefix%'``, with no wildcard in the prefix. Raises InvalidRequest
        for a column of another type."""
        if self.field is None or not _is_text(self.field.type):
            raise _refusal(
                f"LIKE needs a text, and {self.display_name} has another type", "compare it with =, <, > or IN"
            )
        return StartsWith(self.name, prefix)

    def like(self, pattern: str) -> Predicate:
        """Returns ``column LIKE pattern``; bounds decide the part before the first wildcard. Raises
        as ``starts_with``."""
        wildcard = _WILDCARDS.search(pattern)
        prefix = self.starts_with(pattern if wildcard is None else pattern[: wildcard.start()])
        if wildcard is None:
            return self.compare("=", pattern)
        rest = pattern[wildcard.start() :]
        return prefix if set(rest) == {"%"} else And((prefix, Like(self.name, pattern)))

    @property
    def display_name(self) -> str:
        """The name as text; for facts of a file (``core.files``) without the part that is no
        name."""
        return ".".join(self.name).lstrip("\0.")

    def _literal(self, value: Plain) -> Value | None:
        """The value in the column's type; None for one of which the type has no equal."""
        if self.field is None:
            raise _refusal(
                f"{self.display_name} has a type whose values are not compared", "compare its fields, or IS NULL"
            )
        if self.field.kind is None:  # binary, CHAR, collations: nothing is known of their order
            return None
        try:
            return _LITERALS[self.field.kind](value, self.field.type)
        except (ValueError, InvalidOperation, OverflowError, TypeError):
            shown = repr(value)[:80]
            raise _refusal(
                f"{shown} is no {self.field.type}, as {self.display_name} is", "compare it with a value of its type"
            ) from None


class TableColumns:
    """The columns of a table, by name. ``schema`` interprets partition values and statistics of a
    file (``ranges_of``); ``generated``: partition columns with the expressions that their values
    are made by.
    """

    generated: Sequence[tuple[str, str]] = ()

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        """Of the members of a ``metaData`` action."""
        self.schema = TableSchema.of(metadata)
        struct = msgspec.json.decode(metadata["schemaString"])
        self.generated = _generated_columns(struct, self.schema.partitions)
        self._other = frozenset(_other(struct, ()))
        names = [*self.schema.fields, *self._other]
        self._folded: dict[Column, list[Column]] = {}
        for name in names:
            self._folded.setdefault(tuple(part.lower() for part in name), []).append(name)

    def find_column(self, name: str | Sequence[str], *, case_sensitive: bool = False) -> TypedColumn:
        """Returns a column by its name, or a field of a struct by the names from the outside in; a
        text may be either (``a.b``). Raises InvalidRequest for none."""
        paths = [(name,), tuple(name.split("."))] if isinstance(name, str) else [tuple(name)]
        for path in paths:
            equal = self._folded.get(tuple(part.lower() for part in path), ())
            for column in equal:
                if column == path or not case_sensitive:
                    return TypedColumn(column, self.schema.fields.get(column))
        shown = name if isinstance(name, str) else ".".join(name)
        problem = f"the table has no column {shown[:200]!r}"
        raise NoSuchColumn(problem, field="predicate", remedy="name a column of the table's schema")

    def find_written_column(self, names: Sequence[tuple[str, bool]]) -> TypedColumn:
        """Returns the column of a predicate's text: names from the outside in, each with whether it
        is in quotes. Raises as ``find_column``."""
        return self.find_column([name for name, _ in names])

    def physical(self, name: str) -> list[Column]:
        """Returns the stored names of a column; of a struct the columns of its fields. Raises as
        ``find_column``."""
        column = self.find_column(name).name
        return [field.physical for at, field in self.schema.fields.items() if at[: len(column)] == column]


def _generated_columns(struct: Any, partitions: frozenset[str]) -> list[tuple[str, str]]:
    """The partition columns that are generated, with their expressions. Source: Delta protocol,
    "Generated Columns"."""
    texts = [(field["name"], (field.get("metadata") or {}).get(_EXPRESSION)) for field in struct.get("fields", ())]
    return [(name, text) for name, text in texts if name in partitions and isinstance(text, str)]


def _other(kind: Any, path: Column) -> Iterable[Column]:
    """Columns that are of no primitive type: structs, arrays, maps."""
    for field in kind.get("fields", ()):
        if isinstance(field["type"], dict):
            name = (*path, field["name"])
            yield name
            yield from _other(field["type"], name)


def _is_text(kind: str) -> bool:
    return kind.startswith(("string", "char", "varchar"))


def _refusal(problem: str, remedy: str) -> InvalidRequest:
    return InvalidRequest(problem, field="predicate", remedy=remedy)


# -- literals ---------------------------------------------------------------------------------------------------------


def _number(value: Plain) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise TypeError
    number = Decimal(str(value) if isinstance(value, float) else value)
    if not number.is_finite():
        raise ValueError
    return number


def _exact(value: Plain, _: str) -> Value:
    """Integers and decimals compare with one another exactly."""
    number = _number(value)
    if not number:
        return Value("integer", 0)
    if abs(number.adjusted()) > MAX_EXPONENT:  # computing with it would take for ever
        raise ValueError
    is_integer = number == number.to_integral_value(context=_EXACT)
    return Value("integer", int(number)) if is_integer else Value("decimal", number)


def _float(value: Plain, kind: str) -> Value | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise TypeError
    number = float(value)
    if math.isinf(number) and not isinstance(value, str | float):
        return None
    if isinstance(value, int) and int(number) != value:
        return None
    return (
        Value("float", number)
        if math.isnan(number) or math.isinf(number) or round_number(kind, number) == number
        else None
    )


def _text(value: Plain, _: str) -> Value:
    if not isinstance(value, str):
        raise TypeError
    return Value("string", value)


def _boolean(value: Plain, _: str) -> Value:
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.lower(), value)
    if not isinstance(value, bool):
        raise TypeError
    return Value("boolean", value)


def _date(value: Plain, _: str) -> Value:
    if isinstance(value, str):
        value = date.fromisoformat(value)
    if isinstance(value, datetime) or not isinstance(value, date):
        raise TypeError
    return Value("date", (value - date(1970, 1, 1)).days)


def _moment(value: Plain) -> datetime:
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)  # noqa: DTZ001  # which zone is said by the column's type
    raise TypeError


def _timestamp(value: Plain, _: str) -> Value:
    moment = _moment(value)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return Value("timestamp", (moment - _EPOCH) // _MICROSECOND)


def _local(value: Plain, _: str) -> Value:
    moment = _moment(value)
    if moment.tzinfo is not None:
        raise ValueError
    return Value("timestamp_ntz", (moment.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND)


_LITERALS: Final = {
    "integer": _exact,
    "decimal": _exact,
    "float": _float,
    "string": _text,
    "boolean": _boolean,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _local,
}
