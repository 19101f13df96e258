"""Tables with many small manifests in the memory of a fake world, with all members that format 2
requires."""

from __future__ import annotations

from typing import Any

from tests.support.iceberg.client import T1, Iceberg, add_snapshot, at_ref, set_ref
from turnstile.iceberg.core.files import avro, manifests

SYNC = bytes(16)


def nullable(name: str, id: int, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": id}


def entry_schema(*partition: dict[str, Any], more: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """The schema of a manifest's entries, with the fields of its ``partition``, and ``more``
    members of a file."""
    described = [
        {"name": "file_path", "type": "string", "field-id": manifests.FILE_PATH},
        {"name": "partition", "type": {"type": "record", "name": "r102", "fields": list(partition)}, "field-id": 102},
        {"name": "record_count", "type": "long", "field-id": manifests.RECORD_COUNT},
        *more,
    ]
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            {"name": "status", "type": "int", "field-id": manifests.STATUS},
            nullable("snapshot_id", manifests.ENTRY_SNAPSHOT, "long"),
            nullable("sequence_number", manifests.ENTRY_SEQUENCE, "long"),
            nullable("file_sequence_number", manifests.ENTRY_FILE_SEQUENCE, "long"),
            {
                "name": "data_file",
                "type": {"type": "record", "name": "r2", "fields": described},
                "field-id": manifests.DATA_FILE,
            },
        ],
    }


REGION = nullable("region", 1000, "string")
BY_REGION = entry_schema(REGION)


def entry(
    path: str, region: str | None = None, *, status: int = manifests.ADDED, rows: int = 1, **numbers: Any
) -> avro.Record:
    """An entry; ``numbers``: its snapshot, sequence and file_sequence, which it inherits if they
    are not given."""
    return {
        manifests.STATUS: status,
        manifests.ENTRY_SNAPSHOT: numbers.get("snapshot"),
        manifests.ENTRY_SEQUENCE: numbers.get("sequence"),
        manifests.ENTRY_FILE_SEQUENCE: numbers.get("file_sequence"),
        manifests.DATA_FILE: {
            manifests.FILE_PATH: path,
            manifests.PARTITION: {1000: region},
            manifests.RECORD_COUNT: rows,
        },
    }


class SmallManifests:
    """Writes what an engine writes that appends without merging: a manifest of its own for each
    append."""

    def __init__(self, client: Iceberg, path: str = T1) -> None:
        self.client = client
        self._path = path
        self._count = 0

    @property
    def metadata(self) -> dict[str, Any]:
        return dict(self.client.load(self._path)["metadata"])

    def put(self, name: str, raw: bytes) -> str:
        path = f"{self.metadata['location']}/metadata/{name}"
        self.client.world.storages.files[path] = (raw, self.client.world.clock.now_ms())
        return path

    def listed(self) -> list[avro.Record]:
        """The manifests of the current snapshot."""
        metadata = self.metadata
        found = [one for one in metadata["snapshots"] if one["snapshot-id"] == metadata.get("current-snapshot-id")]
        return avro.read(self.client.world.storages.files[found[0]["manifest-list"]][0]) if found else []

    def files(self) -> dict[str, tuple[Any, ...]]:
        """What the current snapshot says of each live file: its entry's numbers, inherited if need
        be, and its description."""
        found = dict[str, tuple[Any, ...]]()
        for manifest in self.listed():
            for one in avro.read(self.client.world.storages.files[manifest[manifests.PATH]][0]):
                if one[manifests.STATUS] != manifests.REMOVED:
                    inherited = (
                        manifest[manifests.ADDED_SNAPSHOT],
                        manifest[manifests.SEQUENCE],
                        manifest[manifests.SEQUENCE],
                    )
                    own = [
                        one[id]
                        for id in (manifests.ENTRY_SNAPSHOT, manifests.ENTRY_SEQUENCE, manifests.ENTRY_FILE_SEQUENCE)
                    ]
                    numbers = [mine if mine is not None else other for mine, other in zip(own, inherited, strict=True)]
                    path = one[manifests.DATA_FILE][manifests.FILE_PATH]
                    assert path not in found
                    found[path] = (*numbers, one[manifests.DATA_FILE])
        return found

    def append(
        self, entries: list[avro.Record] | None = None, schema: dict[str, Any] = BY_REGION, **changes: Any
    ) -> str:
        """Commits a snapshot with one manifest more, and returns the manifest's path. ``changes``:
        members of its record in the list, by name."""
        self._count += 1
        before = self.listed()
        metadata = self.metadata
        id = metadata["last-sequence-number"] + 1
        current = metadata.get("current-snapshot-id")
        parent = None if current in (None, -1) else current
        entries = (
            [entry(f"data/{self._count:03}.parquet", "eu" if self._count % 2 else None)] if entries is None else entries
        )
        raw = changes.pop("raw", None) or avro.write(entries, schema, {}, SYNC)
        path = changes.pop("path", "") or self.put(f"{self._count:03}-m0.avro", raw)
        record = dict.fromkeys(manifests.REQUIRED, 0) | {
            manifests.PATH: path, manifests.LENGTH: len(raw), manifests.ADDED_SNAPSHOT: id,
            manifests.SEQUENCE: id, manifests.MIN_SEQUENCE: id, 504: len(entries), 512: len(entries),
            **changes.pop("record", {}),
        }  # fmt: skip
        list_path = self.put(f"snap-{id}-{self._count}.avro", avro.write([record, *before], manifests.SCHEMA, {}, SYNC))
        members = {"manifest-list": list_path, "timestamp-ms": self.client.world.clock.now_ms(), **changes}
        answer = self.client.commit(
            add_snapshot(id, parent, id, **members), set_ref(id), require=[at_ref(parent)], path=self._path
        )
        assert answer.status == 200, answer.text
        self.client.world.clock.now += 1_000
        return path
