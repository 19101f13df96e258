"""Avro object container files, as far as manifest lists and manifests need them: read whole or by
block, written whole.

Records are keyed by the ``field-id`` in Iceberg's Avro schemas: names of fields have changed over
time, ids have not. Files come from clients, so no length and no count in them is trusted;
``fastavro`` limits neither.

Source: Avro specification 1.11, "Object Container Files" and "Binary Encoding".
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import msgspec

from turnstile.store.core.errors import InvalidRequest

MAGIC: Final = b"Obj\x01"
MAX_CONTENT: Final = 32 * 1024 * 1024
"""Bytes of a file after decompression."""

MAX_VALUES: Final = 1_000_000
"""Values of a file, with records and their members; null and a record without fields take no byte
at all."""

MAX_STREAMED: Final = 1024 * 1024 * 1024
"""Bytes of a file after decompression that is read by ``select``."""

_VALUES_PER_BYTE: Final = 16
"""Values that ``select`` takes from a block for each of its bytes: more than the schemas of
manifests can make."""

Record = dict[int, Any]


class Encoded(bytes):
    """A member of a record that ``write`` takes as it is: bytes that are a value of its type
    already."""


class Unreadable(InvalidRequest):
    """Not an Avro file, or one with content that Iceberg's files do not have."""

    def __init__(self, why: str) -> None:
        super().__init__(f"not a readable Avro file: {why}", field="updates")


def read(raw: bytes) -> list[Record]:
    """Returns the records of a file; raises Unreadable if it is damaged, of an unknown codec, or
    too large."""
    with _raise_unreadable():
        return [record for records in _blocks(raw, MAX_CONTENT, MAX_VALUES, _value) for record in records]


def select(raw: bytes, wanted: Container[int]) -> Iterator[Record]:
    """Yields the records of a file with their members ``wanted`` only, also within records that are
    wanted; holds one block of it in memory. Raises Unreadable as ``read``, perhaps after some
    records.
    """
    select_some = partial(_select, wanted=wanted)
    with _raise_unreadable():
        for records in _blocks(raw, MAX_STREAMED, None, select_some):
            yield from records


class Block(msgspec.Struct, frozen=True):
    """Records of a file, encoded: how many, and their bytes without compression."""

    count: int
    content: bytes


def blocks(raw: bytes) -> tuple[Any, list[Block]]:
    """Returns the schema of a file, and its blocks, no record decoded; raises Unreadable as
    ``read``."""
    found: list[Block] = []
    with _raise_unreadable():
        source = _Source(raw)
        if source.take(4) != MAGIC:
            raise Unreadable("no magic number")
        members = _header(source)
        sync = source.take(16)
        bytes_left = MAX_CONTENT
        while not source.is_at_end:
            count = source.long()
            content = _unpack(source.take(source.long()), members.get("avro.codec", b"null"), bytes_left)
            bytes_left -= len(content)
            if not 0 <= count <= len(content) or source.take(16) != sync:
                raise Unreadable("a block does not end where it says")
            found.append(Block(count, content))
        return msgspec.json.decode(members["avro.schema"]), found


def decode(block: Block, schema: Any) -> list[Record]:
    """Returns the records of ``block``, all of its bytes; raises Unreadable as ``read``."""
    with _raise_unreadable():
        source = _Source(block.content, MAX_VALUES)
        records = [_value(source, schema) for _ in range(block.count)]
        if not source.is_at_end:
            raise Unreadable("a block does not end where it says")
        return records


def header(raw: bytes) -> dict[str, bytes]:
    """Returns the metadata of a file, its schema among them (``avro.schema``). Raises Unreadable as
    ``read``."""
    with _raise_unreadable():
        source = _Source(raw)
        if source.take(4) != MAGIC:
            raise Unreadable("no magic number")
        return _header(source)


def with_content(raw: bytes, wanted: Container[int], member: int) -> Iterator[tuple[Record, Encoded]]:
    """Yields the records of a file as ``select`` does, each with the bytes of its ``member``, which
    ``write`` takes where the schema is the same. Raises Unreadable as ``read``, perhaps after some
    records.
    """
    decode = partial(_selected_with_content, wanted=wanted, member=member)
    with _raise_unreadable():
        for records in _blocks(raw, MAX_STREAMED, None, decode):
            yield from records


