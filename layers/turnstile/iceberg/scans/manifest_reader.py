"""Reads the manifest lists and manifests of a table's snapshots."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, Final

from turnstile.iceberg.core.files import avro, manifests
from turnstile.iceberg.core.files.content_files import ContentFile, DeleteFiles, files_of, plan_refusal
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.partition import PartitionSpec
from turnstile.iceberg.core.snapshots import Snapshot
from turnstile.store.core.locations import normalise
from turnstile.store.ports import Storages

READ_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a manifest or manifest list that is read."""

_LIST: Final = frozenset(
    (
        manifests.PATH, manifests.SPEC_ID, manifests.CONTENT, manifests.SEQUENCE, manifests.ADDED_SNAPSHOT,
        manifests.KEY_METADATA,
        manifests.PARTITIONS, manifests.LIST_FIRST_ROW_ID,
    )
)  # fmt: skip
_NOT_READ: Final = frozenset(range(108, 131)) | {manifests.NAN_COUNTS}
"""Maps of statistics."""


class Wanted:
    """Members of a manifest's entries that are read: all but statistics, which only filters and
    ``stats-fields`` need, and the values of partitions, which have the ids of the specs."""

    def __init__(self, *, statistics: bool) -> None:
        self._statistics = statistics

    def __contains__(self, id: object) -> bool:
        return self._statistics or id not in _NOT_READ


class ManifestReader:
    """Reads manifests below the locations ``roots``. ``read``: returns the content of a file from a
    cache; calls the given function for a file that is not in it. Raises UnsupportedTable for a
    table that is encrypted, or a manifest that is elsewhere, is missing, or cannot be read."""

    def __init__(
        self,
        storages: Storages,
        metadata: TableMetadata,
        roots: Iterable[str],
        cached: Callable[[str, Callable[[str], bytes]], bytes] | None = None,
    ) -> None:
        self._storages = storages
        self._roots = tuple(f"{normalise(root)}/" for root in roots)
        self._cached = cached
        self.specs = {spec.spec_id: spec for spec in metadata.partition_specs}

    def manifests(self, snapshot: Snapshot) -> Iterator[dict[int, Any]]:
        """Yields the records of a snapshot's manifest list; in format version 1 there may be none,
        only paths."""
        if snapshot.key_id is not None:
            raise plan_refusal(f"snapshot {snapshot.snapshot_id} is encrypted")
        if not snapshot.manifest_list:
            if len(self.specs) > 1:  # only the list says of which a manifest is
                raise plan_refusal(
                    f"snapshot {snapshot.snapshot_id} has no manifest list, and the table several partition specs"
                )
            yield from ({manifests.PATH: path, manifests.SPEC_ID: min(self.specs)} for path in snapshot.manifests)
            return
        for record in self._records(snapshot.manifest_list, _LIST):
            if not isinstance(record.get(manifests.PATH), str) or record.get(manifests.KEY_METADATA) is not None:
                raise plan_refusal(f"{snapshot.manifest_list[:200]} has a manifest without a path, or an encrypted one")
            yield record

    def files(self, manifest: dict[int, Any], wanted: Container[int]) -> Iterator[ContentFile | None]:
        """Yields the file of each entry of a manifest, None for one that was removed."""
        return files_of(manifest, self._records(manifest[manifests.PATH], wanted))

    def no_deletes(self) -> DeleteFiles:
        """Returns the delete files of a snapshot without any."""
        return DeleteFiles(frozenset(spec.spec_id for spec in self.specs.values() if not spec.fields))

    def read_deletes(self, listed: Iterable[dict[int, Any]], deletes: DeleteFiles) -> None:
        """Adds the delete files in a snapshot's manifests. Raises TooLarge."""
        for manifest in listed:
            if manifest.get(manifests.CONTENT):
                for file in self.files(manifest, Wanted(statistics=True)):
                    if file is not None:
                        deletes.add(file)

    def spec(self, id: int) -> PartitionSpec:
        """Returns the partition spec of a manifest or file."""
        if id not in self.specs:
            raise plan_refusal(f"a manifest is of partition spec {id}, which the table does not have")
        return self.specs[id]

    def _records(self, path: str, wanted: Container[int]) -> Iterator[dict[int, Any]]:
        """The records of a manifest or manifest list. Raises UnsupportedTable, which names the
        file, if it cannot be read."""
        try:
            content = self._read(path) if self._cached is None else self._cached(path, self._read)
            yield from avro.select(content, wanted)
        except avro.Unreadable as error:
            raise plan_refusal(f"{normalise(path)[:300]} is damaged: {error.message}") from error

    def _read(self, path: str) -> bytes:
        """The content of a manifest or manifest list, which clients name (I12)."""
        normal = normalise(path)
        if not normal.startswith(self._roots):
            raise plan_refusal(f"{normal[:300]} is not below the table's location")
        folder, _, name = normal.rpartition("/")
        file = self._storages.open(folder).read(name, READ_BYTES + 1)
        if file is None:
            raise plan_refusal(f"{normal[:300]} is missing")
        if len(file[0]) > READ_BYTES:
            raise plan_refusal(f"{normal[:300]} has more than {READ_BYTES} bytes")
        return file[0]
