"""Statistics and partition values in the types of their columns, as checkpoints have them beside
text.

Sources: Delta protocol, "Checkpoints" (``stats_parsed``, ``partitionValues_parsed``), "Per-file
Statistics", "Partition Value Serialization", "Column Mapping" (physical names). Which columns have
statistics: Delta's ``StatisticsCollection``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final

import msgspec

from turnstile.delta.core.schemas import PHYSICAL_NAME
from turnstile.maintenance.core.upkeep import Upkeep
from turnstile.store.core.errors import UnsupportedTable

#: More digits than a decimal can have. Python's usual 28 would round.
_DIGITS: Final = Context(prec=80)
_INTEGERS: Final = {"byte": 8, "short": 16, "integer": 32, "long": 64}
BOUNDED: Final = frozenset({*_INTEGERS, "float", "double", "decimal", "date", "timestamp", "timestamp_ntz", "string"})
"""Types that have least and greatest values."""
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_DECODER: Final = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)

Leaf = tuple[tuple[str, ...], tuple[str, ...], str]


class Group(msgspec.Struct, frozen=True):
    """A struct of columns: by physical name a group, or the type of a column."""

    members: dict[str, Group | str]


def type_of(column: str) -> str:
    """Returns a column's type without parameters: ``decimal``, also ``string`` for a type that is
    stored as text."""
    name = column.partition("(")[0].strip()
    return "string" if name in ("char", "varchar") or column.startswith("string ") else name


def decimal_of(column: str) -> tuple[int, int]:
    """Returns precision and scale of ``decimal(10,2)``."""
    match = _DECIMAL.fullmatch(column)
    return (int(match[1]), int(match[2])) if match else (10, 0)


def schema_of(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the columns of a table. Raises UnsupportedTable."""
    try:
        return list(msgspec.json.decode(metadata["schemaString"])["fields"])
    except (msgspec.DecodeError, KeyError, TypeError, RecursionError) as error:
        raise UnsupportedTable(f"the table's schema cannot be read: {error}", field="schemaString") from None


def columns_with_statistics(metadata: dict[str, Any], upkeep: Upkeep) -> Group:
    """Returns the columns with statistics as structs: the columns that Delta collects statistics
    of."""
    partitions = set(metadata.get("partitionColumns") or ())
    data = [column for column in schema_of(metadata) if column["name"] not in partitions]
    leaves = list(_leaves(data, (), ()))
    if upkeep.indexed_names is not None:
        names = upkeep.indexed_names
        leaves = [leaf for leaf in leaves if any(f"{'.'.join(leaf[0])}.".startswith(f"{name}.") for name in names)]
    elif upkeep.indexed >= 0:
        leaves = leaves[: upkeep.indexed]
    root = Group({})
    for _, physical, kind in leaves:
        group = root
        for name in physical[:-1]:
            inner = group.members.setdefault(name, Group({}))
            assert isinstance(inner, Group)
            group = inner
        group.members[physical[-1]] = kind
    return root


def partition_types(metadata: dict[str, Any]) -> dict[str, str]:
    """Returns the types of the partition columns, by physical name, in the order of the table."""
    columns = {column["name"]: column for column in schema_of(metadata)}
    chosen = [columns[name] for name in metadata.get("partitionColumns") or ()]
    return {_physical(column): column["type"] for column in chosen}


def _leaves(columns: list[dict[str, Any]], names: tuple[str, ...], physical: tuple[str, ...]) -> Iterator[Leaf]:
    for column in columns:
        kind = column["type"]
        path = (*names, column["name"])
        stored = (*physical, _physical(column))
        if isinstance(kind, dict) and kind.get("type") == "struct":
            yield from _leaves(kind["fields"], path, stored)
        elif kind not in ("void", "null"):
            yield path, stored, kind if isinstance(kind, str) else kind.get("type", "")


def _physical(column: dict[str, Any]) -> str:
    return str((column.get("metadata") or {}).get(PHYSICAL_NAME) or column["name"])


# -- values -----------------------------------------------------------------------------------------------------------


def parsed_stats(text: str | None, columns: Group) -> dict[str, Any] | None:
    """Returns statistics in JSON as the struct of ``columns``; a value that its column cannot hold
    is left out, which says nothing. None for none, and for text that is no JSON object."""
    if not text:
        return None
    try:
        given = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError, InvalidOperation):
        return None
    struct: dict[str, Any] = {"numRecords": _integer(given.get("numRecords"), 64)}
    tight = given.get("tightBounds")
    struct["tightBounds"] = tight if isinstance(tight, bool) else None
    for name in ("minValues", "maxValues"):
        struct[name] = _bounds(given.get(name), columns)
    struct["nullCount"] = _counts(given.get("nullCount"), columns)
    return struct


def _bounds(given: Any, columns: Group) -> dict[str, Any] | None:
    if not isinstance(given, dict):
        return None
    values: dict[str, Any] = {}
    for name, column in columns.members.items():
        if isinstance(column, Group):
            values[name] = _bounds(given.get(name), column)
        elif type_of(column) in BOUNDED:
            values[name] = parse_value(given.get(name), column)
    return values


def _counts(given: Any, columns: Group) -> dict[str, Any] | None:
    if not isinstance(given, dict):
        return None
    return {
        name: _counts(given.get(name), column) if isinstance(column, Group) else _integer(given.get(name), 64)
        for name, column in columns.members.items()
    }


def parse_value(value: Any, column: str) -> Any:
    """Returns a value of statistics in its column's type; None for one that it cannot hold."""
    try:
        return _PARSERS[type_of(column)](value, column)
    except (KeyError, ValueError, TypeError, OverflowError, ArithmeticError):
        return None


def parsed_partition(text: str | None, column: str) -> Any:
    """Returns a partition value in its column's type; None for null. A time without a zone is taken
    as UTC. Raises UnsupportedTable."""
    if text is None or text == "":
        return None
    kind = type_of(column)
    if kind == "binary":
        return text.encode()
    if kind == "boolean" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    value = parse_value(int(text) if kind in _INTEGERS and re.fullmatch(r"[+-]?\d{1,20}", text) else text, column)
    if value is None:
        problem = f"the partition value {text[:200]!r} is no {column}"
        raise UnsupportedTable(
            problem, field="partitionValues", remedy="set delta.checkpoint.writeStatsAsStruct to false"
        )
    return value


def _integer(value: Any, bits: int) -> int | None:
    if isinstance(value, Decimal) and value == value.to_integral_value():
        value = int(value)
    return value if type(value) is int and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else None


def _whole(value: Any, column: str) -> int | None:
    return _integer(value, _INTEGERS[column])


def _float(value: Any, _: str) -> float:
    return float(value)


def _decimal(value: Any, column: str) -> Decimal | None:
    precision, scale = decimal_of(column)
    number = Decimal(str(value))
    if not number.is_finite() or number.adjusted() >= precision - scale:
        return None
    exact = number.scaleb(scale, _DIGITS)
    return number if exact == exact.to_integral_value(context=_DIGITS) else None


def _date(value: Any, _: str) -> date:
    return date.fromisoformat(value)


def _timestamp(value: Any, _: str) -> datetime:
    moment = datetime.fromisoformat(value)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _local(value: Any, _: str) -> datetime:
    return datetime.fromisoformat(value).replace(tzinfo=None)


def _string(value: Any, _: str) -> str | None:
    return value if isinstance(value, str) else None


_PARSERS: Final[dict[str, Callable[[Any, str], Any]]] = {
    **dict.fromkeys(_INTEGERS, _whole),
    "float": _float,
    "double": _float,
    "decimal": _decimal,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _local,
    "string": _string,
}
