"""Evaluates a predicate for many files at once: the same rule as
``turnstile_predicates.predicates.outcomes``, on Arrow's columns.

    bounds = Bounds(low, high, flags)                # of one column, a row for each file
    mask = may_match(predicate, bounds_of, count)    # true where some row of the file may satisfy
                                                     the predicate

Values are stored in the order of the column: integers, days, microseconds and booleans as 64-bit
integers, decimals as integers of their scale (rounded outwards), floats as doubles, strings as they
are. A string maximum that is cut off is replaced by the least string above all that begin with it.
Other values are null, which excludes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import compute

from turnstile_predicates.predicates import (
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Kind,
    Not,
    Or,
    Predicate,
    Range,
    StartsWith,
    Value,
    comparable,
)

HAS_NULLS: Final = 1
HAS_VALUES: Final = 2
HAS_NAN: Final = 4
_LEAST = -(2**63)
_GREATEST = 2**63 - 1
_LAST_CHARACTER: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)
MAX_CHARACTERS: Final = 64
"""Of a bound that is a text: more of it is cut off."""

Mask = Any  # pa.BooleanArray or a ChunkedArray of booleans


class Bounds(NamedTuple):
    """Ranges of one column: least and greatest values (null: not known), and ``HAS_...`` flags.
    ``kind`` None: of no known order."""

    kind: Kind | None
    scale: int
    low: Any
    high: Any
    flags: Any


class _Outcomes(NamedTuple):
    """For each file, whether some row of it may have the outcome."""

    true: Mask
    false: Mask
    null: Mask


def may_match(predicate: Predicate, bounds_of: Callable[[Column], Bounds | None], ones: Mask) -> Mask:
    """Returns for each file whether a row may satisfy the predicate.

    Args:
        bounds_of: the bounds of a column; None where nothing is known of it.
        ones: an array of true, as long as the bounds are (chunked as they are).
    """
    return _Judge(bounds_of, ones).outcomes(predicate).true


class _Judge:
    def __init__(self, bounds_of: Callable[[Column], Bounds | None], ones: Mask) -> None:
        self._bounds_of = bounds_of
        self._ones = ones
        self._zeros = compute.invert(ones)

    def outcomes(self, predicate: Predicate) -> _Outcomes:
        match predicate:
            case Comparison():
                return self._comparison(predicate)
            case In():
                return self._in(predicate)
            case IsNull():
                bounds = self._bounds_of(predicate.column)
                if bounds is None:
                    return _Outcomes(self._ones, self._ones, self._zeros)
                return _Outcomes(_flag(bounds, HAS_NULLS), _flag(bounds, HAS_VALUES), self._zeros)
            case StartsWith():
                return self._starts_with(predicate)
            case And():
                return self._all(self.outcomes(part) for part in predicate.parts)
            case Or():
                return _swap(self._all(_swap(self.outcomes(part)) for part in predicate.parts))
            case Not():
                return _swap(self.outcomes(predicate.part))
            case _:
                return _Outcomes(self._ones, self._ones, self._ones)

    def _all(self, parts: Iterable[_Outcomes]) -> _Outcomes:
        """A conjunction: false before null before true."""
        result = _Outcomes(self._ones, self._zeros, self._zeros)
        for part in parts:
            is_some = compute.and_(_any(*result), _any(*part))
            true = compute.and_(result.true, part.true)
            null = _any(compute.and_(result.null, _any(part.true, part.null)), compute.and_(part.null, result.true))
            false = _any(result.false, part.false)
            result = _Outcomes(true, compute.and_(false, is_some), compute.and_(null, is_some))
        return result

    def _comparison(self, predicate: Comparison) -> _Outcomes:
        bounds = self._bounds_of(predicate.column)
        safe = predicate.operator == "<=>"
        has_nulls = self._ones if bounds is None else _flag(bounds, HAS_NULLS)
        has_values = self._ones if bounds is None else _flag(bounds, HAS_VALUES)
        if predicate.value is None:
            if safe:
                return _Outcomes(has_nulls, has_values, self._zeros)
            return _Outcomes(self._zeros, self._zeros, self._ones)
        operator = "=" if safe else predicate.operator
        true, false = self._of_values(operator, predicate.value, bounds)
        true = compute.and_(true, has_values)
        false = compute.and_(false, has_values)
        if safe:
            return _Outcomes(true, _any(false, has_nulls), self._zeros)
        return _Outcomes(true, false, has_nulls)

    def _of_values(self, operator: str, literal: Value, bounds: Bounds | None) -> tuple[Mask, Mask]:
        """Whether a row that has a value may make it true, and false."""
        if bounds is None or not comparable(literal, bounds.kind):
            return self._ones, self._ones
        less, equal, more = self._places(literal, bounds)
        match operator:
            case "=":
                return equal, _any(less, more)
            case "<":
                return less, _any(equal, more)
            case "<=":
                return _any(less, equal), more
            case ">":
                return more, _any(less, equal)
            case _:
                return _any(more, equal), less

    def _places(self, literal: Value, bounds: Bounds) -> tuple[Mask, Mask, Mask]:
        """Whether values may be less than the literal, equal to it, or more."""
        if bounds.kind in ("string", "float"):
            value: Any = literal.value
            below = self._below(bounds.low, value)
            upto = self._upto(bounds.low, value)
            over = compute.fill_null(compute.greater(bounds.high, value), fill_value=True)
            at_least = compute.fill_null(compute.greater_equal(bounds.high, value), fill_value=True)
        else:
            number = Fraction(literal.value) * 10**bounds.scale
            below = self._integers_upto(bounds.low, math.ceil(number) - 1)
            upto = self._integers_upto(bounds.low, math.floor(number))
            over = compute.invert(self._integers_upto(bounds.high, math.floor(number), unknown=False))
            at_least = compute.invert(self._integers_upto(bounds.high, math.ceil(number) - 1, unknown=False))
        if bounds.kind == "float":
            over = _any(over, _flag(bounds, HAS_NAN))
        return below, compute.and_(upto, at_least), over

    def _below(self, values: Any, value: Any) -> Mask:
        return compute.fill_null(compute.less(values, value), fill_value=True)

    def _upto(self, values: Any, value: Any) -> Mask:
        return compute.fill_null(compute.less_equal(values, value), fill_value=True)

    def _integers_upto(self, values: Any, most: int, *, unknown: bool = True) -> Mask:
        """Whether integers are ``most`` or less, which may be beyond 64 bits."""
        if _LEAST <= most <= _GREATEST:
            compared = compute.less_equal(values, pa.scalar(most, pa.int64()))
        else:
            is_known = compute.is_valid(values)
            compared = compute.if_else(is_known, most > 0, pa.scalar(None, pa.bool_()))
        return compute.fill_null(compared, fill_value=unknown)

    def _in(self, predicate: In) -> _Outcomes:
        bounds = self._bounds_of(predicate.column)
        has_nulls = self._ones if bounds is None else _flag(bounds, HAS_NULLS)
        has_values = self._ones if bounds is None else _flag(bounds, HAS_VALUES)
        true = self._zeros
        misses = self._ones
        for literal in predicate.values:
            if literal is not None:
                may, may_not = self._of_values("=", literal, bounds)
                true = _any(true, may)
                misses = compute.and_(misses, may_not)
        true = compute.and_(true, has_values)
        misses = compute.and_(misses, has_values)
        null = has_nulls
        false = self._zeros
        if None in predicate.values:
            null = _any(null, misses)
        else:
            false = misses
        if not predicate.values:  # of an empty list: by Spark's settings
            false = _any(false, has_nulls)
        return _Outcomes(true, false, null)

    def _starts_with(self, predicate: StartsWith) -> _Outcomes:
        bounds = self._bounds_of(predicate.column)
        prefix = predicate.prefix
        if bounds is None or bounds.kind != "string":
            has_nulls = self._ones if bounds is None else _flag(bounds, HAS_NULLS)
            has_values = self._ones if bounds is None else _flag(bounds, HAS_VALUES)
            return _Outcomes(has_values, has_values, has_nulls)
        following = successor(prefix)
        begins = self._ones if following is None else self._below(bounds.low, following)
        ends = compute.fill_null(compute.greater_equal(bounds.high, prefix), fill_value=True)
        inside = compute.and_(*(self._all_start(values, prefix) for values in (bounds.low, bounds.high)))
        has_values = _flag(bounds, HAS_VALUES)
        true = compute.and_(compute.and_(begins, ends), has_values)
        return _Outcomes(true, compute.and_(compute.invert(inside), has_values), _flag(bounds, HAS_NULLS))

    def _all_start(self, values: Any, prefix: str) -> Mask:
        return compute.fill_null(compute.starts_with(values, pattern=prefix), fill_value=False)


def _any(first: Mask, *others: Mask) -> Mask:
    for other in others:
        first = compute.or_(first, other)
    return first


def _swap(outcomes: _Outcomes) -> _Outcomes:
    return _Outcomes(outcomes.false, outcomes.true, outcomes.null)


def _flag(bounds: Bounds, flag: int) -> Mask:
    return compute.not_equal(compute.bit_wise_and(bounds.flags, pa.scalar(flag, pa.uint8())), pa.scalar(0, pa.uint8()))


# -- values as they are kept ------------------------------------------------------------------------------------------


def storage_type(kind: Kind | None) -> pa.DataType:
    """Returns in which type bounds of a kind are kept."""
    return {"string": pa.string(), "float": pa.float64()}.get(kind or "", pa.int64())


def range_row(values: Range, kind: Kind | None, scale: int) -> tuple[Any, Any, int]:
    """Returns low, high and flags of a range, as they are kept."""
    flags = HAS_NULLS * values.has_nulls | HAS_VALUES * values.has_values | HAS_NAN * values.has_nan
    if kind is None or values.kind != kind:
        return None, None, flags
    if kind == "string":
        low = None if values.low is None else values.low[:MAX_CHARACTERS]
        return low, _string_high(values), flags
    if kind == "float":
        return values.low, values.high, flags
    return _integer(values.low, scale, math.floor), _integer(values.high, scale, math.ceil), flags


def _string_high(values: Range) -> str | None:
    if values.high is None:
        return None
    if values.is_prefix or len(values.high) > MAX_CHARACTERS:
        return successor(values.high[:MAX_CHARACTERS])
    return str(values.high)


def _integer(value: Any, scale: int, rounding: Callable[[Fraction], int]) -> int | None:
    if value is None:
        return None
    number = rounding(Fraction(value) * 10**scale) if isinstance(value, Decimal) else int(value) * 10**scale
    return number if _LEAST <= number <= _GREATEST else None


def successor(prefix: str) -> str | None:
    """Returns the least text that is greater than every text with the prefix, by code points; None
    if there is none."""
    for at in range(len(prefix) - 1, -1, -1):
        following = ord(prefix[at]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _LAST_CHARACTER:
            return prefix[:at] + chr(following)
    return None
