"""Values of JSON, or texts of CSV, in the type of a table's column.

A text is taken where Spark's ANSI cast takes it, and a value is never changed: one that does not
fit is refused. The usual kinds of value are converted by Arrow all at once; others one by one, so
that the first bad one is found.

    byte to long   whole numbers in range; 2.0 counts as one
    float, double  numbers; also the texts NaN, Infinity, -Infinity
    decimal        numbers and texts with as many digits as the column has, or fewer
    boolean        true and false; also the texts t, yes, y, 1 and f, no, n, 0
    date           the text 2026-01-31
    timestamp      ISO 8601, in UTC where the text has no zone; digits below a microsecond are cut
    timestamp_ntz  ISO 8601 without a zone
    binary         base64
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from turnstile.ingest.core.errors import InvalidRows, excerpt

Convert = Callable[[Any], Any]
"""Makes the value of a column from a value that is not null. Raises BadValue."""

OnMisfit = Callable[[int, InvalidRows], None]
"""Is called with the position of a row that does not fit, and the reason. A function that returns
has the row left out by its caller: its values are null."""


def refuse(_position: int, error: InvalidRows) -> None:
    """Refuses all rows for the first one that does not fit. Raises ``error``."""
    raise error from None


_WHOLE: Final = re.compile(r"[+-]?\d{1,40}", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,5})?", re.ASCII)
_DATE: Final = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_MOMENT: Final = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})(?:[T ](?P<time>\d{2}:\d{2}(?::\d{2}(?:\.(?P<part>\d{1,9}))?)?)"
    r"\s?(?P<zone>Z|UTC|[+-]\d{2}(?::?\d{2})?)?)?",
    re.ASCII,
)
_SPECIAL: Final = {
    "nan": math.nan, "inf": math.inf, "+inf": math.inf, "-inf": -math.inf,
    "infinity": math.inf, "+infinity": math.inf, "-infinity": -math.inf,
}  # fmt: skip
_TRUE: Final = frozenset({"true", "t", "yes", "y", "1"})
_FALSE: Final = frozenset({"false", "f", "no", "n", "0"})
_EXACT: Final = 2**53
_DIGITS: Final = Context(prec=100, traps=[Inexact])
"""More digits than a column has; a number with more of them is refused, not rounded."""
_FLOAT_MAX: Final = 3.4028235677973366e38
"""Greater numbers are infinite as a float of 32 bits."""

_USUAL: Final[tuple[tuple[Callable[[pa.DataType], bool], frozenset[type]], ...]] = (
    (types.is_integer, frozenset({int, type(None)})),
    (types.is_float64, frozenset({float, int, type(None)})),
    (types.is_string, frozenset({str, type(None)})),
    (types.is_boolean, frozenset({bool, type(None)})),
)
"""Kinds of value that Arrow converts to a type without a change."""


class BadValue(Exception):
    """A value does not fit its column; ``path``: where it is below the column."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = path


def column_of(
    values: Sequence[Any], column: pa.Field, place_of: Callable[[int], str], on_misfit: OnMisfit = refuse
) -> pa.Array:
    """Returns the values as an array of the column's type; None is null. ``place_of``: names the
    row of a position; ``on_misfit``: is called for values that do not fit. By default it raises
    InvalidRows for the first one.
    """
    kinds = {*map(type, values)}
    if not column.nullable and type(None) in kinds:
        for at, value in enumerate(values):
            if value is None:
                text = f"{place_of(at)}: column {column.name!r} takes no nulls, and the row has no value for it"
                on_misfit(at, InvalidRows(text, field=column.name))
    is_rounded = int in kinds and types.is_floating(column.type) and any(map(_is_long, values))
    if not is_rounded and any(is_kind(column.type) and kinds <= usual for is_kind, usual in _USUAL):
        try:
            return pa.array(values, column.type)
        except (pa.ArrowException, OverflowError, UnicodeError):
            pass  # the first bad value is looked for
    convert = converter(column.type)
    converted = []
    for at, value in enumerate(values):
        try:
            converted.append(None if value is None else convert(value))
        except BadValue as error:
            name = column.name + error.path
            on_misfit(at, InvalidRows(f"{place_of(at)}: column {name!r}: {error.problem}", field=name))
            converted.append(None)
    return pa.array(converted, column.type)


