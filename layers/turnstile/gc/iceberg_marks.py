"""The files that metadata of a table name: manifest lists, manifests, data and delete files,
statistics.

Marks are names of files without their folders, in a Bloom filter: a path may be spelled in several
ways (``s3a``, escapes), and writers put a uuid into every name. So a file that is named nowhere
stays if one of the same name is named somewhere, or if the filter is wrong about it; a file that is
named is always marked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from turnstile.gc.core import BloomFilter
from turnstile.iceberg.core.files import avro, manifests
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.snapshots import Snapshot
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.locations import normalise
from turnstile.store.ports import Storages

MANIFESTS_MAX: Final = 300_000
"""Manifests and manifest lists of one table that are read: their digests are kept, 16 bytes
each."""

READ_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a manifest that is read."""

_BITS: Final = 1 << 26  # 8 MB: among three million names one in ten thousand more is taken for named

_LIST: Final = frozenset((manifests.PATH, manifests.KEY_METADATA))
_ENTRY: Final = frozenset((manifests.STATUS, manifests.DATA_FILE, manifests.FILE_PATH, manifests.FILE_KEY_METADATA))


class NotKnown(Exception):
    """The files that the metadata name are unknown, so nothing may be removed. The message says
    why."""


class Marks:
    """The files that the added metadata name. ``roots`` are the locations below which manifests may
    lie; ``seed`` decides about which names the filter is wrong."""

    def __init__(self, storages: Storages, roots: frozenset[str], seed: int) -> None:
        self._storages = storages
        self._roots = roots
        self._names = BloomFilter(_BITS, seed)
        self._read = set[bytes]()

    def __contains__(self, path: str) -> bool:
        return _name(path) in self._names

    def add(self, metadata: TableMetadata, *, present: bool) -> None:
        """Marks the files that ``metadata`` name. One read for each manifest list and manifest that
        was not read before.

        Raises NotKnown for a manifest that cannot be read, is encrypted, lies outside the roots, or
        is missing. Manifests of metadata that are not ``present`` may be missing: an engine has
        removed the metadata, and files that only they named can be found no more.
        """
        for path in (
            *(file.statistics_path for file in metadata.statistics),
            *(file.statistics_path for file in metadata.partition_statistics),
        ):
            self._mark(path)
        for snapshot in metadata.snapshots:
            for manifest in self._manifests(snapshot, present):
                self._add_manifest(manifest, present)

    def _manifests(self, snapshot: Snapshot, present: bool) -> Iterator[str]:  # noqa: FBT001 - private
        if snapshot.key_id is not None:
            raise NotKnown(f"snapshot {snapshot.snapshot_id} is encrypted")
        yield from snapshot.manifests
        if not snapshot.manifest_list:
            return
        for record in self._records(snapshot.manifest_list, _LIST, present):
            path = record.get(manifests.PATH)
            if not isinstance(path, str) or record.get(manifests.KEY_METADATA) is not None:
                raise NotKnown(f"{snapshot.manifest_list} has a manifest without a path, or an encrypted one")
            try:
                normalise(path)
            except TurnstileError as error:
                raise NotKnown(f"{snapshot.manifest_list} names a manifest at no location: {error.message}") from error
            yield path

    def _add_manifest(self, path: str, present: bool) -> None:  # noqa: FBT001 - private
        for record in self._records(path, _ENTRY, present):
            status = record.get(manifests.STATUS)
            file = record.get(manifests.DATA_FILE)
            name = file.get(manifests.FILE_PATH) if isinstance(file, dict) else None
            if status not in (manifests.EXISTING, manifests.ADDED, manifests.REMOVED) or not isinstance(name, str):
                raise NotKnown(f"{path} has an entry that is not understood")
            if status != manifests.REMOVED:
                self._mark(name)

    def _records(self, path: str, wanted: frozenset[int], present: bool) -> Iterator[avro.Record]:  # noqa: FBT001
        """The records of a file that was not read before; the file is marked."""
        self._mark(path)
        digest = hashlib.blake2b(path.encode(), digest_size=16).digest()
        if digest in self._read:
            return
        if len(self._read) >= MANIFESTS_MAX:
            raise NotKnown(f"there are more than {MANIFESTS_MAX} manifests")
        raw = self._content(path)
        if raw is None and present:
            raise NotKnown(f"{path} is missing")
        if raw is not None:
            try:
                yield from avro.select(raw, wanted)
            except TurnstileError as error:
                raise NotKnown(f"{path}: {error.message}") from error
        self._read.add(digest)

    def _content(self, path: str) -> bytes | None:
        try:
            normal = normalise(path)
        except TurnstileError as error:
            raise NotKnown(error.message) from error
        if not any(normal.startswith(f"{root}/") for root in self._roots):
            raise NotKnown(f"{normal} is outside the table's location")
        folder, _, name = normal.rpartition("/")
        file = self._storages.open(folder).read(name, READ_BYTES + 1)
        if file is not None and len(file[0]) > READ_BYTES:
            raise NotKnown(f"{normal} has more than {READ_BYTES} bytes")
        return file[0] if file is not None else None

    def _mark(self, path: str) -> None:
        self._names.add(_name(path))
        if "%" in path:
            self._names.add(_name(unquote(path)))


def _name(path: str) -> str:
    return path.rpartition("/")[2]
