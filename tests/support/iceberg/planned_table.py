"""An Iceberg table of the real handler whose manifests PyIceberg has written into the world in
memory."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.io import InputFile, OutputFile
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from tests.support.iceberg.client import SALES, Iceberg, add_snapshot, set_ref

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "region", StringType(), required=False),
    NestedField(3, "at", TimestamptzType(), required=False),
)
DAYS = PartitionSpec(PartitionField(3, 1000, DayTransform(), "at_day"), spec_id=0)
DAY_US = 24 * 3600 * 1_000_000
CONTENTS = {
    "data": DataFileContent.DATA,
    "position": DataFileContent.POSITION_DELETES,
    "equality": DataFileContent.EQUALITY_DELETES,
}


class _Buffer(io.BytesIO):
    def __init__(self, files: dict[str, tuple[bytes, int]], path: str) -> None:
        super().__init__()
        self._files = files
        self._path = path

    def close(self) -> None:
        if not self.closed:
            self._files[self._path] = (self.getvalue(), 0)
        super().close()


class _Output(OutputFile):
    """A file of the world in memory."""

    def __init__(self, files: dict[str, tuple[bytes, int]], path: str) -> None:
        super().__init__(path)
        self._files = files

    def __len__(self) -> int:
        return len(self._files[self.location][0])

    def exists(self) -> bool:
        return self.location in self._files

    def to_input_file(self) -> InputFile:
        raise NotImplementedError

    def create(self, overwrite: bool = False) -> Any:
        return _Buffer(self._files, self.location)


class _Deletes(ManifestWriterV2):
    """Writes a manifest of delete files, which PyIceberg itself does not."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class PlannedTable:
    """Table ``i1`` of columns ``id``, ``region``, ``at``, with partitions by day of ``at`` if
    ``by_day``."""

    def __init__(self, client: Iceberg, name: str = "i1", *, by_day: bool = False) -> None:
        self.client = client
        self.path = f"{SALES}/tables/{name}"
        self.spec = DAYS if by_day else PartitionSpec(spec_id=0)
        schema = {"type": "struct", "schema-id": 0, "fields": [
            {"id": 1, "name": "id", "type": "long", "required": False},
            {"id": 2, "name": "region", "type": "string", "required": False},
            {"id": 3, "name": "at", "type": "timestamptz", "required": False},
        ]}  # fmt: skip
        fields = [{"source-id": 3, "field-id": 1000, "name": "at_day", "transform": "day"}] if by_day else []
        made = client.create(name, schema=schema, **{"partition-spec": {"spec-id": 0, "fields": fields}})
        self.location = made["metadata"]["location"]
        self.id = made["metadata"]["table-uuid"]
        self._manifests: list[ManifestFile] = []
        self._sequence = 0

    @property
    def files(self) -> dict[str, tuple[bytes, int]]:
        return self.client.world.storages.files

    def file(
        self, name: str, ids: tuple[int, int] = (0, 9), day: int | None = None, content: str = "data", **more: Any
    ) -> DataFile:
        """A file with rows from id to id, in a day's partition if there are partitions."""
        low, high = (to_bytes(LongType(), each) for each in ids)
        made = DataFile.from_args(
            content=CONTENTS[content], file_path=f"{self.location}/data/{name}",
            partition=Record(day) if self.spec.fields else Record(), record_count=10, file_size_in_bytes=100,
            value_counts={1: 10}, null_value_counts={1: 0}, lower_bounds={1: low}, upper_bounds={1: high},
            **{"file_format": FileFormat.PARQUET, "split_offsets": [4], **more},
        )  # fmt: skip
        made.spec_id = 0
        return made

    def append(self, *files: DataFile, operation: str = "append", kept: Sequence[ManifestFile] | None = None) -> int:
        """Commits a snapshot that adds these files, data in one manifest and deletes in another.
        Returns its id."""
        self._sequence += 1
        id = self._sequence * 10
        parent = self._sequence * 10 - 10
        added = [
            self._manifest(f"m{id}-{part}.avro", id, part, chosen)
            for part in ("data", "deletes")
            if (chosen := [file for file in files if (file.content == DataFileContent.DATA) == (part == "data")])
        ]
        self._manifests = [*added, *(self._manifests if kept is None else kept)]
        path = f"{self.location}/metadata/snap-{id}.avro"
        output = _Output(self.files, path)
        with write_manifest_list(2, output, id, parent or None, self._sequence, "deflate") as writer:
            writer.add_manifests(self._manifests)
        more = {"manifest-list": path, "summary": {"operation": operation}}
        answer = self.client.commit(
            add_snapshot(id, parent or None, self._sequence, **more), set_ref(id), path=self.path
        )
        assert answer.status == 200, answer.text
        return id

    def _manifest(self, name: str, snapshot: int, part: str, files: Sequence[DataFile]) -> ManifestFile:
        kind = ManifestWriterV2 if part == "data" else _Deletes
        output = _Output(self.files, f"{self.location}/metadata/{name}")
        with kind(self.spec, SCHEMA, output, snapshot, "deflate") as writer:
            for file in files:
                entry = ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=snapshot, data_file=file)
                writer.add_entry(entry)
        made: ManifestFile = writer.to_manifest_file()
        return made

    def plan(self, **body: Any) -> dict[str, Any]:
        """The first answer to a scan."""
        answer = self.client.post(f"{self.path}/plan", {name.replace("_", "-"): value for name, value in body.items()})
        assert answer.status == 200, answer.text
        return dict(answer.json)

    def tasks(self, **body: Any) -> dict[str, list[str]]:
        """All data files of a scan, by name, each with the names of its delete files."""
        found: dict[str, list[str]] = {}
        answer = self.plan(**body)
        while True:
            deletes = [_name(each) for each in answer.get("delete-files", ())]
            for task in answer["file-scan-tasks"]:
                assert _name(task["data-file"]) not in found, "once"
                found[_name(task["data-file"])] = [deletes[at] for at in task.get("delete-file-references", ())]
            if "plan-tasks" not in answer:
                return found
            (task,) = answer["plan-tasks"]
            answer = self.client.post(f"{self.path}/tasks", {"plan-task": task}).json


def _name(file: dict[str, Any]) -> str:
    return str(file["file-path"]).rpartition("/")[2]