@contextmanager
def _raise_unreadable() -> Iterator[None]:
    """Raises Unreadable for other exceptions that invalid bytes cause."""
    try:
        yield
    except (IndexError, KeyError, TypeError, AttributeError, UnicodeError, RecursionError, struct.error) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from None
    except (zlib.error, msgspec.DecodeError) as error:
        raise Unreadable(str(error)) from None


def _blocks(
    raw: bytes, most_bytes: int, most_values: int | None, decode: Callable[[_Source, Any], Any]
) -> Iterator[Iterator[Any]]:
    """Yields the records of each block, to be taken before the next. ``most_values`` None: as many
    as the bytes may make."""
    source = _Source(raw)
    if source.take(4) != MAGIC:
        raise Unreadable("no magic number")
    header = _header(source)
    schema: Any = msgspec.json.decode(header["avro.schema"])
    codec = header.get("avro.codec", b"null")
    sync = source.take(16)
    bytes_left = most_bytes
    values_left = most_values
    while not source.is_at_end:
        count = source.long()
        content = _unpack(source.take(source.long()), codec, min(bytes_left, MAX_CONTENT))
        bytes_left -= len(content)
        block = _Source(content, _VALUES_PER_BYTE * (len(content) + 1) if values_left is None else values_left)
        if not 0 <= count <= len(content) + 1:
            raise Unreadable("a block of more records than bytes")
        yield (decode(block, schema) for _ in range(count))
        values_left = None if values_left is None else block.values_left
        if not block.is_at_end or source.take(16) != sync:
            raise Unreadable("a block does not end where it says")


def _header(source: _Source) -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    for _ in _items(source):
        name = source.take(source.long()).decode()
        members[name] = source.take(source.long())
    return members


def _items(source: _Source) -> Iterator[int]:
    """Yields before each item of an array or map; the caller takes the item's bytes."""
    while count := source.long():
        if count < 0:
            source.long()  # bytes of the block, for readers that skip it
        yield from range(abs(count))


def _unpack(block: bytes, codec: bytes, limit: int) -> bytes:
    if codec == b"deflate":
        block = zlib.decompressobj(wbits=-15).decompress(block, limit + 1)
    elif codec != b"null":
        raise Unreadable(f"codec {codec.decode(errors='replace')[:20]}")
    if len(block) > limit:
        raise Unreadable(f"more than {MAX_CONTENT} bytes")
    return block


