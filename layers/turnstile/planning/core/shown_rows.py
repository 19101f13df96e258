"""Rows of a table as JSON: the values that ``POST .../rows`` takes
(``turnstile.ingest.core.values``) and puts into the table as they were, as long as they are short.

    numbers        numbers; texts where JSON's readers would round them, and for NaN and infinities
    decimal        texts with all digits
    timestamp      ISO 8601 in UTC, timestamp_ntz without a zone
    binary         base64
    struct, map    objects; a map whose keys are structs or lists: its pairs of ``key`` and ``value``
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

Cells = list[Any]

TEXT_CHARACTERS: Final = 1_000
"""Of a text that is shown; of a longer one, its beginning."""
NESTED_BYTES: Final = 4 * 1024
"""Of a list, map or struct that is shown."""
_EXACT: Final = 2**53
_MORE: Final = "…"


class ShownRow(msgspec.Struct, frozen=True):
    """The values of a row by column; ``cut``: how many of them are not shown whole."""

    values: dict[str, Any]
    cut: int


def shown_rows(names: Sequence[str], columns: Sequence[pa.Array]) -> list[ShownRow]:
    """Returns the rows of ``columns``, which are called ``names``."""
    rows = zip(*(map(_cell, _cells(values)) for values in columns), strict=True)
    return [
        ShownRow({name: value for name, (value, _) in zip(names, row, strict=True)}, sum(is_cut for _, is_cut in row))
        for row in rows
    ]


class _Unshown(msgspec.Struct, frozen=True):
    """A value that is too large to show."""

    bytes: int


def _cell(value: Any) -> tuple[Any, bool]:
    """The value as it is shown, and whether it is not shown whole."""
    if isinstance(value, _Unshown):
        return f"({value.bytes // 1024} KiB)", True
    if isinstance(value, str) and len(value) > TEXT_CHARACTERS:
        return value[:TEXT_CHARACTERS] + _MORE, True
    return value, False


def _cells(values: pa.Array) -> Cells:
    """Every value of a column by itself, so that a large list costs nothing."""
    if not types.is_nested(values.type):
        return json_values(values)
    cells: Cells = []
    for at in range(len(values)):
        one = values.slice(at, 1)
        cells.append(json_values(one)[0] if one.nbytes <= NESTED_BYTES else _Unshown(one.nbytes))
    return cells


def json_values(values: pa.Array) -> Cells:
    """Returns each value as JSON has it; None for null."""
    type = values.type
    if types.is_struct(type):
        return _structs(values)
    if types.is_map(type):
        return _maps(values)
    if types.is_list(type):
        return _lists(values)
    if types.is_temporal(type):
        return [None if text is None else _moment(text) for text in pc.cast(values, pa.string()).to_pylist()]
    if types.is_float32(type):  # 0.1 and not 0.10000000149011612
        return [None if text is None else _float(float(text)) for text in pc.cast(values, pa.string()).to_pylist()]
    cells: Cells = values.to_pylist()
    convert = _converter(type)
    return cells if convert is None else [None if value is None else convert(value) for value in cells]


def _converter(type: pa.DataType) -> Callable[[Any], Any] | None:
    """The function that makes JSON of a value that Arrow gave to Python; None where it is JSON."""
    if types.is_integer(type):
        return _integer
    if types.is_floating(type):
        return _float
    if types.is_decimal(type):
        return _decimal
    return _binary if types.is_binary(type) else None


def _integer(value: int) -> int | str:
    return value if -_EXACT < value < _EXACT else str(value)


def _float(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _moment(text: str) -> str:
    """``2026-01-01 02:03:04.000500Z`` in the form of ISO 8601, without zeros at the end."""
    zone = "Z" if text.endswith("Z") else ""
    moment, point, part = text.removesuffix("Z").replace(" ", "T").partition(".")
    part = part.rstrip("0")
    return f"{moment}{point if part else ''}{part}{zone}"


def _decimal(value: Decimal) -> str:
    return format(value, "f")


def _binary(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _structs(values: pa.StructArray) -> Cells:
    names = [member.name for member in values.type]
    members = [json_values(member) for member in values.flatten()]
    rows = zip(*members, strict=True) if members else ((),) * len(values)
    valid = values.is_valid().to_pylist()
    return [dict(zip(names, row, strict=True)) if there else None for row, there in zip(rows, valid, strict=True)]


def _lists(values: pa.ListArray) -> Cells:
    return _split(values, json_values(values.flatten()), pc.list_value_length(values))


def _maps(values: pa.MapArray) -> Cells:
    first = values.offsets[0].as_py()
    count = values.offsets[len(values)].as_py() - first
    keys = json_values(values.keys.slice(first, count))
    items = json_values(values.items.slice(first, count))
    lengths = pc.subtract(values.offsets[1:], values.offsets[:-1])
    pairs = _split(values, list(zip(keys, items, strict=True)), lengths)
    return [None if of_row is None else _map(of_row) for of_row in pairs]


def _map(pairs: list[tuple[Any, Any]]) -> Any:
    if any(isinstance(key, dict | list) for key, _ in pairs):
        return [{"key": key, "value": value} for key, value in pairs]
    return {key if isinstance(key, str) else msgspec.json.encode(key).decode(): value for key, value in pairs}


def _split(values: pa.Array, elements: Cells, lengths: pa.Array) -> Cells:
    """The elements of each row; None for a row that is null."""
    at = 0
    rows: Cells = []
    for length, there in zip(lengths.to_pylist(), values.is_valid().to_pylist(), strict=True):
        rows.append(elements[at : at + (length or 0)] if there else None)
        at += length or 0
    return rows
