"""Checks that the files of an Iceberg table's current snapshot are in storage: ``turnstile verify
--files``.

The metadata file, the manifest list, the manifests, and the data and delete files that they name,
with their sizes. A manifest that cannot be read is reported, and the others are checked. Bounded as
``maintenance.named_files``; a call begins at an entry of a manifest, so it reads the list, and the
manifests of its own part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from turnstile.catalog.core.entities import IcebergTable
from turnstile.delta.core.named_files import FileFault, NamedFile
from turnstile.iceberg.core.files import avro, manifests
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.snapshots import Snapshot
from turnstile.maintenance.named_files import FilesLooked, Look
from turnstile.store.core.errors import ErrorType, InvalidRequest, StateConflict
from turnstile.store.ports import Clock, Storages

READ_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a manifest or manifest list that is read."""

_LIST: Final = frozenset((manifests.PATH, manifests.LENGTH, manifests.KEY_METADATA))
_ENTRY: Final = frozenset((manifests.STATUS, manifests.DATA_FILE, manifests.FILE_PATH, manifests.FILE_BYTES))
_PLACE: Final = re.compile(r"(-?\d{1,19})\.(\d{1,9})\.(\d{1,15})")


class IcebergFiles:
    """Looks at the files of Iceberg tables; changes nothing."""

    def __init__(self, storages: Storages, clock: Clock) -> None:
        self._storages = storages
        self._clock = clock

    def look(
        self,
        reload: Callable[[], tuple[IcebergTable, TableMetadata]],
        roots: Sequence[str],
        after: str = "",
        *,
        until_ms: int | None = None,
    ) -> FilesLooked:
        """Looks at files of the current snapshot, or of the one that ``after``, the ``next`` of the
        call before, is of.

        Args:
            reload: returns the table as it is now.
            roots: locations below which files are looked at.

        Raises:
            InvalidRequest: ``after`` is none.
            StateConflict: the snapshot has expired, so that its files may be gone rightly.
            StorageFault: also as ``reload``, where the metadata file is missing or altered.
        """
        entity, metadata = reload()
        id, manifest, entry = _place(after) if after else (metadata.current_snapshot_id, 0, 0)
        if id is None:
            return FilesLooked(entity.table_id, None, 0, [])
        snapshot = _snapshot(metadata, id)
        clock = self._clock
        look = Look(self._storages, roots, lambda: until_ms is not None and clock.now_ms() >= until_ms)
        if not after:
            look.check(NamedFile(entity.metadata, 0, least=True))
        following = _Files(look, snapshot).take(manifest, entry)
        if look.faults:
            _snapshot(reload()[1], id)  # it has not expired meanwhile
        place = None if following is None else f"{id}.{following[0]}.{following[1]}"
        return FilesLooked(entity.table_id, id, look.files, look.faults, place, look.not_judged)


class _Files:
    """The files of one snapshot."""

    def __init__(self, look: Look, snapshot: Snapshot) -> None:
        self._look = look
        self._snapshot = snapshot

    def take(self, manifest: int, entry: int) -> tuple[int, int] | None:
        """Looks at files from an entry of a manifest on; returns where the next call goes on, None
        at the end."""
        listed = self._list_manifests()
        for at in range(manifest, len(listed)):
            end = self._look.take(self._place_files(listed[at], entry if at == manifest else 0), entry)
            if self._look.over:
                return at, end
        return None

    def _list_manifests(self) -> list[NamedFile]:
        """The manifests, of unknown length where the snapshot has them itself."""
        found = [NamedFile(path, 0, least=True) for path in self._snapshot.manifests]
        if self._snapshot.manifest_list:
            for record in self._records(self._snapshot.manifest_list, _LIST):
                found.append(NamedFile(str(record.get(manifests.PATH)), int(record.get(manifests.LENGTH) or 0)))
        return found

    def _place_files(self, manifest: NamedFile, since: int) -> Iterator[tuple[int, NamedFile]]:
        """A manifest, at place 0, and the files that it names, from the place ``since`` on."""
        if since == 0:
            yield 0, manifest
        for at, record in enumerate(self._records(manifest.path, _ENTRY), 1):
            file = record.get(manifests.DATA_FILE)
            if at >= since and isinstance(file, dict) and record.get(manifests.STATUS) != manifests.REMOVED:
                size = file.get(manifests.FILE_BYTES)
                yield at, NamedFile(str(file.get(manifests.FILE_PATH)), size or 0, least=size is None)

    def _records(self, path: str, wanted: frozenset[int]) -> Iterator[dict[int, Any]]:
        """The records of a readable file; the fault of another one is reported."""
        content = self._look.read(path, READ_BYTES)
        if content is None:
            return
        try:
            yield from avro.select(content, wanted)
        except avro.Unreadable as error:
            self._look.tell(FileFault(path, "unreadable", f"it is damaged: {error.message}"))


def _snapshot(metadata: TableMetadata, id: int) -> Snapshot:
    snapshot = metadata.snapshot(id)
    if snapshot is None:
        problem = f"snapshot {id} has expired since the look began, so its files may be gone"
        raise StateConflict(ErrorType.CONCURRENT_CHANGE, problem, remedy="begin again, without 'after'")
    return snapshot


def _place(text: str) -> tuple[int, int, int]:
    match = _PLACE.fullmatch(text)
    if match is None:
        raise InvalidRequest(
            "it is no place among the table's files", field="after", remedy="pass on 'next', or leave it out"
        )
    return int(match[1]), int(match[2]), int(match[3])
