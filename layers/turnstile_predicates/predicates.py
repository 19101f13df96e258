"""Predicates of a transaction's reads, and whether a row within given bounds can satisfy them.
Pure.

A predicate is a small tree made from Spark's expressions
(:mod:`turnstile_spark.transactions.reads.plan_reads`); an expression without a counterpart here is
:data:`UNKNOWN`. Evaluated on a row it is true, false or null, as in SQL. Evaluated on
:class:`Range` objects, one for each column, it is the set of the outcomes that some row within the
ranges may have: never too small, possibly too large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

#: Outcomes, and sets of them, as bits.
TRUE: Final = 1
FALSE: Final = 2
NULL: Final = 4
ANY: Final = TRUE | FALSE | NULL

#: A column, or a field in a struct column: names from the outside in, as the schema writes them.
Column = tuple[str, ...]
Kind = Literal["boolean", "integer", "decimal", "float", "string", "date", "timestamp", "timestamp_ntz"]
#: The kinds of the types that have the same names in Spark's SQL and in Delta's schemas.
KINDS: Final[dict[str, Kind]] = {
    "boolean": "boolean",
    "float": "float",
    "double": "float",
    "string": "string",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
Operator = Literal["=", "<=>", "<", "<=", ">", ">="]
#: Kinds whose values compare exactly with one another.
_EXACT: Final = frozenset(("integer", "decimal"))


@dataclass(frozen=True, slots=True)
class Value:
    """A literal that is not null. ``value`` by ``kind``: bool; int; Decimal; float; str; days since
    1970-01-01; for both kinds of timestamp microseconds since 1970-01-01 00:00 (UTC; local time for
    ``timestamp_ntz``).
    """

    kind: Kind
    value: Any

    def __str__(self) -> str:
        return repr(self.value) if self.kind == "string" else str(self.value)


@dataclass(frozen=True, slots=True)
class Unknown:
    """An expression that is not understood: it may be true, false or null for any row."""

    def __str__(self) -> str:
        return "?"


UNKNOWN: Final = Unknown()


@dataclass(frozen=True, slots=True)
class Comparison:
    """``column operator value``. ``value`` None: SQL's NULL."""

    column: Column
    operator: Operator
    value: Value | None

    def __str__(self) -> str:
        return f"{'.'.join(self.column)} {self.operator} {'NULL' if self.value is None else self.value}"


@dataclass(frozen=True, slots=True)
class In:
    """``column IN (values)``. A None among the values is SQL's NULL."""

    column: Column
    values: tuple[Value | None, ...]

    def __str__(self) -> str:
        shown = ", ".join("NULL" if v is None else str(v) for v in self.values[:10])
        return f"{'.'.join(self.column)} IN ({shown}{', ...' if len(self.values) > 10 else ''})"


@dataclass(frozen=True, slots=True)
class IsNull:
    """``column IS NULL``."""

    column: Column

    def __str__(self) -> str:
        return f"{'.'.join(self.column)} IS NULL"


@dataclass(frozen=True, slots=True)
class StartsWith:
    """``column LIKE 'prefix%'``, without wildcards in the prefix."""

    column: Column
    prefix: str

    def __str__(self) -> str:
        return f"{'.'.join(self.column)} starts with {self.prefix!r}"


@dataclass(frozen=True, slots=True)
class Like:
    """``column LIKE pattern``, with wildcards inside of the pattern: decided by rows alone."""

    column: Column
    pattern: str

    def __str__(self) -> str:
        return f"{'.'.join(self.column)} like {self.pattern!r}"


@dataclass(frozen=True, slots=True)
class And:
    """All of ``parts``; true without any."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return "(" + " AND ".join(map(str, self.parts)) + ")" if self.parts else "TRUE"


@dataclass(frozen=True, slots=True)
class Or:
    """Any of ``parts``; false without any."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return "(" + " OR ".join(map(str, self.parts)) + ")" if self.parts else "FALSE"


@dataclass(frozen=True, slots=True)
class Not:
    """``NOT part``."""

    part: Predicate

    def __str__(self) -> str:
        return f"NOT {self.part}"


