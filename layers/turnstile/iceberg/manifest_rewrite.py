"""Puts small manifests of a table together, as a change of the catalog: new manifests, a manifest
list, a metadata file, and one swap of the HEAD. The snapshot is a ``replace`` of branch main, with
the same data files.

It yields to other writers: the replaced manifests are chosen anew for each attempt, from the list
that the attempt replaces. New manifests are used again as long as the list still has all manifests
that they replace, and an append that comes second is merged (``append_merger.py``). No file is
removed here; gc removes files without a name.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import IcebergTable
from turnstile.catalog.core.paths import Path, dotted_name
from turnstile.catalog.reader import View
from turnstile.iceberg.core import updates as u
from turnstile.iceberg.core.files import avro, manifest_rewrite, manifests
from turnstile.iceberg.core.files.manifest_rewrite import LiveFile, Sizes
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.partition import PartitionSpec
from turnstile.iceberg.core.snapshots import MAIN, Snapshot
from turnstile.iceberg.core.table_updates import apply_updates
from turnstile.iceberg.files import MetadataFiles
from turnstile.store.core.errors import InvalidRequest, OutcomeUnknown, TurnstileError
from turnstile.store.core.locations import normalise
from turnstile.store.ports import Storages, World

MAX_LIST_BYTES: Final = 16 * 1024 * 1024
MAX_FILES: Final = 50_000
"""The number of data files that one commit describes anew; the next run takes the rest."""

MAX_BYTES: Final = 32 * 1024 * 1024
"""Bytes of these descriptions, which are held in memory."""


class Rewritten(NamedTuple):
    """Paths of the manifests that a commit replaced, and of its new ones."""

    replaced: tuple[str, ...] = ()
    created: tuple[str, ...] = ()


class _Group(NamedTuple):
    """Manifests with entries of the same schema."""

    spec: PartitionSpec
    schema: Any
    types: tuple[Any, ...]
    listed: list[avro.Record]
    files: list[LiveFile]


class _Written(NamedTuple):
    """New manifests (records of the list to come), and the paths of the replaced ones."""

    snapshot_id: int
    records: tuple[avro.Record, ...]
    sources: frozenset[str]
    entries: int


class _Reader:
    """Reads manifest lists and manifests in the table's own location."""

    def __init__(self, storages: Storages) -> None:
        self._storages = storages

    def read_list(self, metadata: TableMetadata, snapshot: Snapshot) -> list[avro.Record]:
        """The records of a manifest list; raises InvalidRequest if one has members that would be
        lost, or lacks some."""
        listed = avro.read(self.read(metadata, snapshot.manifest_list, MAX_LIST_BYTES))
        for entry in listed:
            complete = all(entry.get(id) is not None for id in manifests.REQUIRED)
            if not complete or not set(entry) <= manifests.KNOWN:
                raise InvalidRequest("the manifest list has members that are not known", field="manifest-list")
        return listed

    def read(self, metadata: TableMetadata, path: str, most_bytes: int) -> bytes:
        path = normalise(path)
        if not path.startswith(f"{normalise(metadata.location)}/"):
            raise InvalidRequest(f"{path[:200]} is outside the table's location", field="manifest-list")
        folder, _, name = path.rpartition("/")
        file = self._storages.open(folder).read(name, most_bytes + 1)
        if file is None or len(file[0]) > most_bytes:
            why = "is missing" if file is None else f"has more than {most_bytes} bytes"
            raise InvalidRequest(f"{path[:200]} {why}", field="manifest-list")
        return file[0]


