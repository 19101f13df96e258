"""Data that a caller gives, in the columns and types of a table.

Values are never changed on the way: a cast that would lose something is refused, and a value that
is missing becomes null only where the table takes null and no engine would put a default there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import pyarrow as pa
from pyarrow import types

from turnstile_rows.converting import convert
from turnstile_rows.errors import DataMismatch
from turnstile_rows.schemas import check_distinct, is_list

#: Rows that are cast at once, so that a text column of one large chunk is never copied whole.
ROWS_AT_ONCE: Final = 131_072


class Conformer:
    """Gives record batches of the schema ``given`` the schema ``wanted``. Made once for each write;
    raises :class:`DataMismatch` when it is made, for columns and types, and when a batch comes, for
    values. ``defaulted``: columns, in lower case, that must not be left out.
    """

    def __init__(self, given: pa.Schema, wanted: pa.Schema, defaulted: Collection[str] = ()) -> None:
        check_distinct(given.names, "the data's column")
        places = {name.lower(): at for at, name in enumerate(given.names)}
        unknown = places.keys() - {name.lower() for name in wanted.names}
        if unknown:
            names = ", ".join(repr(given.names[places[name]]) for name in sorted(unknown))
            raise DataMismatch(
                f"the data has columns that the table has not: {names}; the table has {', '.join(wanted.names)}"
            )
        self.schema = wanted
        self._places = [places.get(column.name.lower()) for column in wanted]
        for column, place in zip(wanted, self._places, strict=True):
            if place is not None:
                _check_type(given.field(place).type, column.type, column.name)
            elif column.name.lower() in defaulted:
                raise DataMismatch(
                    f"column {column.name!r} has a default value, which is not computed here: give the column"
                )
            elif not column.nullable:
                raise DataMismatch(f"column {column.name!r} takes no nulls, and the data has no such column")

    def conform(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of a batch, some at once."""
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            rows = batch.slice(start, ROWS_AT_ONCE)
            columns = [
                pa.nulls(rows.num_rows, column.type) if place is None else _cast(rows.column(place), column)
                for column, place in zip(self.schema, self._places, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def misfits(self, batch: pa.RecordBatch) -> Iterator[tuple[int, str, str]]:
        """Yields the position of each row that ``conform`` refuses, once, with its first column
        that does not fit and the problem. Costs a conversion of the batch, and some small ones for
        each such row."""
        fitting: list[int] | None = None
        for column, place in zip(self.schema, self._places, strict=True):
            if place is None:
                continue
            values = batch.column(place)
            if fitting is not None:
                values = values.take(pa.array(fitting, pa.int64()))
            bad = set[int]()
            for at, problem in _misfits_in(values, column, 0):
                bad.add(at)
                yield (at if fitting is None else fitting[at]), column.name, problem
            if bad:
                there = range(batch.num_rows) if fitting is None else fitting
                fitting = [position for at, position in enumerate(there) if at not in bad]


def _misfits_in(values: pa.Array, column: pa.Field, first: int) -> Iterator[tuple[int, str]]:
    """The positions of values that do not fit, found by halves, and the problems. ``first``: the
    position of the first value."""
    try:
        _cast(values, column)
    except DataMismatch as error:
        if len(values) == 1:
            yield first, str(error)
            return
        half = len(values) // 2
        yield from _misfits_in(values.slice(0, half), column, first)
        yield from _misfits_in(values.slice(half), column, first + half)


def _check_type(given: pa.DataType, wanted: pa.DataType, name: str) -> None:
    if types.is_null(given) or given == wanted:
        return
    if types.is_dictionary(given):
        _check_type(given.value_type, wanted, name)
    elif types.is_struct(given) and types.is_struct(wanted):
        there = {member.name: member for member in given}
        there_not = [member.name for member in given if wanted.get_field_index(member.name) < 0]
        if there_not:
            raise DataMismatch(f"column {name!r} has fields that the table's has not: {', '.join(there_not)}")
        for member in wanted:
            if member.name in there:
                _check_type(there[member.name].type, member.type, f"{name}.{member.name}")
            elif not member.nullable:
                raise DataMismatch(f"column '{name}.{member.name}' takes no nulls, and the data has no such field")
    elif is_list(given) and is_list(wanted):
        _check_type(given.value_type, wanted.value_type, f"{name}.element")
    elif types.is_map(given) and types.is_map(wanted):
        _check_type(given.key_type, wanted.key_type, f"{name}.key")
        _check_type(given.item_type, wanted.item_type, f"{name}.value")
    elif not _keeps_values(given, wanted):
        raise DataMismatch(f"column {name!r} is {given} in the data and {wanted} in the table: cast it")


def _keeps_values(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a cast keeps values, or fails for the value that it would change."""
    if types.is_string(wanted):
        return bool(types.is_large_string(given) or types.is_string_view(given))
    if types.is_binary(wanted):
        return any(
            is_kind(given) for is_kind in (types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
        )
    if types.is_integer(wanted):
        return bool(types.is_integer(given))
    if types.is_floating(wanted):
        return bool(types.is_integer(given) or (types.is_floating(given) and given.bit_width <= wanted.bit_width))
    if types.is_timestamp(wanted):
        return bool(types.is_timestamp(given)) and (given.tz is None) == (wanted.tz is None)
    if types.is_decimal(wanted):
        return bool(types.is_decimal(given) or types.is_integer(given))
    return bool(types.is_date(wanted) and types.is_date(given))


def _cast(values: pa.Array, column: pa.Field) -> pa.Array:
    try:
        cast = convert(values, column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
        raise DataMismatch(
            f"column {column.name!r} holds values that {column.type} does not: {e}; cast or round them"
        ) from None
    _check_nulls(cast, column, column.name)
    return cast


def _check_nulls(values: pa.Array, column: pa.Field, name: str) -> None:
    """Raises where a value is null that the table does not take null for; below a null, everything
    may be."""
    if not column.nullable and values.null_count:
        raise DataMismatch(f"column {name!r} takes no nulls, and the data has {values.null_count}")
    type = column.type
    if types.is_struct(type):
        there = values.drop_null() if values.null_count else values
        for member, inner in zip(type, there.flatten(), strict=True):
            _check_nulls(inner, member, f"{name}.{member.name}")
    elif types.is_list(type):
        _check_nulls(values.flatten(), type.value_field, f"{name}.element")
    elif types.is_map(type):
        there = values.drop_null() if values.null_count else values
        entries = slice(there.offsets[0].as_py(), there.offsets[len(there)].as_py()) if len(there) else slice(0, 0)
        _check_nulls(there.keys[entries], type.key_field, f"{name}.key")
        _check_nulls(there.items[entries], type.item_field, f"{name}.value")
