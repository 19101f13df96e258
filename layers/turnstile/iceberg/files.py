"""Metadata files: each is written once under a new name, so that the cache stays valid."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from typing import Final

import msgspec

from turnstile.iceberg.core import metadata
from turnstile.iceberg.core import views as view_metadata
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.views import ViewMetadata
from turnstile.store.cache import Lru
from turnstile.store.core.errors import InvalidRequest, NotFound, StorageFault, TooLarge
from turnstile.store.core.limits import escaped_size, response_size
from turnstile.store.core.locations import normalise
from turnstile.store.ports import Ids, LogStorage, Storages

MAX_BYTES: Final = 5_500_000
"""Bytes of a metadata file, counted as in a response that carries it (``store.core.limits``): about 4.5 MB of a usual one.
A commit that makes a larger file smaller is accepted."""

_CACHE_BYTES: Final = 96 * 1024 * 1024
_DECODED_FACTOR: Final = 6
"""Bytes of memory that a decoded file takes for each byte of its JSON."""

_NUMBER: Final = re.compile(r"(\d{1,9})-.*|v(\d{1,9})\..*")


class FileMissing(StorageFault):
    """Storage has no such file."""


class MetadataFiles:
    """Reads and writes metadata files. One for a sandbox; safe for threads."""

    def __init__(self, storages: Storages, ids: Ids) -> None:
        self._storages, self._ids = storages, ids
        self._cache: Lru[str, tuple[TableMetadata | ViewMetadata, int]] = Lru(_CACHE_BYTES)

    def table(self, path: str) -> TableMetadata:
        """Returns the table metadata in the file: one read, none when cached. Raises FileMissing or StorageFault if it
        cannot be read, and InvalidRequest if it holds something else."""
        content = self._read(path, metadata.parse)
        assert isinstance(content, TableMetadata)
        return content

    def view(self, path: str) -> ViewMetadata:
        content = self._read(path, view_metadata.parse)
        assert isinstance(content, ViewMetadata)
        return content

    def foreign(self, path: str) -> tuple[str, TableMetadata]:
        """Returns the normalised path and the content of a metadata file that a request names; raises NotFound,
        InvalidRequest if it is no path or no table metadata, and TooLarge over ``MAX_BYTES``."""
        path = normalise(path)
        if path.count("/") < 3:
            raise InvalidRequest(f"{path} is no file", field="metadata-location")
        storage, name = self._at(path)
        file = storage.read(name, MAX_BYTES + 1)
        if file is None:
            raise NotFound("metadata file", path, field="metadata-location")
        raw = file[0]
        if len(raw) <= MAX_BYTES and name.endswith((".gz.metadata.json", ".metadata.json.gz")):
            raw = _unpacked(raw)
        if len(raw) > MAX_BYTES:
            raise _too_large(len(raw))
        parsed = metadata.parse(raw)
        size = response_size(metadata.document(parsed))  # its writer may escape other characters
        if size > MAX_BYTES:
            raise _too_large(size)
        self._cache.put(path, (parsed, size), len(raw) * _DECODED_FACTOR)
        return path, parsed

    def write(self, location: str, content: TableMetadata | ViewMetadata, previous: str = "") -> str:
        """Writes ``content`` below ``location`` and returns the file's full path. Nothing names the file yet.

        Raises TooLarge over ``MAX_BYTES``, unless it is smaller than the file ``previous`` that it replaces; StorageFault
        when storage did not respond: perhaps there is a file now that nothing names.
        """
        raw = self.encode(content, previous)
        name = f"metadata/{_number(previous) + 1:05d}-{self._ids.uuid()}.metadata.json"
        if not self._storages.open(location).put_if_absent(name, raw):
            raise StorageFault(f"{name} exists", remedy="send the same request again")
        path = f"{location}/{name}"
        self._cache.put(path, (content, escaped_size(raw)), len(raw) * _DECODED_FACTOR)
        return path

    def encode(self, content: TableMetadata | ViewMetadata, previous: str = "") -> bytes:
        """Returns the bytes of a file; raises TooLarge as ``write``."""
        raw = metadata.encode(content) if isinstance(content, TableMetadata) else msgspec.json.encode(content)
        size = escaped_size(raw)
        if size > MAX_BYTES:
            replaced = self._cache.get(previous) if previous else None
            if replaced is None or size >= replaced[1]:
                raise _too_large(size)
        return raw

    def delete(self, path: str) -> None:
        """Deletes a file that nothing names and nothing will."""
        storage, name = self._at(path)
        storage.delete(name)

    def _read(self, path: str, parse: Callable[[bytes], TableMetadata | ViewMetadata]) -> TableMetadata | ViewMetadata:
        cached = self._cache.get(path)
        if cached is not None:
            return cached[0]
        storage, name = self._at(path)
        file = storage.read(name)
        if file is None:
            raise FileMissing(f"metadata file {path} is missing", remedy="restore it, or drop the table")
        raw = _unpacked(file[0]) if file[0][:2] == b"\x1f\x8b" else file[0]
        content = parse(raw)
        self._cache.put(path, (content, escaped_size(raw)), len(raw) * _DECODED_FACTOR)
        return content

    def _at(self, path: str) -> tuple[LogStorage, str]:
        folder, _, name = path.rpartition("/")
        return self._storages.open(folder), name


def _number(path: str) -> int:
    """The sequence number in a file's name, as Iceberg's writers count them; -1 before the first."""
    match = _NUMBER.fullmatch(path.rpartition("/")[2])
    return int(match[1] or match[2]) if match else -1


def _unpacked(raw: bytes) -> bytes:
    """``raw`` without gzip, at most one byte more than ``MAX_BYTES``."""
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
