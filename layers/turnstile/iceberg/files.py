"""Metadata files: each is written once under a new name, so that the cache stays valid.

Every client with keys for a table's location can overwrite its files. So an entity keeps the digest
of the bytes that were validated when it got them, and other bytes are neither returned nor built
upon.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from turnstile.catalog.core.entities import IcebergEntity, IcebergTable, IcebergView
from turnstile.iceberg.append_merger import new_list_cache
from turnstile.iceberg.core import metadata
from turnstile.iceberg.core import views as view_metadata
from turnstile.iceberg.core.expiry import expires
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.views import ViewMetadata
from turnstile.store.cache import Lru
from turnstile.store.core.errors import InvalidRequest, MissingBucket, NotFound, StorageFault, TooLarge
from turnstile.store.core.limits import escaped_size, response_size
from turnstile.store.core.locations import normalise
from turnstile.store.ports import Ids, LogStorage, Storages, has_content

MAX_BYTES: Final = 5_500_000
"""Bytes of a metadata file, counted as in a response that carries it (``store.core.limits``): about
4.5 MB of a usual one. A commit that makes a larger file smaller is accepted."""

READ_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a file that is read, unpacked: more than may be written here, since a server has another
limit than a function."""

_CACHE_BYTES: Final = 96 * 1024 * 1024
_DECODED_FACTOR: Final = 6
"""Bytes of memory that a decoded file takes for each byte of its JSON."""

FOLDER_MARK: Final = "metadata/.turnstile-staged"
"""An empty file that makes the folder of metadata files."""

_NUMBER: Final = re.compile(r"(\d{1,9})-.*|v(\d{1,9})\..*")


class FileMissing(StorageFault):
    """Storage has no such file."""


class FileAltered(StorageFault):
    """The file is not the one that was committed."""


class StoredFile(msgspec.Struct, frozen=True):
    """A metadata file that was judged: its full path, and the digest of its bytes for the entity
    that will name it. ``content``: the bytes, of a file that was written here."""

    path: str
    digest: bytes
    content: bytes = b""


@contextmanager
def bucket_errors(field: str) -> Iterator[None]:
    """Says of a bucket that does not exist which member of the request names it. Raises
    InvalidRequest."""
    try:
        yield
    except MissingBucket as error:
        remedy = "name a bucket that exists, or leave the location out"
        raise InvalidRequest(f"the bucket does not exist: {error.message}", field=field, remedy=remedy) from error


@contextmanager
def nothing_applied() -> Iterator[None]:
    """Marks a StorageFault, for the time while a change is computed: no swap with it has an open
    outcome. It is computed again only after a swap that was certainly refused
    (``catalog.changes.attempts``)."""
    try:
        yield
    except StorageFault as fault:
        fault.nothing_applied = True
        raise