class ManifestRewrite:
    """Puts manifests of tables together that ask for it. Any number may run at once, and each may
    die at any point: it leaves at most files that nothing names, which gc removes."""

    def __init__(self, world: World, committer: Committer, files: MetadataFiles) -> None:
        self._world = world
        self._committer = committer
        self._files = files
        self._reader = _Reader(world.storages)

    def due(self, table: IcebergTable) -> tuple[str, ...]:
        """Returns the paths of the manifests of ``table`` that are to be put together; none if it
        does not ask for it, or too few are small. Changes nothing. Reads the metadata and the
        manifest list. Raises as ``MetadataFiles.table``, and InvalidRequest for a property that is
        no number, or a manifest list that cannot be read or is not there.
        """
        metadata = self._files.table(table)
        current = _current(metadata)
        if current is None:
            return ()
        listed = manifest_rewrite.candidates(self._reader.read_list(metadata, current), metadata)
        return tuple(entry[manifests.PATH] for entry in listed)

    def rewrite(self, catalog: str, path: Path, table_id: str) -> Rewritten:
        """Puts the due manifests of the table ``table_id`` at ``path`` together, up to
        ``MAX_FILES`` and ``MAX_BYTES``, and returns them; none if another table is there by now.
        Raises as ``due``, and as ``Committer.commit``.
        """
        run = _Run(self._world, self._files, path, table_id)
        try:
            self._committer.commit(catalog, run.change)
        except OutcomeUnknown:
            raise  # the HEAD may lead to the last files (I9)
        except TurnstileError:
            self._forget(run.files)
            raise
        self._forget([file for file in run.files if file not in run.kept])
        return run.done

    def _forget(self, paths: list[str]) -> None:
        for path in paths:
            try:
                self._files.delete(path)
            except TurnstileError:  # gc removes it
                return


