"""Rows, the files that hold them with the statistics that Delta writes, and predicates evaluated on
rows as Spark does."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from turnstile_predicates.file_stats import TableSchema
from turnstile_predicates.predicates import (
    And,
    Comparison,
    In,
    IsNull,
    Kind,
    Not,
    Or,
    Predicate,
    StartsWith,
    Unknown,
    Value,
)

Row = Mapping[tuple[str, ...], Any]
#: Column, type in the schema, kind. ``p`` is the partition column.
COLUMNS: list[tuple[tuple[str, ...], str, Kind]] = [
    (("i",), "long", "integer"),
    (("d",), "decimal(10,2)", "decimal"),
    (("w",), "decimal(38,10)", "decimal"),
    (("f",), "double", "float"),
    (("g",), "float", "float"),
    (("s",), "string", "string"),
    (("b",), "boolean", "boolean"),
    (("day",), "date", "date"),
    (("t",), "timestamp", "timestamp"),
    (("n",), "timestamp_ntz", "timestamp_ntz"),
    (("in", "x"), "integer", "integer"),
    (("p",), "string", "string"),
]
KINDS = {column: kind for column, _, kind in COLUMNS}
TYPES = {column: type_name for column, type_name, _ in COLUMNS}
PARTITION = ("p",)


def schema(*, mapped: bool = False) -> TableSchema:
    """The table; with ``mapped``, stored under other names."""

    def field(name: str, type_: Any) -> dict[str, Any]:
        metadata = {"delta.columnMapping.physicalName": f"col-{name}"} if mapped else {}
        return {"name": name, "type": type_, "nullable": True, "metadata": metadata}

    fields = [field(c[0], t) for c, t, _ in COLUMNS if len(c) == 1]
    fields.append(field("in", {"type": "struct", "fields": [field("x", "integer")]}))
    return TableSchema({"type": "struct", "fields": fields}, ["p"], "name" if mapped else "none")


_short = st.text(alphabet="ab\u00e9\U0001f600\U0010ffff\x7f", max_size=3)
_long = st.builds(lambda a, n, b: "a" * 29 + a * n + b, _short, st.integers(1, 20), _short)
_floats = st.one_of(st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5]), st.integers(-4, 4).map(float))
_micros = st.one_of(st.integers(-3000, 3000), st.integers(-(10**15), 10**15))
VALUES: dict[tuple[str, ...], st.SearchStrategy[Any]] = {
    ("i",): st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1)),
    ("d",): st.integers(-500, 500).map(lambda n: Decimal(n) / 100),
    ("w",): st.one_of(st.integers(-500, 500), st.integers(10**20, 10**20 + 99)).map(lambda n: Decimal(n) / 10**10),
    ("f",): _floats,
    ("g",): st.one_of(_floats, st.floats(width=32)),
    ("s",): st.one_of(_short, _long),
    ("b",): st.booleans(),
    ("day",): st.integers(-1000, 20000),
    ("t",): _micros,
    ("n",): _micros,
    ("in", "x"): st.integers(-5, 5),
    ("p",): st.sampled_from(["", "a", "b", "ab", "ä"]),
}
rows = st.lists(
    st.fixed_dictionaries({c: st.one_of(st.none(), v) for c, v in VALUES.items() if c != PARTITION}), max_size=5
)
partition_values = st.one_of(st.none(), VALUES[PARTITION])


def _value(kind: Kind, value: Any) -> Value:
    return Value(kind, value)


literals = {c: st.builds(_value, st.just(KINDS[c]), values) for c, values in VALUES.items()}
_column = st.sampled_from(list(VALUES))
comparisons = _column.flatmap(
    lambda c: st.builds(
        Comparison, st.just(c), st.sampled_from(["=", "<=>", "<", "<=", ">", ">="]), st.one_of(st.none(), literals[c])
    )
)
_ins = _column.flatmap(
    lambda c: st.builds(In, st.just(c), st.lists(st.one_of(st.none(), literals[c]), max_size=3).map(tuple))
)
_prefixes = st.builds(StartsWith, st.sampled_from([("s",), ("p",)]), st.one_of(_short, _long))
atoms = st.one_of(comparisons, _ins, st.builds(IsNull, _column), _prefixes)
predicates: st.SearchStrategy[Predicate] = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)


@st.composite
def close_calls(draw: st.DrawFn) -> tuple[list[dict[tuple[str, ...], Any]], str | None, Predicate]:
    """Few rows, and a predicate on one column whose literals are its values or next to them."""
    column = draw(_column)
    values = draw(st.lists(st.one_of(st.none(), VALUES[column]), min_size=1, max_size=2))
    present = [v for v in values if v is not None]
    near = st.sampled_from(present).flatmap(lambda v: _near(KINDS[column], v)) if present else VALUES[column]
    literal = st.builds(Value, st.just(KINDS[column]), near)
    operators = st.sampled_from(["=", "<=>", "<", "<=", ">", ">="])
    atom: Predicate = draw(
        st.one_of(
            st.builds(Comparison, st.just(column), operators, literal),
            st.builds(In, st.just(column), st.lists(st.one_of(literal, literal, st.none()), max_size=2).map(tuple)),
            st.builds(IsNull, st.just(column)),
            *([st.builds(StartsWith, st.just(column), near)] if KINDS[column] == "string" else []),
        )
    )
    partition = values[0] if column == PARTITION else "a"
    others = {c: None for c, _, _ in COLUMNS if c != PARTITION}
    rows = [{**others, column: v} for v in values] if column != PARTITION else [others]
    return rows, partition, draw(st.sampled_from([atom, atom, Not(atom)]))


def _near(kind: Kind, value: Any) -> st.SearchStrategy[Any]:
    if kind == "string":
        return st.sampled_from([value, value[:-1], value[:32], value + "a", value[:32] + "\U0010ffff"])
    if kind == "boolean":
        return st.booleans()
    if kind == "float":
        return st.sampled_from([value, 0.0, math.nan])
    step = Decimal(1) / 10**10 if kind == "decimal" else 1
    return st.sampled_from([value, value - step, value + step, value + (999 if kind.startswith("timestamp") else step)])


def evaluate(predicate: Predicate, row: Row) -> bool | None:
    """True, false or null, as Spark does: NaN equals NaN and is more than any number."""
    match predicate:
        case And():
            parts = [evaluate(p, row) for p in predicate.parts]
            return False if False in parts else None if None in parts else True
        case Or():
            parts = [evaluate(p, row) for p in predicate.parts]
            return True if True in parts else None if None in parts else False
        case Not():
            part = evaluate(predicate.part, row)
            return None if part is None else not part
        case Unknown():
            raise AssertionError("an unknown expression has no value")
        case IsNull():
            return row[predicate.column] is None
        case StartsWith():
            value = row[predicate.column]
            return None if value is None else value.startswith(predicate.prefix)
        case In():
            parts = [evaluate(Comparison(predicate.column, "=", v), row) for v in predicate.values]
            return True if True in parts else None if None in parts else False
    value = row[predicate.column]
    literal = predicate.value
    if predicate.operator == "<=>" and (value is None or literal is None):
        return value is None and literal is None
    if value is None or literal is None:
        return None
    order = _order(value, literal.value)
    return {"=": order == 0, "<=>": order == 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[
        predicate.operator
    ]


def _order(a: Any, b: Any) -> int:
    a_nan, b_nan = (isinstance(x, float) and math.isnan(x) for x in (a, b))
    if a_nan or b_nan:
        return int(a_nan) - int(b_nan)
    if isinstance(a, str):
        a = a.encode()
        b = b.encode()
    return int(a > b) - int(a < b)


def add(
    path: str,
    rows: list[Row],
    partition: str | None,
    *,
    mapped: bool = False,
    left_out: frozenset[str] = frozenset(),
    deleted: int = 0,
) -> dict[str, Any]:
    """The ``add`` of a file with ``rows``, of which the first ``deleted`` are deleted (its
    statistics do not say so). ``left_out``: members of the statistics, ``all`` of them, or ``NaN``:
    as by writers that pass NaNs over."""
    stats: dict[str, Any] = {"numRecords": len(rows), "minValues": {}, "maxValues": {}, "nullCount": {}}
    for column, type_name, kind in COLUMNS:
        if column == PARTITION:
            continue
        present = [row[column] for row in rows if row[column] is not None]
        _put(stats["nullCount"], column, len(rows) - len(present), mapped=mapped)
        if present and kind != "boolean":
            numbers = sorted(present, key=lambda v: (math.isnan(v), v) if kind == "float" else v)
            if "NaN" in left_out:
                numbers = [n for n in numbers if kind != "float" or not math.isnan(n)] or numbers
            _put(stats["minValues"], column, _text(kind, type_name, numbers[0], is_max=False), mapped=mapped)
            _put(stats["maxValues"], column, _text(kind, type_name, numbers[-1], is_max=True), mapped=mapped)
    for name in left_out:
        stats.pop(name, None)
    if deleted:
        stats["tightBounds"] = False
    values = {"col-p" if mapped else "p": partition or None}
    file = {"path": path, "partitionValues": values, "size": 1, "modificationTime": 1, "dataChange": True}
    if "all" not in left_out:
        file["stats"] = json.dumps(stats)
    if deleted:
        file["deletionVector"] = {
            "storageType": "u",
            "pathOrInlineDv": "x" * 20,
            "sizeInBytes": 1,
            "cardinality": deleted,
        }
    return file


def _put(target: dict[str, Any], column: tuple[str, ...], value: Any, *, mapped: bool) -> None:
    names = [f"col-{name}" if mapped else name for name in column]
    for name in names[:-1]:
        target = target.setdefault(name, {})
    target[names[-1]] = value


def _text(kind: Kind, type_name: str, value: Any, *, is_max: bool) -> Any:
    """A value as Delta writes it into statistics."""
    if kind == "string":
        return _truncated_max(value) if is_max else value[:32]
    if kind == "date":
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    if kind in ("timestamp", "timestamp_ntz"):
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value // 1000 * 1000)
        text = moment.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return text + ("Z" if kind == "timestamp" else "")
    if kind == "float" and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if type_name == "float":
        return next(n for n in (float(f"{value:.{digits}g}") for digits in range(1, 18)) if _single(n) == value)
    if kind == "decimal":
        return float(value)  # as writers do that pass it through a double
    return value


def _single(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.inf


def _truncated_max(value: str) -> str:
    """Delta's ``truncateMaxStringAgg``, by characters."""
    if len(value) <= 32:
        return value
    for length in range(32, 65):
        if length >= len(value):
            return value
        if value[length] != "\U0010ffff":
            return value[:length] + ("\x7f" if value[length] < "\x7f" else "\U0010ffff")
    return "\U0010ffff" * 64