Predicate = Unknown | Comparison | In | IsNull | StartsWith | Like | And | Or | Not


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds on the values of a column in a set of rows.

    ``low``, ``high``: no value that is neither null nor NaN is outside (None: unknown).
    ``has_nulls``, ``has_values``: whether there may be nulls, and values. ``has_nan``: whether
    values may be NaN, which Spark sorts after all numbers and takes for equal to itself.
    ``is_prefix``: ``high`` is the beginning of a string: longer strings with that beginning may be
    there too.
    """

    kind: Kind | None = None
    low: Any = None
    high: Any = None
    has_nulls: bool = True
    has_values: bool = True
    has_nan: bool = False
    is_prefix: bool = False


#: Values of which nothing can be said.
ANYTHING: Final = Range()


def outcomes(predicate: Predicate, range_of: Callable[[Column], Range]) -> int:
    """The outcomes that the predicate may have for rows with columns within ``range_of``."""
    match predicate:
        case Comparison():
            return _comparison(predicate, range_of(predicate.column))
        case In():
            return _in(predicate, range_of(predicate.column))
        case IsNull():
            values = range_of(predicate.column)
            return (TRUE if values.has_nulls else 0) | (FALSE if values.has_values else 0)
        case StartsWith():
            return _starts_with(predicate.prefix, range_of(predicate.column))
        case And():
            return _all(outcomes(part, range_of) for part in predicate.parts)
        case Or():
            return _swap(_all(_swap(outcomes(part, range_of)) for part in predicate.parts))
        case Not():
            return _swap(outcomes(predicate.part, range_of))
        case _:
            return ANY


def _swap(possible: int) -> int:
    return (TRUE if possible & FALSE else 0) | (FALSE if possible & TRUE else 0) | (possible & NULL)


def _all(parts: Iterable[int]) -> int:
    """The outcomes of a conjunction of parts with these outcomes: false before null before true."""
    result = TRUE
    for part in parts:
        if not result or not part:
            return 0  # no row at all
        both = (result & TRUE) if part & TRUE else 0
        both |= (result | part) & FALSE
        if (result & NULL and part & (TRUE | NULL)) or (part & NULL and result & TRUE):
            both |= NULL
        result = both
    return result


def _comparison(predicate: Comparison, values: Range) -> int:
    safe = predicate.operator == "<=>"
    if predicate.value is None:
        if not safe:
            return NULL
        return (TRUE if values.has_nulls else 0) | (FALSE if values.has_values else 0)
    result = 0
    if values.has_nulls:
        result |= FALSE if safe else NULL
    if values.has_values:
        result |= _of_values("=" if safe else predicate.operator, predicate.value, values)
    return result


def _of_values(operator: str, literal: Value, values: Range) -> int:
    """The outcomes for rows that have a value."""
    if not comparable(literal, values.kind):
        return TRUE | FALSE
    value = literal.value
    low = values.low
    may_be_less = low is None or low < value
    may_be_equal = (low is None or low <= value) and not _ends_before(values, value, strictly=True)
    may_be_more = values.has_nan or not _ends_before(values, value, strictly=False)
    true = {
        "=": may_be_equal,
        "<": may_be_less,
        "<=": may_be_less or may_be_equal,
        ">": may_be_more,
        ">=": may_be_more or may_be_equal,
    }[operator]
    false = {
        "=": may_be_less or may_be_more,
        "<": may_be_equal or may_be_more,
        "<=": may_be_more,
        ">": may_be_less or may_be_equal,
        ">=": may_be_less,
    }[operator]
    return (TRUE if true else 0) | (FALSE if false else 0)


def comparable(literal: Value, kind: Kind | None) -> bool:
    """Whether values of a column of this kind compare with the literal as Python compares them."""
    if literal.kind == "float" and literal.value != literal.value:
        return False  # NaN
    return literal.kind == kind or (literal.kind in _EXACT and kind in _EXACT)


def _ends_before(values: Range, value: Any, *, strictly: bool) -> bool:
    """Whether all numbers and strings of the range are less than ``value`` (``strictly``), or at
    most it."""
    if values.high is None or (values.is_prefix and str(value).startswith(values.high)):
        return False
    return bool(values.high < value) if strictly else bool(values.high <= value)


def _in(predicate: In, values: Range) -> int:
    result = 0
    if values.has_nulls:
        result |= NULL if predicate.values else NULL | FALSE  # of an empty list: by Spark's settings
    if not values.has_values:
        return result
    missed = NULL if None in predicate.values else FALSE
    literals = [v for v in predicate.values if v is not None]
    equal = [_of_values("=", v, values) for v in literals]
    if any(e & TRUE for e in equal):
        result |= TRUE
    if not any(e == TRUE for e in equal):
        result |= missed
    return result


def _starts_with(prefix: str, values: Range) -> int:
    result = NULL if values.has_nulls else 0
    if not values.has_values:
        return result
    if values.kind != "string":
        return result | TRUE | FALSE
    low = values.low
    high = values.high
    begins = low is None or low[: len(prefix)] <= prefix
    ends = high is None or prefix <= high or (values.is_prefix and prefix.startswith(high))
    if begins and ends:
        result |= TRUE
    if low is None or high is None or not (low.startswith(prefix) and high.startswith(prefix)):
        result |= FALSE
    return result


def columns_of(predicate: Predicate) -> frozenset[Column]:
    """The columns that the predicate names."""
    match predicate:
        case And() | Or():
            return frozenset().union(*(columns_of(part) for part in predicate.parts))
        case Not():
            return columns_of(predicate.part)
        case Unknown():
            return frozenset()
        case _:
            return frozenset((predicate.column,))


def has_unknown(predicate: Predicate) -> bool:
    """Whether a part of the predicate is not understood."""
    match predicate:
        case And() | Or():
            return any(has_unknown(part) for part in predicate.parts)
        case Not():
            return has_unknown(predicate.part)
        case _:
            return isinstance(predicate, Unknown)


def integer(value: int) -> Value:
    """A literal of one of Spark's integral types."""
    return Value("integer", value)


def string(value: str) -> Value:
    """A literal of type string in Spark's default collation (bytes of UTF-8)."""
    return Value("string", value)


def decimal(value: str | Decimal) -> Value:
    """A literal of type decimal."""
    return Value("decimal", Decimal(value))
