"""Texts of partition values (Delta protocol, "Partition Value Serialization"), and whether Spark
reads them as their column's type.

Spark casts the text when it reads the table, and a text that it cannot cast makes every query fail
that reads the column. So every text that Spark refuses is refused here. Some rare forms that Spark
accepts are refused, too (white space, names of time zones).
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final, TypeGuard

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_NUMBER: Final = re.compile(
    r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,4})?", re.ASCII
)
_NO_NUMBER: Final = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE)
_DECIMAL_TYPE: Final = re.compile(r"decimal\(([0-9]{1,2}),([0-9]{1,2})\)")
_BOOLEANS: Final = frozenset({"t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"})
_DATE: Final = r"(?P<year>[+-]?[0-9]{4,6})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})"
_ZONE: Final = r"(?:Z|(?:UTC|GMT|UT)?(?:[+-](?P<zone_hour>[0-9]{1,2})(?::[0-9]{1,2}(?::[0-9]{1,2})?)?)?)"
_TIME: Final = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.[0-9]{0,9})?)?"
_DATES: Final = re.compile(rf"{_DATE}(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIMESTAMPS: Final = re.compile(rf"{_DATE}(?:[ T](?:{_TIME}\s?{_ZONE})?)?)?)?", re.ASCII)
_LEAP_YEAR: Final = 2000
_EXACT: Final = Context(prec=1000)


def _integer(bits: int) -> Callable[[str], bool]:
    least = -(2 ** (bits - 1))
    most = 2 ** (bits - 1) - 1
    return lambda text: bool(_INTEGER.fullmatch(text)) and least <= int(text) <= most


def _is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text) or _NO_NUMBER.fullmatch(text))


def _is_date(text: str) -> bool:
    return _has_days(_DATES.fullmatch(text))


def _is_timestamp(text: str) -> bool:
    match = _TIMESTAMPS.fullmatch(text)
    limits = {"hour": 23, "minute": 59, "second": 59, "zone_hour": 18}
    return _has_days(match) and all(int(match[name] or 0) <= most for name, most in limits.items())


def _has_days(match: re.Match[str] | None) -> TypeGuard[re.Match[str]]:
    """Whether there is such a day."""
    if match is None:
        return False
    year = int(match["year"])
    month = int(match["month"] or 1)
    day = int(match["day"] or 1)
    like = _LEAP_YEAR if calendar.isleap(year) else _LEAP_YEAR + 1
    return 1 <= month <= 12 and 1 <= day <= calendar.monthrange(like, month)[1]


_READABLE: Final[Mapping[str, Callable[[str], bool]]] = {
    "byte": _integer(8),
    "short": _integer(16),
    "integer": _integer(32),
    "long": _integer(64),
    "float": _is_number,
    "double": _is_number,
    "boolean": lambda text: text.lower() in _BOOLEANS,
    "date": _is_date,
    "timestamp": _is_timestamp,
    "timestamp_ntz": _is_timestamp,
}


def is_value(type: object, text: str) -> bool:
    """Returns whether ``text``, which is not empty, is a value of a column with this ``type`` of a
    Delta schema. Of types that are not known here, and of texts, everything is."""
    if not isinstance(type, str):
        return True
    if match := _DECIMAL_TYPE.fullmatch(type):
        precision = int(match[1])
        scale = int(match[2])
        return bool(_NUMBER.fullmatch(text)) and _fits(Decimal(text), precision, scale)
    readable = _READABLE.get(type)
    return readable is None or readable(text)


def _fits(number: Decimal, precision: int, scale: int) -> bool:
    """Whether the number has room in ``decimal(precision,scale)``, when digits beyond the scale are
    rounded away."""
    room = precision - scale
    if number == 0 or number.adjusted() >= room:
        return number == 0
    rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    return rounded == 0 or rounded.adjusted() < room