class MetadataFiles:
    """Reads and writes metadata files. One for a sandbox; safe for threads."""

    def __init__(self, storages: Storages, ids: Ids, max_bytes: int | None = None) -> None:
        """
        Args:
            max_bytes: the largest file that is written or registered; None: ``MAX_BYTES``, the
                limit of an answer of Lambda.
        """
        self._storages = storages
        self._ids = ids
        self._limit = max_bytes
        self._cache: Lru[tuple[str, bytes], tuple[TableMetadata | ViewMetadata, int]] = Lru(_CACHE_BYTES)
        self.manifest_lists = new_list_cache()

    @property
    def max_bytes(self) -> int:
        """Bytes of the largest file that is written or registered."""
        return MAX_BYTES if self._limit is None else self._limit

    def table(self, entity: IcebergTable) -> TableMetadata:
        """Returns the metadata of a table: one read, none when cached. Raises FileMissing or
        StorageFault if the file cannot be read, and FileAltered if it is not the one that was
        committed.
        """
        content = self._read(entity, metadata.parse)
        assert isinstance(content, TableMetadata)
        return content

    def view(self, entity: IcebergView) -> ViewMetadata:
        """Returns the metadata of a view; raises as ``table``."""
        content = self._read(entity, view_metadata.parse)
        assert isinstance(content, ViewMetadata)
        return content

    def foreign_table(self, path: str) -> tuple[StoredFile, TableMetadata]:
        """Returns a metadata file that a request names, its path normalised, and its content;
        raises NotFound, InvalidRequest if it is no path or no table metadata, and TooLarge over
        ``max_bytes``.
        """
        file, raw = self._foreign(path)
        parsed = metadata.parse(raw)
        size = response_size(metadata.document(parsed))  # its writer may escape other characters
        if size > self.max_bytes:
            raise _too_large(size, self.max_bytes)
        self._cache.put((file.path, file.digest), (parsed, size), len(raw) * _DECODED_FACTOR)
        return file, parsed

    def foreign_view(self, path: str) -> ViewMetadata:
        """Returns the content of a view's metadata file that a request names; raises as
        ``foreign_table``."""
        return view_metadata.parse(self._foreign(path)[1])

    def _foreign(self, path: str) -> tuple[StoredFile, bytes]:
        """The file at ``path``, and its bytes without compression."""
        path = normalise(path)
        if path.count("/") < 3:
            raise InvalidRequest(f"{path} is no file", field="metadata-location")
        storage, name = self._at(path)
        with bucket_errors("metadata-location"):
            file = storage.read(name, self.max_bytes + 1)
        if file is None:
            raise NotFound("metadata file", path, field="metadata-location")
        raw = file[0]
        digest = _digest(file[0])
        if len(raw) <= self.max_bytes and name.endswith((".gz.metadata.json", ".metadata.json.gz")):
            raw = _unpack(raw, self.max_bytes)
        if len(raw) > self.max_bytes:
            raise _too_large(len(raw), self.max_bytes)
        return StoredFile(path, digest), raw

    def any_table(self, path: str) -> TableMetadata | None:
        """Returns the content of a table's metadata file, from any writer and whether or not
        anything names it; None if it is missing. One read; not cached. Raises InvalidRequest if it
        is no table metadata, TooLarge, and StorageFault.
        """
        storage, name = self._at(path)
        file = storage.read(name, READ_BYTES + 1)
        if file is None:
            return None
        raw = _unpack(file[0], READ_BYTES) if file[0][:2] == b"\x1f\x8b" else file[0]
        if len(raw) > READ_BYTES:
            raise _too_large(len(raw), READ_BYTES)
        return metadata.parse(raw)

    def write(
        self, location: str, content: TableMetadata | ViewMetadata, previous: IcebergEntity | None = None
    ) -> StoredFile:
        """Writes ``content`` below ``location``. Nothing names the file yet. Raises as
        ``write_after``."""
        return self.write_after((), location, content, previous)

    def write_after(
        self,
        others: Sequence[tuple[str, bytes]],
        location: str,
        content: TableMetadata | ViewMetadata,
        previous: IcebergEntity | None = None,
    ) -> StoredFile:
        """As ``write``; ``others``, paths below ``location`` with their bytes, are there before.

        A file of this name that has these bytes is the same one: the answer to an earlier attempt
        of this very write was lost. Raises TooLarge over ``max_bytes``, unless it is smaller than
        the file of ``previous`` that it replaces; StorageFault when storage did not respond:
        perhaps there are files now that nothing names.
        """
        raw, size = self._encode(content, previous)
        number = file_number(previous.metadata) + 1 if previous is not None else 0
        name = f"metadata/{number:05d}-{self._ids.uuid()}.metadata.json"
        _put(self._storages.open(location), [*others, (name, raw)])
        file = StoredFile(f"{location}/{name}", _digest(raw), raw)
        self._cache.put((file.path, file.digest), (content, size), len(raw) * _DECODED_FACTOR)
        return file

    def make_folder(self, location: str) -> None:
        """Makes the folder of metadata files below a location of a file system: DuckDB writes its
        manifests there before there is a table, and makes no folder. Elsewhere there are none."""
        if location.startswith("file:"):
            self._storages.open(location).put_if_absent(FOLDER_MARK, b"")

    def encode(self, content: TableMetadata | ViewMetadata, previous: IcebergEntity | None = None) -> bytes:
        """Returns the bytes of a file; raises TooLarge as ``write``."""
        return self._encode(content, previous)[0]

    def _encode(
        self, content: TableMetadata | ViewMetadata, previous: IcebergEntity | None = None
    ) -> tuple[bytes, int]:
        """The bytes of a file, and how many of an answer they take."""
        raw = metadata.encode(content) if isinstance(content, TableMetadata) else msgspec.json.encode(content)
        size = escaped_size(raw)
        if size > self.max_bytes:
            replaced = self._cache.get((previous.metadata, previous.digest)) if previous is not None else None
            if replaced is None or (size >= replaced[1] and not _asks_for_expiry(content, *replaced, size)):
                raise _too_large(size, self.max_bytes)
        return raw, size

    def delete(self, path: str) -> None:
        """Deletes a file that is unreferenced, and stays so."""
        storage, name = self._at(path)
        storage.delete(name)

    def _read(
        self, entity: IcebergEntity, parse: Callable[[bytes], TableMetadata | ViewMetadata]
    ) -> TableMetadata | ViewMetadata:
        path = entity.metadata
        key = (entity.metadata, entity.digest)
        cached = self._cache.get(key)
        if cached is not None:
            return cached[0]
        storage, name = self._at(path)
        file = storage.read(name, READ_BYTES + 1)
        if file is None:
            raise FileMissing(f"metadata file {path} is missing", remedy="restore it, or drop the table")
        raw = file[0]
        if entity.digest and _digest(raw) != entity.digest:
            raise _file_altered(path, "its bytes differ from the committed ones")
        try:
            raw = _unpack(raw, READ_BYTES) if raw[:2] == b"\x1f\x8b" else raw
            if len(raw) > READ_BYTES:
                raise _file_altered(path, f"it has more than {READ_BYTES} bytes")
            content = parse(raw)
        except InvalidRequest as error:
            raise _file_altered(path, error.message) from None
        uuid = content.table_uuid if isinstance(content, TableMetadata) else content.view_uuid
        if uuid.lower() != entity.table_id.lower():
            raise _file_altered(path, f"it has uuid {uuid[:60]!r}, and '{entity.name}' is {entity.table_id}")
        if isinstance(content, TableMetadata) and _spelled_once(content.location) != entity.location:
            raise _file_altered(
                path, f"it has location {content.location[:200]!r}, and '{entity.name}' is at {entity.location}"
            )
        self._cache.put(key, (content, escaped_size(raw)), len(raw) * _DECODED_FACTOR)
        return content

    def _at(self, path: str) -> tuple[LogStorage, str]:
        folder, _, name = path.rpartition("/")
        return self._storages.open(folder), name


