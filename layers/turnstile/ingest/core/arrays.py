"""How much memory the arrays of a body take when they are converted. Arrow's layouts let a few
bytes stand for many: dictionaries and views name the same value again and again, and buffers may be
compressed."""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from turnstile.ingest.core.errors import InvalidRows

_U16: Final = struct.Struct("<H")
_U32: Final = struct.Struct("<I")
_I32: Final = struct.Struct("<i")
_DATA: Final = 1
_HEADER: Final = 2
_COMPRESSION: Final = 3
"""Positions of members in the tables ``DictionaryBatch``, ``Message`` and ``RecordBatch``. Source:
Arrow columnar format, "Encapsulated message format"; its ``Message.fbs``."""


def expanded_bytes(values: pa.Array) -> int:
    """Returns at least as many bytes as the values take once each is written for itself. Raises
    InvalidRows for lists that name the same elements again and again."""
    type = values.type
    if types.is_null(type):
        return 8 * len(values)
    if types.is_dictionary(type):
        sizes = _sizes(values.dictionary)
        most = pc.sum(sizes.take(values.indices.filter(values.is_valid()))).as_py()
        return int(most or 0) + 8 * len(values)
    if types.is_struct(type):
        return len(values) + sum(expanded_bytes(inner) for inner in values.flatten())
    if types.is_list_view(type) or types.is_large_list_view(type):
        if int(pc.sum(pc.list_value_length(values)).as_py() or 0) > len(values.values):
            raise InvalidRows("the body has lists that share their elements", remedy="send lists of their own")
        return 8 * len(values) + expanded_bytes(values.flatten())
    if types.is_list(type) or types.is_large_list(type) or types.is_fixed_size_list(type):
        return 8 * len(values) + expanded_bytes(values.flatten())
    if types.is_map(type):
        return 8 * len(values) + expanded_bytes(values.keys) + expanded_bytes(values.items)
    if types.is_string_view(type) or types.is_binary_view(type):
        return int(pc.sum(_sizes(values)).as_py() or 0)
    return int(values.nbytes)


def _sizes(values: pa.Array) -> pa.Array:
    """The bytes of each value, which is of no nested type."""
    type = values.type
    if types.is_string_view(type) or types.is_binary_view(type):
        return _view_sizes(values)
    if types.is_string(type) or types.is_large_string(type) or types.is_binary(type) or types.is_large_binary(type):
        return pc.add(pc.fill_null(pc.binary_length(values), 0).cast(pa.int64()), 8)
    if types.is_nested(type) or types.is_dictionary(type):
        raise InvalidRows(f"the body has a dictionary of {type}", remedy="send the values without a dictionary")
    width = type.byte_width if types.is_fixed_size_binary(type) else 16
    return pa.array([width] * len(values), pa.int64())


def _view_sizes(values: pa.Array) -> pa.Array:
    """The bytes of each value of a view: the first four bytes of its sixteen."""
    views = values.buffers()[1]
    at = 16 * values.offset
    lengths = [_I32.unpack_from(views, at + 16 * number)[0] + 8 for number in range(len(values))]
    return pa.array(lengths, pa.int64())


def require_plain_buffers(stream: bytes) -> None:
    """Raises InvalidRows for a stream of Arrow with compressed buffers, which have any size once
    they are decompressed; ArrowInvalid for one that is damaged."""
    reader = pa.ipc.MessageReader.open_stream(pa.BufferReader(stream))
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        try:
            is_compressed = _is_compressed(bytes(message.metadata), message.type)
        except struct.error as error:
            raise InvalidRows(f"the body is no Arrow stream: {error}", field="body") from None
        if is_compressed:
            remedy = "write it without compression, and compress the whole body (Content-Encoding)"
            raise InvalidRows("the body is an Arrow stream with compressed buffers", field="body", remedy=remedy)


def _is_compressed(metadata: bytes, kind: str) -> bool:
    if kind not in ("record batch", "dictionary"):
        return False
    table = _member(metadata, _U32.unpack_from(metadata)[0], _HEADER)
    if table and kind == "dictionary":
        table = _member(metadata, table, _DATA)
    return bool(table and _member(metadata, table, _COMPRESSION))


def _member(metadata: bytes, table: int, number: int) -> int:
    """The position of a table that is a member of another; 0 where it is not there."""
    vtable = table - _I32.unpack_from(metadata, table)[0]
    slot = 4 + 2 * number
    if slot >= _U16.unpack_from(metadata, vtable)[0]:
        return 0
    offset = _U16.unpack_from(metadata, vtable + slot)[0]
    return table + offset + _U32.unpack_from(metadata, table + offset)[0] if offset else 0
