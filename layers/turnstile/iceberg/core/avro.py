"""Avro object container files, as far as manifest lists and manifests need them: read whole, written whole.

Source: Avro specification 1.11, "Object Container Files" and "Binary Encoding". Records come out keyed by the
``field-id`` that Iceberg puts into its Avro schemas, since names of fields have changed over time and ids have not.
Files come from clients, so nothing here trusts a length.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from turnstile.store.core.errors import InvalidRequest

MAGIC: Final = b"Obj\x01"
MAX_CONTENT: Final = 32 * 1024 * 1024
"""Bytes of a file after decompression."""

Record = dict[int, Any]


class Unreadable(InvalidRequest):
    """Not an Avro file, or one with something that Iceberg's files do not hold."""

    def __init__(self, why: str) -> None:
        super().__init__(f"not a readable Avro file: {why}", field="updates")


def read(raw: bytes) -> list[Record]:
    """The records of a file.

    Raises:
        Unreadable: damaged, of an unknown codec, or too large.
    """
    try:
        return _read(raw)
    except (IndexError, KeyError, TypeError, AttributeError, UnicodeError, RecursionError, struct.error) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from None
    except (zlib.error, msgspec.DecodeError) as error:
        raise Unreadable(str(error)) from None


def _read(raw: bytes) -> list[Record]:
    source = _Source(raw)
    if source.take(4) != MAGIC:
        raise Unreadable("no magic number")
    about = _metadata(source)
    schema: Any = msgspec.json.decode(about["avro.schema"])
    codec, sync = about.get("avro.codec", b"null"), source.take(16)
    found: list[Record] = []
    room = MAX_CONTENT
    while not source.done:
        count = source.long()
        block = _unpacked(source.take(source.long()), codec, room)
        room -= len(block)
        inside = _Source(block)
        if not 0 <= count <= len(block) + 1:
            raise Unreadable("a block of more records than bytes")
        found += [_value(inside, schema) for _ in range(count)]
        if not inside.done or source.take(16) != sync:
            raise Unreadable("a block does not end where it says")
    return found


def _metadata(source: _Source) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    while count := source.long():
        if count < 0:
            source.long()  # bytes of the block, for readers that skip it
        for _ in range(abs(count)):
            name = source.take(source.long()).decode()
            found[name] = source.take(source.long())
    return found


def _unpacked(block: bytes, codec: bytes, room: int) -> bytes:
    if codec == b"deflate":
        unpacker = zlib.decompressobj(wbits=-15)
        block = unpacker.decompress(block, room + 1)
    elif codec != b"null":
        raise Unreadable(f"codec {codec.decode(errors='replace')[:20]}")
    if len(block) > room:
        raise Unreadable(f"more than {MAX_CONTENT} bytes")
    return block


