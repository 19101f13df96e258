"""Manifest lists of format version 2 as encoded records. An append adds its entries without
decoding or encoding the entries of the list before it. Pure.

Another writer encodes the same entries to the same bytes where its Avro schema has the same members
in the same order. The entries of the parent's list are then compared as bytes, and not decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from turnstile.iceberg.core.files import avro, manifests

MOST_BLOCKS: Final = 16
"""Blocks of a file that is written. A reader takes each on its own, and each has some bytes more
than it would have as a part of another."""


class Unlisted(avro.Unreadable):
    """An entry has members that ``manifests.SCHEMA`` lacks, or lacks one of its own."""


class ManifestList(msgspec.Struct, frozen=True):
    """Entries of a manifest list: ``block``, encoded by ``manifests.SCHEMA``, and the same in parts
    that are packed already, for a file."""

    block: avro.Block
    parts: tuple[bytes, ...]

    def entries(self) -> list[avro.Record]:
        """The entries, decoded."""
        return avro.decode(self.block, manifests.SCHEMA)

    def after(self, entries: Sequence[avro.Record]) -> ManifestList:
        """Returns the list with ``entries`` in front of those that are there."""
        added = avro.encode(entries, manifests.SCHEMA)
        block = avro.Block(added.count + self.block.count, added.content + self.block.content)
        if len(self.parts) >= MOST_BLOCKS:
            return of_block(block)
        return ManifestList(block, (avro.pack(added), *self.parts))

    def file(self, header: Mapping[str, str], sync: bytes) -> bytes:
        """Returns the bytes of the file; arguments as of ``avro.file``."""
        return avro.file(self.parts, manifests.SCHEMA, header, sync)


def of_block(block: avro.Block) -> ManifestList:
    """Returns the list of entries that are encoded by ``manifests.SCHEMA``."""
    return ManifestList(block, (avro.pack(block),) if block.count else ())


def parse(raw: bytes) -> ManifestList:
    """Returns the list in a file, every entry of which was looked at; raises Unreadable."""
    schema, blocks = avro.blocks(raw)
    entries = [entry for block in blocks for entry in avro.decode(block, schema)]
    check(entries)
    if _form(schema) == _FORM:
        return of_block(_join(blocks))
    return of_block(avro.encode(entries, manifests.SCHEMA))


def new_entries(raw: bytes, before: ManifestList | None) -> list[avro.Record] | None:
    """Returns the entries in front of those of ``before`` in a file which has them all, as bytes,
    in the same order; None where it has not, perhaps because its writer encodes them otherwise.
    Raises Unreadable.
    """
    schema, blocks = avro.blocks(raw)
    if _form(schema) != _FORM:
        return None
    whole = _join(blocks)
    known = avro.Block(0, b"") if before is None else before.block
    if not whole.content.endswith(known.content) or whole.count < known.count:
        return None
    front = avro.Block(whole.count - known.count, whole.content[: len(whole.content) - len(known.content)])
    entries = avro.decode(front, manifests.SCHEMA)
    check(entries)
    return entries


def check(entries: Iterable[avro.Record]) -> None:
    """Raises Unlisted unless ``entries`` have the members of ``manifests.SCHEMA`` and no other."""
    for entry in entries:
        if not set(entry) <= manifests.KNOWN or any(entry.get(id) is None for id in manifests.REQUIRED):
            raise Unlisted("a manifest list has entries with other members than those of format 2")


def _join(blocks: Sequence[avro.Block]) -> avro.Block:
    return avro.Block(sum(block.count for block in blocks), b"".join(block.content for block in blocks))


def _form(schema: Any) -> Any:
    """The parts of an Avro schema that say how values are encoded, and the ids of the members."""
    if isinstance(schema, list):
        return tuple(_form(branch) for branch in schema)
    if not isinstance(schema, dict):
        return schema
    match schema["type"]:
        case "record":
            return tuple((field.get("field-id"), _form(field["type"])) for field in schema["fields"])
        case "array":
            return "array", _form(schema["items"])
        case str() as name:
            return name, schema.get("size"), _form(schema.get("values"))
        case other:
            return _form(other)


_FORM: Final = _form(manifests.SCHEMA)