class _Run:
    """The attempts of one commit.

    Attributes:
        files: all files that were written so far.
        kept: the files that the latest attempt leads to.
        done: the replacement of the latest attempt.
    """

    def __init__(self, world: World, metadata_files: MetadataFiles, path: Path, table_id: str) -> None:
        self._world = world
        self._metadata_files = metadata_files
        self._reader = _Reader(world.storages)
        self._path = path
        self._table_id = table_id
        self._written: _Written | None = None
        self.files: list[str] = []
        self.kept: frozenset[str] = frozenset()
        self.done = Rewritten()

    def change(self, view: View) -> Edit | None:
        """The change, computed from one tree; None where nothing is due."""
        self.kept = frozenset()
        self.done = Rewritten()
        entry = view.tree.find(self._path)
        before = view.entity(entry.obj) if entry is not None else None
        if not isinstance(before, IcebergTable) or before.table_id != self._table_id:
            return None
        metadata = self._metadata_files.table(before)
        current = _current(metadata)
        if current is None:
            return None
        listed = self._reader.read_list(metadata, current)
        written = self._manifests(metadata, listed)
        if not written.records:
            return None
        snapshot = self._snapshot(metadata, current, listed, written)
        now_ms = self._world.clock.now_ms()
        updates = u.AddSnapshot(snapshot), _main(snapshot, metadata)
        file = self._metadata_files.write(
            before.location, apply_updates(metadata, updates, now_ms, before.metadata), before
        )
        self.files.append(file.path)
        created = tuple(record[manifests.PATH] for record in written.records)
        self.kept = frozenset({*created, snapshot.manifest_list, file.path})
        self.done = Rewritten(tuple(sorted(written.sources)), created)
        entity = msgspec.structs.replace(before, metadata=file.path, digest=file.digest, updated=now_ms)
        return Edit(f"rewrite manifests of {dotted_name(*self._path)}"[:200], put={self._path: entity})

    def _manifests(self, metadata: TableMetadata, listed: list[avro.Record]) -> _Written:
        """The manifests of an earlier attempt, if they still stand for manifests of the list; else
        new ones."""
        if self._written is not None and self._written.sources <= {entry[manifests.PATH] for entry in listed}:
            return self._written
        snapshot_id = (int(self._world.ids.uuid().replace("-", ""), 16) >> 66) + 1
        records = list[avro.Record]()
        sources = set[str]()
        entries = 0
        target_bytes = Sizes.of(metadata.properties).target_bytes
        for group in self._groups(metadata, manifest_rewrite.candidates(listed, metadata)):
            size_bytes = sum(entry[manifests.LENGTH] for entry in group.listed)
            parts = manifest_rewrite.in_order(group.files, max(1, -(-size_bytes // target_bytes)))
            if len(parts) >= len(group.listed):
                continue
            records += [self._write(metadata, group, part, snapshot_id) for part in parts]
            sources |= {entry[manifests.PATH] for entry in group.listed}
            entries += len(group.files)
        self._written = _Written(snapshot_id, tuple(records), frozenset(sources), entries)
        return self._written

    def _groups(self, metadata: TableMetadata, chosen: tuple[avro.Record, ...]) -> list[_Group]:
        """Reads manifests, as many as one commit may take. A manifest is left out if its entries
        cannot be written again."""
        specs = {spec.spec_id: spec for spec in metadata.partition_specs}
        groups: dict[tuple[int, bytes], _Group] = {}
        files = size_bytes = 0
        for entry in chosen:
            if files >= MAX_FILES or size_bytes >= MAX_BYTES:
                break
            raw = self._reader.read(metadata, entry[manifests.PATH], manifest_rewrite.MAX_TARGET_BYTES)
            text = avro.header(raw)["avro.schema"]
            spec = specs[entry[manifests.SPEC_ID]]
            schema: Any = msgspec.json.decode(text)
            types = manifest_rewrite.partition_fields(schema, spec)
            if types is None:
                continue
            live = [
                file
                for record, content in avro.with_content(raw, manifest_rewrite.members_of(spec), manifests.DATA_FILE)
                if (file := manifest_rewrite.live_file(record, content, entry, spec)) is not None
            ]
            key = spec.spec_id, msgspec.json.encode(schema)
            group = groups.setdefault(key, _Group(spec, schema, types, [], []))
            group.listed.append(entry)
            group.files.extend(live)
            files += len(live)
            size_bytes += sum(len(file.content) for file in live)
        return list(groups.values())

    def _write(self, metadata: TableMetadata, group: _Group, files: list[LiveFile], snapshot_id: int) -> avro.Record:
        unique = self._world.ids.uuid()
        sync = bytes.fromhex(unique.replace("-", ""))
        raw = manifest_rewrite.manifest(files, group.schema, group.spec, metadata, sync)
        path = self._put(metadata, f"metadata/{unique}-m0.avro", raw)
        return manifest_rewrite.listed_manifest(
            files, group.spec.spec_id, group.types, path=path, size_bytes=len(raw), snapshot_id=snapshot_id
        )

    def _snapshot(
        self, metadata: TableMetadata, current: Snapshot, listed: list[avro.Record], written: _Written
    ) -> Snapshot:
        """The new snapshot, its manifest list written."""
        sequence = metadata.last_sequence_number + 1
        unique = self._world.ids.uuid()
        numbered = [{**record, manifests.SEQUENCE: sequence} for record in written.records]
        kept = [entry for entry in listed if entry[manifests.PATH] not in written.sources]
        header = {
            "snapshot-id": str(written.snapshot_id),
            "parent-snapshot-id": str(current.snapshot_id),
            "sequence-number": str(sequence),
            "format-version": str(manifest_rewrite.FORMAT),
        }
        raw = avro.write([*numbered, *kept], manifests.SCHEMA, header, bytes.fromhex(unique.replace("-", "")))
        path = self._put(metadata, f"metadata/snap-{written.snapshot_id}-1-{unique}.avro", raw)
        return manifest_rewrite.rewritten_snapshot(
            current, snapshot_id=written.snapshot_id, sequence=sequence, manifest_list=path,
            now_ms=self._world.clock.now_ms(), schema_id=metadata.current_schema_id, created=len(numbered),
            kept=len(kept), gone=len(written.sources), entries=written.entries,
        )  # fmt: skip

    def _put(self, metadata: TableMetadata, name: str, raw: bytes) -> str:
        path = f"{metadata.location}/{name}"
        self._world.storages.open(metadata.location).put_if_absent(name, raw)
        self.files.append(path)
        return path


def _current(metadata: TableMetadata) -> Snapshot | None:
    """The snapshot with manifests that may be put together; None if the table does not ask for it,
    has none, or it is encrypted."""
    current = metadata.snapshot(metadata.current_snapshot_id)
    if not manifest_rewrite.rewrites(metadata) or current is None or current.key_id is not None:
        return None
    return current


def _main(snapshot: Snapshot, metadata: TableMetadata) -> u.SetSnapshotRef:
    """The update that leads branch main to ``snapshot`` and keeps the branch's settings of
    expiry."""
    update = u.SetSnapshotRef(MAIN, snapshot.snapshot_id, "branch")
    ref = metadata.refs[MAIN]
    return msgspec.structs.replace(
        update,
        max_ref_age_ms=ref.max_ref_age_ms,
        max_snapshot_age_ms=ref.max_snapshot_age_ms,
        min_snapshots_to_keep=ref.min_snapshots_to_keep,
    )
