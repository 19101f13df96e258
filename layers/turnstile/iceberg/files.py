"""Metadata files: written once under a name of their own, read through a cache that never needs invalidation."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from typing import Final

from turnstile.iceberg.core import metadata
from turnstile.iceberg.core import views as view_metadata
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.views import ViewMetadata
from turnstile.store.cache import Lru
from turnstile.store.core.errors import InvalidRequest, NotFound, StorageFault, TooLarge
from turnstile.store.core.locations import normalise
from turnstile.store.page_budget import escaped_size, response_size
from turnstile.store.ports import Ids, LogStorage, Storages

MAX_BYTES: Final = 5_500_000
"""Bytes of a metadata file, counted as an answer has them that carries it (``store.page_budget``): about 4.5 MB of a usual
one. A commit that makes it smaller is accepted all the same."""

_CACHE_BYTES: Final = 96 * 1024 * 1024
_DECODED: Final = 6
"""How many times its JSON a decoded file takes."""

_NUMBER: Final = re.compile(r"(\d{1,9})-.*|v(\d{1,9})\..*")


class FileMissing(StorageFault):
    """Storage answered that there is no such file."""


class MetadataFiles:
    """Reads and writes metadata files. One per sandbox; safe for threads."""

    def __init__(self, storages: Storages, ids: Ids) -> None:
        self._storages, self._ids = storages, ids
        self._cache: Lru[str, tuple[TableMetadata | ViewMetadata, int]] = Lru(_CACHE_BYTES)

    def table(self, path: str) -> TableMetadata:
        """The table metadata in the file: one read, none when cached.

        Raises:
            StorageFault: it is not there, or cannot be read.
            InvalidRequest: it is something else.
        """
        found = self._read(path, metadata.parse)
        assert isinstance(found, TableMetadata)
        return found

    def view(self, path: str) -> ViewMetadata:
        """The view metadata in the file; as ``table``."""
        found = self._read(path, view_metadata.parse)
        assert isinstance(found, ViewMetadata)
        return found

    def foreign(self, path: str) -> tuple[str, TableMetadata]:
        """The normalised path and the content of a metadata file that a request names.

        Raises:
            NotFound: there is no such file.
            InvalidRequest: not a path, or not table metadata.
            TooLarge: over ``MAX_BYTES``.
        """
        path = normalise(path)
        if path.count("/") < 3:
            raise InvalidRequest(f"{path} is no file", field="metadata-location")
        storage, name = self._at(path)
        found = storage.read(name, MAX_BYTES + 1)
        if found is None:
            raise NotFound("metadata file", path, field="metadata-location")
        raw = found[0]
        if len(raw) <= MAX_BYTES and name.endswith((".gz.metadata.json", ".metadata.json.gz")):
            raw = _unpacked(raw)
        if len(raw) > MAX_BYTES:
            raise _too_large(len(raw))
        parsed = metadata.parse(raw)
        size = response_size(metadata.document(parsed))  # perhaps it was written with other escapes than ours
        if size > MAX_BYTES:
            raise _too_large(size)
        self._cache.put(path, (parsed, size), len(raw) * _DECODED)
        return path, parsed

    def write(self, location: str, made: TableMetadata | ViewMetadata, previous: str = "") -> str:
        """Store ``made`` below ``location`` and return the file's full path. Nothing names it yet.

        Args:
            previous: path of the file that it replaces.

        Raises:
            TooLarge: over ``MAX_BYTES``, and not smaller than what it replaces.
            StorageFault: storage did not answer; perhaps there is a file now that nothing names.
        """
        raw = self.fitting(made, previous)
        name = f"metadata/{_number(previous) + 1:05d}-{self._ids.uuid()}.metadata.json"
        if not self._storages.open(location).put_if_absent(name, raw):
            raise StorageFault(f"{name} exists", remedy="send the same request again")
        path = f"{location}/{name}"
        self._cache.put(path, (made, escaped_size(raw)), len(raw) * _DECODED)
        return path

    def fitting(self, made: TableMetadata | ViewMetadata, previous: str = "") -> bytes:
        """The bytes of a file; nothing is written. Raises TooLarge as ``write``."""
        raw = metadata.encode(made) if isinstance(made, TableMetadata) else view_metadata.encode(made)
        size = escaped_size(raw)
        if size > MAX_BYTES and size >= self._size(previous):
            raise _too_large(size)
        return raw

    def delete(self, path: str) -> None:
        """Remove a file that nothing names and nothing will."""
        storage, name = self._at(path)
        storage.delete(name)

    def _read(self, path: str, parse: Callable[[bytes], TableMetadata | ViewMetadata]) -> TableMetadata | ViewMetadata:
        known = self._cache.get(path)
        if known is not None:
            return known[0]
        storage, name = self._at(path)
        found = storage.read(name)
        if found is None:
            raise FileMissing(f"metadata file {path} is missing", remedy="restore it, or drop the table")
        raw = _unpacked(found[0]) if found[0][:2] == b"\x1f\x8b" else found[0]
        parsed = parse(raw)
        self._cache.put(path, (parsed, escaped_size(raw)), len(raw) * _DECODED)
        return parsed

    def _size(self, path: str) -> int:
        """What a file that is cached takes of an answer; 0 when it is not."""
        known = self._cache.get(path) if path else None
        return known[1] if known is not None else 0

    def _at(self, path: str) -> tuple[LogStorage, str]:
        folder, _, name = path.rpartition("/")
        return self._storages.open(folder), name


def _number(path: str) -> int:
    """The sequence number in a file's name, as Iceberg's writers count them; -1 before the first."""
    found = _NUMBER.fullmatch(path.rpartition("/")[2])
    return int(found[1] or found[2]) if found else -1


def _unpacked(raw: bytes) -> bytes:
    """What gzip packed, at most a little more than ``MAX_BYTES`` of it."""
    try:
        return zlib.decompressobj(wbits=31).decompress(raw, MAX_BYTES + 1)
    except zlib.error:
        raise InvalidRequest("the metadata file is not what gzip wrote", field="metadata-location") from None


def _too_large(size: int) -> TooLarge:
    return TooLarge(
        f"the metadata would take {size} bytes of an answer, and the limit is {MAX_BYTES}",
        field="updates",
        remedy="expire snapshots, or shorten properties and comments",
        limit=MAX_BYTES,
        size=size,
    )
