"""Partition values: the texts of the log, and Arrow's values. Source: Delta protocol, "Partition
Value Serialization"."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from turnstile_rows.errors import DataMismatch, Unsupported

Texts = tuple[str | None, ...]

#: As many digits as a decimal of Delta's can have. Python's usual 28 are too few.
_DIGITS: Final = Context(prec=38)


def partition_text(value: Any, name: str) -> str | None:
    """A value of a partition column as the log has it; None for null. Raises :class:`DataMismatch`
    for the empty text, which would be read as null."""
    match value:
        case None:
            return None
        case "":
            raise DataMismatch(f"partition column {name!r}: an empty text is null in every Delta table: write null")
        case bool():
            return "true" if value else "false"
        case float():
            return _float_text(value)
        case Decimal():
            return format(value, "f")
        case datetime():
            text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
            return text.replace("T", " ") if value.tzinfo is None else text + "Z"
        case date():
            return value.isoformat()
        case bytes():
            return _bytes_text(value, name)
    return str(value)


def partition_misfits(values: pa.Array, name: str) -> Iterator[tuple[int, str]]:
    """Yields the positions of values that no partition can have, and the problems."""
    for value in pc.unique(values):
        try:
            partition_text(value.as_py(), name)
        except (DataMismatch, ValueError, OverflowError) as error:
            found = str(error) if isinstance(error, DataMismatch) else _no_year(name, error)
            yield from ((at, found) for at in pc.indices_nonzero(pc.equal(values, value)).to_pylist())


def _no_year(name: str, error: Exception) -> str:
    return f"partition column {name!r} has a value before the year 1, or after 9999: {error}"


def _bytes_text(value: bytes, name: str) -> str:
    try:
        return partition_text(value.decode(), name) or ""
    except UnicodeDecodeError:
        raise DataMismatch(f"partition column {name!r}: the bytes {value[:40]!r} are no text in UTF-8") from None


def _float_text(value: float) -> str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return "NaN" if math.isnan(value) else repr(value)


def partition_value(text: str | None, type: pa.DataType, name: str) -> pa.Scalar:
    """The value of a text of the log. A time without a zone is taken as UTC. Raises
    :class:`Unsupported` for a text that is no such value."""
    try:
        return pa.scalar(None if text is None or text == "" else _parse(text, type), type)
    except (ValueError, InvalidOperation, pa.ArrowInvalid, OverflowError):
        raise Unsupported(f"partition column {name!r}: the table's log has {text!r}, which is no {type}") from None


def _parse(text: str, type: pa.DataType) -> Any:
    if types.is_boolean(type):
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"
    if types.is_integer(type):
        return int(text)
    if types.is_floating(type):
        return float(text)
    if types.is_decimal(type):
        return _DIGITS.quantize(Decimal(text), Decimal(1).scaleb(-type.scale))
    if types.is_date(type):
        return date.fromisoformat(text)
    if types.is_timestamp(type):
        moment = datetime.fromisoformat(text)
        if type.tz is None:
            return moment.replace(tzinfo=None)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return text.encode() if types.is_binary(type) else text


def _first(rows: pa.RecordBatch, name: str) -> Any:
    try:
        return rows.column(name)[0].as_py()
    except (ValueError, OverflowError) as error:
        raise DataMismatch(_no_year(name, error)) from None


def split(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[Texts, pa.RecordBatch]]:
    """The rows of each partition, in the order in which they are, without the partition columns
    ``names``, with the texts of these. Raises as :func:`partition_text`."""
    rest = [name for name in batch.schema.names if name not in names]
    if not names:
        yield (), batch
        return
    key: Any = pa.scalar(0, pa.int64())
    for name in names:
        encoded = pc.dictionary_encode(batch.column(name), null_encoding="encode")
        key = pc.add(pc.multiply(key, len(encoded.dictionary)), encoded.indices.cast(pa.int64()))
        if len(names) > 1:  # small again, so that no number of columns makes it overflow
            key = pc.dictionary_encode(key).indices.cast(pa.int64())
    order = pc.sort_indices(key)
    start = 0
    for end in pc.run_end_encode(pc.take(key, order)).run_ends.to_pylist():
        rows = batch.take(order.slice(start, end - start))
        yield tuple(partition_text(_first(rows, name), name) for name in names), rows.select(rest)
        start = end
