"""Statistics of a file, narrowed to some columns. Source: Delta protocol, "Per-file Statistics"."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec

from turnstile.planning.core.predicates import Column

_DECODER: Final = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
_BY_COLUMN: Final = ("minValues", "maxValues", "nullCount")


def statistics_of_columns(text: str, columns: Collection[Column] | None) -> dict[str, Any]:
    """Returns statistics in JSON, of ``columns`` only, by physical names (None: of all). Numbers
    keep their digits. Empty for a text that is no JSON object."""
    try:
        stats = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError, InvalidOperation):
        return {}
    if columns is None:
        return stats
    return {name: _of(value, columns, ()) if name in _BY_COLUMN else value for name, value in stats.items()}


def _of(values: Any, columns: Collection[Column], path: Column) -> Any:
    if not isinstance(values, dict):
        return values
    return {
        name: _of(value, columns, (*path, name))
        for name, value in values.items()
        if any(_overlap((*path, name), column) for column in columns)
    }


def _overlap(one: Column, other: Column) -> bool:
    """Whether one is the other, or a part of it."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]