class _Source:
    """Bytes, read from the front."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0

    @property
    def done(self) -> bool:
        return self._at == len(self._raw)

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self._raw) - self._at:
            raise Unreadable("it ends too early")
        self._at += count
        return self._raw[self._at - count : self._at]

    def long(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self._raw[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > 63:
                raise Unreadable("a number of more than 64 bits")


def _value(source: _Source, schema: Any) -> Any:
    if isinstance(schema, list):
        return _value(source, schema[_branch(source.long(), schema)])
    kind = schema["type"] if isinstance(schema, dict) else schema
    match kind:
        case "null":
            return None
        case "boolean":
            return source.take(1) == b"\x01"
        case "int" | "long":
            return source.long()
        case "float" | "double":
            size = 4 if kind == "float" else 8
            return struct.unpack("<f" if kind == "float" else "<d", source.take(size))[0]
        case "bytes":
            return source.take(source.long())
        case "string":
            return source.take(source.long()).decode()
        case "fixed":
            return source.take(schema["size"])
        case "record":
            return {field.get("field-id", field["name"]): _value(source, field["type"]) for field in schema["fields"]}
        case "array":
            return _array(source, schema["items"])
        case "map":
            return _array(source, {"type": "record", "fields": [
                {"name": "key", "type": "string"}, {"name": "value", "type": schema["values"]}]})  # fmt: skip
        case dict() | list():
            return _value(source, kind)
        case _:
            raise Unreadable(f"type {str(kind)[:40]}")


def _branch(index: int, union: Sequence[Any]) -> int:
    if not 0 <= index < len(union):
        raise Unreadable("a union has no such branch")
    return index


def _array(source: _Source, items: Any) -> list[Any]:
    found: list[Any] = []
    while count := source.long():
        if count < 0:
            source.long()
        for _ in range(abs(count)):
            if source.done and items != "null":
                raise Unreadable("it ends too early")
            found.append(_value(source, items))
    return found


def write(records: Sequence[Record], schema: Mapping[str, Any], about: Mapping[str, str], sync: bytes) -> bytes:
    """A file of ``records``, one deflated block.

    Args:
        schema: an Avro record schema with field ids; members that a record lacks are null.
        about: further members of the file's metadata.
        sync: 16 bytes that mark the end of blocks.
    """
    said = {**about, "avro.schema": msgspec.json.encode(schema).decode(), "avro.codec": "deflate"}
    made = bytearray(MAGIC + _long(len(said)))
    for name, value in said.items():
        made += _bytes(name.encode()) + _bytes(value.encode())
    made += _long(0) + sync
    block = b"".join(_encoded(record, schema) for record in records)
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(block) + packer.flush()
    made += _long(len(records)) + _bytes(packed) + sync
    return bytes(made)


def _encoded(value: Any, schema: Any) -> bytes:
    if isinstance(schema, list):  # always ["null", something] here
        return _long(0) if value is None else _long(1) + _encoded(value, schema[1])
    kind = schema["type"] if isinstance(schema, Mapping) else schema
    match kind:
        case "record":
            return b"".join(_encoded(value.get(field["field-id"]), field["type"]) for field in schema["fields"])
        case "array":
            items = b"".join(_encoded(one, schema["items"]) for one in value)
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
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value


# -- manifests --------------------------------------------------------------------------------------------------------
# Manifest lists of format version 2: the fields that are looked at, and the schema in which they are written.


PATH: Final = 500
SPEC_ID: Final = 502
CONTENT: Final = 517
SEQUENCE: Final = 515
MIN_SEQUENCE: Final = 516
ADDED_SNAPSHOT: Final = 503
EXISTING_FILES: Final = 505
DELETED_FILES: Final = 506
KEY_METADATA: Final = 519

STATUS: Final = 0
ENTRY_SNAPSHOT: Final = 1
ENTRY_SEQUENCE: Final = 3
ENTRY_FILE_SEQUENCE: Final = 4
"""Fields of a manifest's entries."""

ADDED: Final = 1
"""The status of an entry whose file the manifest's own snapshot added."""


def _field(id: int, name: str, type: str) -> dict[str, Any]:
    return {"name": name, "type": type, "field-id": id}


def _optional(id: int, name: str, type: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", type], "default": None, "field-id": id}


SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        _field(PATH, "manifest_path", "string"),
        _field(501, "manifest_length", "long"),
        _field(SPEC_ID, "partition_spec_id", "int"),
        _field(CONTENT, "content", "int"),
        _field(SEQUENCE, "sequence_number", "long"),
        _field(MIN_SEQUENCE, "min_sequence_number", "long"),
        _field(ADDED_SNAPSHOT, "added_snapshot_id", "long"),
        _field(504, "added_files_count", "int"),
        _field(EXISTING_FILES, "existing_files_count", "int"),
        _field(DELETED_FILES, "deleted_files_count", "int"),
        _field(512, "added_rows_count", "long"),
        _field(513, "existing_rows_count", "long"),
        _field(514, "deleted_rows_count", "long"),
        _optional(
            507,
            "partitions",
            {
                "type": "array",
                "element-id": 508,
                "items": {
                    "type": "record",
                    "name": "r508",
                    "fields": [
                        _field(509, "contains_null", "boolean"),
                        _optional(518, "contains_nan", "boolean"),
                        _optional(510, "lower_bound", "bytes"),
                        _optional(511, "upper_bound", "bytes"),
                    ],
                },
            },
        ),
        _optional(KEY_METADATA, "key_metadata", "bytes"),
    ],
}
"""Table specification, "Manifest Lists", version 2."""

REQUIRED: Final = frozenset(field["field-id"] for field in SCHEMA["fields"] if not isinstance(field["type"], list))
KNOWN: Final = frozenset(field["field-id"] for field in SCHEMA["fields"])