def _is_long(value: Any) -> bool:
    """Whether this is a whole number that a double may not hold."""
    return type(value) is int and abs(value) > _EXACT


def converter(type: pa.DataType) -> Convert:
    """Returns the function that converts a value which is not null."""
    if types.is_integer(type):
        return _integer(type)
    if types.is_floating(type):
        return _float32 if types.is_float32(type) else _float
    if types.is_decimal(type):
        return _decimal(type)
    if types.is_timestamp(type):
        return _timestamp if type.tz else _local_timestamp
    if types.is_struct(type):
        return _struct(type)
    if types.is_list(type):
        return _list(type)
    if types.is_map(type):
        return _map(type)
    if types.is_boolean(type):
        return _boolean
    if types.is_date(type):
        return _date
    return _binary if types.is_binary(type) else _text


def _integer(type: pa.DataType) -> Convert:
    most = 2 ** (type.bit_width - 1)

    def convert(value: Any) -> int:
        if isinstance(value, str):
            text = value.strip()
            if not _WHOLE.fullmatch(text):
                raise BadValue(f"the text {excerpt(value)} is no whole number")
            number = int(text)
        elif isinstance(value, float | Decimal) and _is_whole(value):
            number = int(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            number = value
        else:
            raise _misfit(value, "a whole number")
        if not -most <= number < most:
            raise BadValue(f"{excerpt(number)} is outside of {-most} to {most - 1}")
        return number

    return convert


def _is_whole(value: float | Decimal) -> bool:
    if isinstance(value, Decimal):
        return value.is_finite() and value.adjusted() < 20 and value == value.to_integral_value()
    return value.is_integer() and abs(value) <= _EXACT


def _float(value: Any) -> float:
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in _SPECIAL:
            return _SPECIAL[text.lower()]
        if not _NUMBER.fullmatch(text):
            raise BadValue(f"the text {excerpt(value)} is no number")
        return _finite(float(text), value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _misfit(value, "a number")
    try:
        if _is_long(value) and float(value) != value:
            raise BadValue(f"the number {excerpt(value)} has more digits than the column holds")
        return _finite(float(value), value)
    except OverflowError:
        raise _too_great(value) from None


def _finite(number: float, value: Any) -> float:
    if math.isinf(number):
        raise _too_great(value)
    return number


def _too_great(value: Any) -> BadValue:
    return BadValue(f"{excerpt(value)} is too great for the column's type")


def _float32(value: Any) -> float:
    number = _float(value)
    if _FLOAT_MAX <= abs(number) < math.inf:
        raise _too_great(value)
    return number


def _decimal(type: pa.DataType) -> Convert:
    places = type.precision - type.scale

    def convert(value: Any) -> Decimal:
        if isinstance(value, str):
            text = value.strip()
            if not _NUMBER.fullmatch(text):
                raise BadValue(f"the text {excerpt(value)} is no number")
            number = _parse(text)
        elif isinstance(value, Decimal):
            number = value
        elif isinstance(value, int) and not isinstance(value, bool):
            number = Decimal(value)
        else:
            raise _misfit(value, "a number, or a text with one")
        try:
            number = number.normalize(_DIGITS)
        except Inexact:
            raise BadValue(f"{excerpt(value)} has too many digits: round it") from None
        if not number.is_finite() or (number and number.adjusted() >= places):
            raise BadValue(f"{excerpt(value)} has more than {places} digits before the point")
        exponent = number.as_tuple().exponent
        if isinstance(exponent, int) and -exponent > type.scale:
            raise BadValue(f"{excerpt(value)} has more than {type.scale} digits after the point: round it")
        return number

    return convert


def _parse(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise BadValue(f"the text {excerpt(text)} is no number") from None


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = value.strip().lower() if isinstance(value, str) else ""
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise _misfit(value, "true or false")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _misfit(value, "a text: put it in quotation marks")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadValue(f"the text {excerpt(value)} has half of a pair of surrogates") from None
    return value


def _binary(value: Any) -> bytes:
    if not isinstance(value, str):
        raise _misfit(value, "a text with base64")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise BadValue(f"the text {excerpt(value)} is no base64") from None


def _date(value: Any) -> date:
    match = _DATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise _misfit(value, "a date, as 2026-01-31")
    try:
        return date(*map(int, match.groups()))
    except ValueError:
        raise BadValue(f"{excerpt(value)} is no day of the calendar") from None


def _moment(value: Any) -> tuple[datetime, str]:
    match = _MOMENT.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise _misfit(value, "a time, as 2026-01-31T12:00:00.5Z")
    part = (match["part"] or "")[:6].ljust(6, "0")
    time = (match["time"] or "00:00:00").partition(".")[0]
    zone = match["zone"] or ""
    try:
        moment = datetime.fromisoformat(f"{match['date']}T{time}{':00' if len(time) == 5 else ''}.{part}")
        if zone:
            moment = moment.replace(tzinfo=datetime.fromisoformat(f"2000-01-01T00:00:00{_offset(zone)}").tzinfo)
    except ValueError:
        raise BadValue(f"{excerpt(value)} is no time of the calendar") from None
    return moment, zone


def _offset(zone: str) -> str:
    if zone in ("Z", "UTC"):
        return "+00:00"
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return f"{zone[0]}{digits[:2]}:{digits[2:]}"


def _timestamp(value: Any) -> datetime:
    moment, zone = _moment(value)
    try:
        return moment.astimezone(UTC) if zone else moment.replace(tzinfo=UTC)
    except OverflowError:
        raise BadValue(f"{excerpt(value)} is before the year 1, or after 9999") from None


def _local_timestamp(value: Any) -> datetime:
    moment, zone = _moment(value)
    if zone:
        raise BadValue(f"{excerpt(value)} has a zone, and the column has times without one")
    return moment


def _struct(type: pa.DataType) -> Convert:
    members = {member.name.lower(): (member, converter(member.type)) for member in type}

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _misfit(value, "an object")
        there = {str(name).lower(): name for name in value}
        if len(there) < len(value):
            raise BadValue("a field is there twice: names are compared without regard to case")
        for name in there.keys() - members.keys():
            raise BadValue(f"the field {excerpt(there[name])} is not in the table")
        return {
            member.name: _inner(value.get(there.get(name)), member, inner, f".{member.name}")
            for name, (member, inner) in members.items()
        }

    return convert


def _list(type: pa.DataType) -> Convert:
    element = type.value_field
    inner = converter(element.type)

    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _misfit(value, "an array")
        return [_inner(each, element, inner, f"[{at}]") for at, each in enumerate(value)]

    return convert


def _map(type: pa.DataType) -> Convert:
    item = type.item_field
    key_of = converter(type.key_type)
    inner = converter(item.type)

    def convert(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, Mapping):
            raise _misfit(value, "an object")
        keys = [_inner(name, type.key_field, key_of, ".key") for name in value]
        if len(set(keys)) < len(keys):
            raise BadValue("two keys of the map are the same in the column's type")
        items = [_inner(each, item, inner, f"[{excerpt(name)}]") for name, each in value.items()]
        return list(zip(keys, items, strict=True))

    return convert


def _inner(value: Any, field: pa.Field, convert: Convert, path: str) -> Any:
    """A value below a column. Raises BadValue with the path to it."""
    if value is None:
        if not field.nullable:
            raise BadValue("it takes no nulls, and has no value", path)
        return None
    try:
        return convert(value)
    except BadValue as error:
        raise BadValue(error.problem, path + error.path) from None


def _misfit(value: Any, wanted: str) -> BadValue:
    return BadValue(f"{excerpt(value)} is {_KINDS.get(type(value), 'a value')}, and the column takes {wanted}")


_KINDS: Final[dict[type, str]] = {
    bool: "a boolean", int: "a number", float: "a number", Decimal: "a number", str: "a text",
    list: "an array", dict: "an object",
}  # fmt: skip