def _put(storage: LogStorage, files: Sequence[tuple[str, bytes]]) -> None:
    """Creates ``files`` in their order. Raises StorageFault where another one has the name."""
    done = 0
    while done < len(files):
        done += storage.put_in_order(files[done:]) if len(files) > 1 else storage.put_if_absent(*files[0])
        if done < len(files):
            name, raw = files[done]
            if not has_content(storage, name, raw):
                raise StorageFault(f"{name} exists", remedy="send the same request again")
            done += 1


def file_number(path: str) -> int:
    """Returns the sequence number in a file's name, as Iceberg's writers count them; -1 before the
    first."""
    match = _NUMBER.fullmatch(path.rpartition("/")[2])
    return int(match[1] or match[2]) if match else -1


def _digest(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()


def _spelled_once(location: str) -> str:
    """``location`` normalised; as it is if it is none."""
    try:
        return normalise(location)
    except InvalidRequest:
        return location


def _file_altered(path: str, why: str) -> FileAltered:
    remedy = "restore it from the bucket's versions, or drop the table without a purge and register another file"
    return FileAltered(f"metadata file {path} is not the one that was committed: {why}", remedy=remedy)


def _unpack(raw: bytes, limit: int) -> bytes:
    """``raw`` without gzip, at most one byte more than ``limit``."""
    try:
        return zlib.decompressobj(wbits=31).decompress(raw, limit + 1)
    except zlib.error:
        raise InvalidRequest("the metadata file is not valid gzip", field="metadata-location") from None


_PROPERTY_BYTES: Final = 4_096
"""As much may be added beyond the limit by the change that sets the property: an entry of the
metadata log, and the property."""
_LARGE_REMEDY: Final = (
    "expire snapshots and remove schemas that no snapshot has (remove-schemas; or set "
    "turnstile.maintenance.expire-snapshots=true, which does"
    " both), or shorten properties and comments"
)


def _asks_for_expiry(
    content: TableMetadata | ViewMetadata, before: TableMetadata | ViewMetadata, size_before: int, size: int
) -> bool:
    """Whether a change sets the property that has a large table shrink, and little else."""
    if not (isinstance(content, TableMetadata) and isinstance(before, TableMetadata)):
        return False
    is_new = expires(content.properties) and not expires(before.properties)
    return is_new and size <= size_before + _PROPERTY_BYTES


def _too_large(size: int, limit: int) -> TooLarge:
    return TooLarge(
        f"the metadata would take {size} bytes of an answer, and the limit is {limit}",
        field="updates",
        remedy=_LARGE_REMEDY,
        limit=limit,
        size=size,
    )
