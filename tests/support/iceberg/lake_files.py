"""Tables with real manifests in the memory of a fake world, and the files that their metadata
name."""

from __future__ import annotations

import json
from typing import Any

from tests.support.iceberg.client import T1, Iceberg, add_snapshot, at_ref, set_ref
from turnstile.iceberg.core.files import avro, manifests

SYNC = bytes(16)
MANIFEST: dict[str, Any] = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        {"name": "status", "type": "int", "field-id": manifests.STATUS},
        {"name": "snapshot_id", "type": ["null", "long"], "field-id": manifests.ENTRY_SNAPSHOT},
        {
            "name": "data_file",
            "field-id": manifests.DATA_FILE,
            "type": {
                "type": "record",
                "name": "r2",
                "fields": [
                    {"name": "file_path", "type": "string", "field-id": manifests.FILE_PATH},
                    {"name": "record_count", "type": "long", "field-id": 103},
                ],
            },
        },
    ],
}


class LakeFiles:
    """Writes an engine's files: data files, a manifest and a manifest list for each snapshot, all
    files live in it."""

    def __init__(self, client: Iceberg) -> None:
        self.client = client
        self._count = 0

    def put(self, location: str, name: str, raw: bytes = b"rows") -> str:
        path = f"{location}/{name}"
        self.client.world.storages.files[path] = (raw, self.client.world.clock.now_ms())
        return path

    def data(self, location: str) -> str:
        self._count += 1
        return self.put(location, f"data/{self._count:04}.parquet")

    def snapshot(
        self, location: str, id: int, live: list[str], removed: tuple[str, ...] = (), *, names: str = ""
    ) -> str:
        """The manifest list of a snapshot that has the data files ``live``."""
        self._count += 1
        entries = [(manifests.ADDED, path) for path in live] + [(manifests.REMOVED, path) for path in removed]
        records = [
            {
                manifests.STATUS: status,
                manifests.ENTRY_SNAPSHOT: id,
                manifests.DATA_FILE: {manifests.FILE_PATH: path, 103: 1},
            }
            for status, path in entries
        ]
        manifest = self.put(location, f"metadata/{self._count:04}-m0.avro", avro.write(records, MANIFEST, {}, SYNC))
        record = dict.fromkeys(manifests.REQUIRED, 0) | {
            manifests.PATH: names or manifest,
            manifests.ADDED_SNAPSHOT: id,
        }
        listed = avro.write([record], manifests.SCHEMA, {}, SYNC)
        return self.put(location, f"metadata/snap-{id}-{self._count:04}.avro", listed)

    def commit(self, live: list[str] | None = None, path: str = T1, *, listed: str = "", **more: Any) -> list[str]:
        """A snapshot of the table at ``path`` that has ``live`` (None: what there is, and one file
        more), which is returned."""
        metadata = self.client.load(path)["metadata"]
        location = metadata["location"]
        current = metadata.get("current-snapshot-id")
        parent = None if current in (None, -1) else current
        before = [] if parent is None else self.live(metadata)
        live = [*before, self.data(location)] if live is None else live
        id = metadata["last-sequence-number"] + 1
        removed = tuple(set(before) - set(live))
        listed = listed or self.snapshot(location, id, live, removed)
        members = {"manifest-list": listed, "timestamp-ms": self.client.world.clock.now_ms(), **more}
        added = add_snapshot(id, parent, id, **members)
        answer = self.client.commit(added, set_ref(id), require=[at_ref(parent)], path=path)
        assert answer.status == 200, answer.text
        self.client.world.clock.now += 1_000
        return live

    def live(self, metadata: dict[str, Any]) -> list[str]:
        """The data files of the current snapshot."""
        (current,) = [one for one in metadata["snapshots"] if one["snapshot-id"] == metadata["current-snapshot-id"]]
        return sorted(path for path in self.named([current]) if path.endswith(".parquet"))

    def named(self, snapshots: list[dict[str, Any]]) -> set[str]:
        """All files that ``snapshots`` name; fails where a manifest is missing."""
        files = self.client.world.storages.files
        found = set[str]()
        for snapshot in snapshots:
            found.add(snapshot["manifest-list"])
            for listed in avro.read(files[snapshot["manifest-list"]][0]):
                found.add(listed[manifests.PATH])
                for entry in avro.read(files[listed[manifests.PATH]][0]):
                    if entry[manifests.STATUS] != manifests.REMOVED:
                        found.add(entry[manifests.DATA_FILE][manifests.FILE_PATH])
        return found

    def named_by(self, metadata_file: str) -> set[str]:
        """All files that a metadata file names."""
        return self.named(json.loads(self.client.world.storages.files[metadata_file][0])["snapshots"])

    @property
    def stored(self) -> set[str]:
        """All files but metadata files."""
        return {path for path in self.client.world.storages.files if path.endswith((".parquet", ".avro"))}
