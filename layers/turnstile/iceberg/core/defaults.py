"""Default values of columns, as JSON (table specification, appendix D, "JSON single-value serialization").

Java's and PyIceberg's readers refuse a whole table for a default value that is not written as its type wants it.
"""

from __future__ import annotations

import re
from datetime import date, time
from typing import Any, Final

from turnstile.store.core.integers import INT_MAX, LONG_MAX

_HIGHEST: Final = {"int": INT_MAX, "long": LONG_MAX}
_DECIMAL: Final = re.compile(r"-?(\d+)(?:\.(\d+))?", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_BYTES: Final = re.compile(r"([0-9a-fA-F]{2})*")

_DATE: Final = r"(?P<date>\d{4}-\d\d-\d\d)"
_TIME: Final = r"(?P<time>\d\d:\d\d:\d\d)"
_ZONE: Final = r"\+00:00"
_MOMENTS: Final = {
    name: re.compile(form, re.ASCII)
    for name, form in {
        "date": _DATE,
        "time": rf"{_TIME}(\.\d{{1,6}})?",
        "timestamp": rf"{_DATE}T{_TIME}(\.\d{{1,6}})?",
        "timestamptz": rf"{_DATE}T{_TIME}(\.\d{{1,6}})?{_ZONE}",
        "timestamp_ns": rf"{_DATE}T{_TIME}(\.\d{{1,9}})?",
        "timestamptz_ns": rf"{_DATE}T{_TIME}(\.\d{{1,9}})?{_ZONE}",
    }.items()
}


def fits(type: str, value: Any) -> bool:
    """Whether ``value`` is one of a column of this primitive type. Types that have only null for a default fit nothing."""
    if type == "boolean":
        return isinstance(value, bool)
    if type in _HIGHEST:
        highest = _HIGHEST[type]
        return isinstance(value, int) and not isinstance(value, bool) and -highest - 1 <= value <= highest
    if type in ("float", "double"):
        return isinstance(value, float)
    return isinstance(value, str) and _fits_text(type, value)


def _fits_text(type: str, text: str) -> bool:
    base, _, sizes = type.rstrip(")]").replace("[", "(").partition("(")
    if base in _MOMENTS:
        return _is_moment(_MOMENTS[base], text)
    match base:
        case "string":
            return True
        case "uuid":
            return _UUID.fullmatch(text) is not None
        case "binary":
            return _BYTES.fullmatch(text) is not None
        case "fixed":
            return _BYTES.fullmatch(text) is not None and len(text) == 2 * int(sizes)
        case "decimal":
            precision, scale = map(int, sizes.split(","))
            found = _DECIMAL.fullmatch(text)
            return found is not None and len(found[2] or "") == scale and len(found[1].lstrip("0")) <= precision - scale
    return False


def _is_moment(form: re.Pattern[str], text: str) -> bool:
    found = form.fullmatch(text)
    if found is None:
        return False
    try:
        named = found.groupdict()
        date.fromisoformat(named.get("date", "2000-01-01"))
        time.fromisoformat(named.get("time", "00:00:00"))
    except ValueError:
        return False
    return True
