"""Real manifests and manifest lists, written by PyIceberg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    read_manifest_list,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

from turnstile.iceberg.core.snapshots import Snapshot

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "region", StringType(), required=False))


class Lake:
    """Files of one table below a folder."""

    def __init__(self, root: Path, codec: Any = "deflate") -> None:
        self.location = f"file://{root}/t"
        (root / "t" / "metadata").mkdir(parents=True)
        self._io = PyArrowFileIO()
        self._codec = codec
        self._count = 0

    def bytes(self, path: str) -> bytes:
        return Path(path.removeprefix("file://")).read_bytes()

    def manifest(
        self, snapshot: int, files: int = 1, status: Any = ManifestEntryStatus.ADDED, **entry: Any
    ) -> ManifestFile:
        """A manifest of ``files`` data files."""
        self._count += 1
        output = self._io.new_output(f"{self.location}/metadata/m{self._count}.avro")
        with write_manifest(2, PartitionSpec(), SCHEMA, output, snapshot, self._codec) as writer:
            for n in range(files):
                file = DataFile.from_args(
                    content=DataFileContent.DATA,
                    file_path=f"{self.location}/data/{self._count}-{n}.parquet",
                    file_format=FileFormat.PARQUET,
                    partition=Record(),
                    record_count=3,
                    file_size_in_bytes=100,
                    spec_id=0,
                )
                made = ManifestEntry.from_args(status=status, snapshot_id=snapshot, data_file=file, **entry)
                writer.add_entry(made)
        return writer.to_manifest_file()

    def list(self, snapshot: int, parent: int | None, sequence: int, manifests: list[ManifestFile]) -> str:
        """A manifest list."""
        self._count += 1
        path = f"{self.location}/metadata/snap-{snapshot}-{self._count}.avro"
        output = self._io.new_output(path)
        with write_manifest_list(2, output, snapshot, parent, sequence, self._codec) as writer:
            writer.add_manifests(manifests)
        return path

    def read(self, path: str) -> list[ManifestFile]:
        """A manifest list, by PyIceberg."""
        return list(read_manifest_list(self._io.new_input(path)))

    def entries(self, manifest: ManifestFile) -> list[ManifestEntry]:
        """The content of a manifest, sequence numbers inherited, by PyIceberg."""
        return manifest.fetch_manifest_entry(self._io)

    def append(self, id: int, parent: Snapshot | None, sequence: int, files: int = 1, **changes: Any) -> Snapshot:
        """A snapshot that appends ``files`` files to ``parent``, as a client makes it."""
        fresh = changes.pop("manifests", None) or [self.manifest(id, files)]
        before = self.read(parent.manifest_list) if parent else []
        total = int(parent.summary["total-data-files"]) if parent else 0
        made: dict[str, Any] = {
            "snapshot_id": id,
            "timestamp_ms": 1_770_000_000_000 + id,
            "parent_snapshot_id": parent.snapshot_id if parent else None,
            "sequence_number": sequence,
            "manifest_list": self.list(id, parent.snapshot_id if parent else None, sequence, [*fresh, *before]),
            "summary": {
                "operation": "append",
                "added-data-files": str(files),
                "added-records": str(3 * files),
                "total-data-files": str(total + files),
                "total-records": str(3 * (total + files)),
                "total-delete-files": "0",
            },
            "schema_id": 0,
        }
        return Snapshot(**{**made, **changes})