class _Source:
    """Bytes, read from the front; at most ``values_left`` values are decoded from them."""

    def __init__(self, raw: bytes, values_left: int = 0) -> None:
        self._raw = raw
        self._at = 0
        self.values_left = values_left

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._raw)

    @property
    def at(self) -> int:
        return self._at

    def since(self, start: int) -> bytes:
        return self._raw[start : self._at]

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self._raw) - self._at:
            raise Unreadable("it ends too early")
        self._at += count
        return self._raw[self._at - count : self._at]

    def long(self) -> int:
        value = 0
        shift = 0
        while True:
            byte = self._raw[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > 63:
                raise Unreadable("a number of more than 64 bits")


def _value(source: _Source, schema: Any, *, keep: bool = True) -> Any:  # noqa: C901 - one case for each type
    """A value; with ``keep`` False it is skipped, and the result is meaningless."""
    if isinstance(schema, list):
        branch = source.long()
        if not 0 <= branch < len(schema):
            raise Unreadable("a union has no such branch")
        return _value(source, schema[branch], keep=keep)
    source.values_left -= 1
    if source.values_left < 0:
        raise Unreadable(f"more than {MAX_VALUES} values")
    kind = schema["type"] if isinstance(schema, dict) else schema
    match kind:
        case "null":
            return None
        case "boolean":
            return source.take(1) == b"\x01"
        case "int" | "long":
            return source.long()
        case "float" | "double":
            form = "<f" if kind == "float" else "<d"
            return struct.unpack(form, source.take(struct.calcsize(form)))[0]
        case "bytes":
            return source.take(source.long())
        case "string":
            return source.take(source.long()).decode()
        case "fixed":
            return source.take(schema["size"])
        case "record":
            if not keep:
                for field in schema["fields"]:
                    _value(source, field["type"], keep=False)
                return None
            return {field.get("field-id", field["name"]): _value(source, field["type"]) for field in schema["fields"]}
        case "array":
            values = (_value(source, schema["items"], keep=keep) for _ in _items(source))
            return list(values) if keep else deque(values, maxlen=0)
        case "map":
            members = [{"name": "key", "type": "string"}, {"name": "value", "type": schema["values"]}]
            entry = {"type": "record", "fields": members}
            values = (_value(source, entry, keep=keep) for _ in _items(source))
            return list(values) if keep else deque(values, maxlen=0)
        case dict() | list():
            return _value(source, kind, keep=keep)
        case _:
            raise Unreadable(f"type {str(kind)[:40]}")


def _select(source: _Source, schema: Any, wanted: Container[int]) -> Record:
    """A record, with its members ``wanted``."""
    record: Record = {}
    for field in schema["fields"]:
        id = field.get("field-id", field["name"])
        type = field["type"]
        if id not in wanted:
            _value(source, type, keep=False)
        elif isinstance(type, dict) and type["type"] == "record":
            record[id] = _select(source, type, wanted)
        else:
            record[id] = _value(source, type)
    return record


def _selected_with_content(source: _Source, schema: Any, wanted: Container[int], member: int) -> tuple[Record, Encoded]:
    record: Record = {}
    content = None
    for field in schema["fields"]:
        start = source.at
        record |= _select(source, {"fields": [field]}, wanted)
        if field.get("field-id") == member:
            content = Encoded(source.since(start))
    if content is None:
        raise Unreadable(f"its records have no member {member}")
    return record, content


def write(records: Sequence[Record], schema: Mapping[str, Any], header: Mapping[str, str], sync: bytes) -> bytes:
    """Returns a file of ``records`` in one deflated block, ended by the 16 bytes ``sync``.
    Members that a record lacks are null; ``header`` has further members of the file's metadata."""
    return file([pack(encode(records, schema))], schema, header, sync)


def encode(records: Sequence[Record], schema: Mapping[str, Any]) -> Block:
    """Returns ``records`` as a block; members that a record lacks are null."""
    return Block(len(records), b"".join(_encode(record, schema) for record in records))


def pack(block: Block) -> bytes:
    """Returns ``block`` as it is in a file, deflated, without the mark of its end."""
    packer = zlib.compressobj(wbits=-15)
    content = packer.compress(block.content) + packer.flush()
    return _long(block.count) + _bytes(content)


def file(blocks: Sequence[bytes], schema: Mapping[str, Any], header: Mapping[str, str], sync: bytes) -> bytes:
    """Returns the file of ``blocks``, each as ``pack`` returns it; the others as in ``write``."""
    members = {**header, "avro.schema": msgspec.json.encode(schema).decode(), "avro.codec": "deflate"}
    content = bytearray(MAGIC + _long(len(members)))
    for name, value in members.items():
        content += _bytes(name.encode()) + _bytes(value.encode())
    content += _long(0) + sync
    for block in blocks:
        content += block + sync
    return bytes(content)


def _encode(value: Any, schema: Any) -> bytes:
    if isinstance(value, Encoded):
        return value
    if isinstance(schema, list):  # always ["null", something] here
        return _long(0) if value is None else _long(1) + _encode(value, schema[1])
    kind = schema["type"] if isinstance(schema, Mapping) else schema
    match kind:
        case "record":
            return b"".join(_encode(value.get(field["field-id"]), field["type"]) for field in schema["fields"])
        case "array":
            items = b"".join(_encode(item, schema["items"]) for item in value)
            return (_long(len(value)) + items if value else b"") + _long(0)
        case "boolean":
            return b"\x01" if value else b"\x00"
        case "int" | "long":
            return _long(value)
        case "string":
            return _bytes(value.encode())
        case _:
            return _bytes(value)


def _long(value: int) -> bytes:
    number = ((value << 1) ^ (value >> 63)) & 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value
