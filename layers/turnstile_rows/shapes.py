"""Values of a data file in the types of the table: columns and fields of structs are found by their
ids, where the table maps columns by id, or else by their names without regard to case, as Delta
finds them; one that a file lacks is null."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from turnstile_rows.schemas import FIELD_ID, is_list


def place_of(schema: Any, wanted: pa.Field) -> int | None:
    """The position of a column or field in a schema or struct type: the one with its id, if it has
    one; else the one of this very name, or that differs in case only. None where there is none."""
    id = _id_of(wanted)
    if id is not None:
        return next((at for at, field in enumerate(schema) if _id_of(field) == id), None)
    names = [field.name for field in schema]
    if wanted.name in names:
        return names.index(wanted.name)
    return next((at for at, other in enumerate(names) if other.lower() == wanted.name.lower()), None)


def _id_of(field: pa.Field) -> bytes | None:
    id: bytes | None = (field.metadata or {}).get(FIELD_ID)
    return id


def is_named_alike(stored: Any, wanted: pa.Field) -> bool:
    """Whether a file's schema has the column ``wanted``, and all that is in it, under these very
    names or not at all."""
    place = place_of(stored, wanted)
    if place is None:
        return _id_of(wanted) is None or wanted.name not in [field.name for field in stored]
    field = stored.field(place)
    return field.name == wanted.name and _is_type_named_alike(field.type, wanted.type)


def _is_type_named_alike(stored: pa.DataType, wanted: pa.DataType) -> bool:
    if types.is_struct(stored) and types.is_struct(wanted):
        return all(is_named_alike(stored, member) for member in wanted)
    if is_list(stored) and is_list(wanted):
        return _is_type_named_alike(stored.value_type, wanted.value_type)
    if types.is_map(stored) and types.is_map(wanted):
        return _is_type_named_alike(stored.key_type, wanted.key_type) and _is_type_named_alike(
            stored.item_type, wanted.item_type
        )
    return True


def shape(values: pa.Array, wanted: pa.DataType, *, by_position: bool = False) -> pa.Array:
    """The values in the type ``wanted``. Fields of structs are found by :func:`place_of`, or
    ``by_position`` where only their names differ. Raises :class:`pyarrow.ArrowInvalid` where a cast
    would lose something."""
    if values.type == wanted:
        return values
    if values.offset:  # a slice, of which Arrow makes no other list
        values = values.take(pa.array(range(len(values))))
    if types.is_struct(wanted) and types.is_struct(values.type):
        members = []
        for number, member in enumerate(wanted):
            place = number if by_position else place_of(values.type, member)
            if place is None:
                members.append(pa.nulls(len(values), member.type))
            else:
                members.append(shape(_field(values, place), member.type, by_position=by_position))
        return pa.StructArray.from_arrays(members, fields=list(wanted), mask=pc.is_null(values))
    if types.is_list(wanted) and types.is_list(values.type):
        inner = shape(values.values, wanted.value_type, by_position=by_position)
        return pa.ListArray.from_arrays(values.offsets, inner, type=wanted, mask=_mask(values))
    if types.is_map(wanted) and types.is_map(values.type):
        keys = shape(values.keys, wanted.key_type, by_position=by_position)
        items = shape(values.items, wanted.item_type, by_position=by_position)
        return pa.MapArray.from_arrays(values.offsets, keys, items, type=wanted, mask=_mask(values))
    return pc.cast(values, wanted, safe=True)


def _field(values: pa.StructArray, place: int) -> pa.Array:
    """A member's values, an offset of the struct's considered."""
    return pc.struct_field(values, [place])


def _mask(values: pa.Array) -> pa.Array | None:
    return pc.is_null(values) if values.null_count else None
