"""Values of any of Arrow's layouts in the type of a table's column. A cast of Arrow's own has gaps:
of dictionaries of views and of views of lists it makes nothing, or something else."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from turnstile_rows.schemas import is_list


def convert(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The values in the type ``wanted``, which ``core.conforming`` has found to hold them. Raises
    :class:`pyarrow.ArrowInvalid` or :class:`pyarrow.ArrowNotImplementedError` where a cast would
    lose something.
    """
    given = values.type
    if given == wanted:
        return values
    if types.is_null(given):
        return pa.nulls(len(values), wanted)
    if types.is_dictionary(given):
        return convert(values.dictionary, wanted).take(values.indices)
    if types.is_struct(wanted):
        parts = dict(zip([member.name for member in given], values.flatten(), strict=True))
        members = [
            convert(parts[member.name], member.type) if member.name in parts else pa.nulls(len(values), member.type)
            for member in wanted
        ]
        return pa.StructArray.from_arrays(members, fields=list(wanted), mask=pc.is_null(values))
    if is_list(given):
        lengths = pc.fill_null(pc.list_value_length(values), 0).cast(pa.int64())
        return pa.ListArray.from_arrays(
            _offsets(lengths), convert(values.flatten(), wanted.value_type), type=wanted, mask=pc.is_null(values)
        )
    if types.is_map(given):
        first = values.offsets[0].as_py()
        last = values.offsets[len(values)].as_py()
        keys = convert(values.keys.slice(first, last - first), wanted.key_type)
        items = convert(values.items.slice(first, last - first), wanted.item_type)
        offsets = pc.subtract(values.offsets, pa.scalar(first, pa.int32()))
        return pa.MapArray.from_arrays(offsets, keys, items, type=wanted, mask=pc.is_null(values))
    if types.is_integer(given) and types.is_decimal(wanted):
        # Arrow takes no integers for a decimal that their type may not fit into.
        return pc.cast(pc.cast(values, pa.decimal256(76 - wanted.scale, 0)), wanted, safe=True)
    return pc.cast(values, wanted, safe=True)


def _offsets(lengths: pa.Array) -> pa.Array:
    """Where each list begins, and where the last one ends."""
    ends = pc.cumulative_sum(lengths).cast(pa.int32())
    return pa.concat_arrays([pa.array([0], pa.int32()), ends])
