"""Appends of several writers merged into one history, unless the table has
``turnstile.merge-appends=false`` (ADR 14).

The slower of two writers with the same base would retry with the same new manifests, with a later
sequence number, in front of the manifests that are there now. Only the manifest list has to be
written anew, so the catalog writes it instead of refusing the commit. It does so only if

* the format version is 2, and the commit is one snapshot with operation ``append`` for branch main,
  nothing else;
* its writer does not rely on the refusal to notice others (``WATCHFUL``);
* its parent is an ancestor of main's current snapshot, and nothing but that is stale;
* its manifest list is its parent's plus new data manifests that hold nothing but added files, which
  inherit their
  sequence numbers from the list.

Each member of the snapshot that its writer computed from its base (parent, sequence number, time,
schema, totals) is computed anew from the state it is put on, as a writer that tries again does it.

Any other commit, and any file that cannot be read, is a conflict as if there were no merging.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from turnstile.iceberg.core import updates as u
from turnstile.iceberg.core.files import avro, manifest_lists, manifests
from turnstile.iceberg.core.files.manifest_lists import ManifestList
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.requirements import AssertRefSnapshotId, AssertTableUuid, TableRequirement
from turnstile.iceberg.core.snapshots import MAIN, Snapshot
from turnstile.store.cache import Lru
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.locations import normalise
from turnstile.store.ports import Ids, Stat, Storages

MERGE: Final = "turnstile.merge-appends"
"""``false``: no append is merged; ``true``: appends of ``WATCHFUL`` writers as well."""

WATCHFUL: Final = ("kafka.connect.",)
"""Prefixes of the members in summaries of writers that rely on the refusal: Kafka Connect's sink
compares the offsets in the parent's summary with its own before it commits, and would not notice
that another task's snapshot came in between.
"""

MAX_MANIFESTS: Final = 16
"""New manifests of one commit that are read."""

MAX_BYTES: Final = 8 * 1024 * 1024
"""Bytes of a manifest or manifest list that is read."""

_CACHE_BYTES: Final = 32 * 1024 * 1024

_TOTALS: Final = ("records", "data-files", "files-size")


Judge = Callable[[TableMetadata, str, Stat | None], None]
"""Raises where a manifest list that a commit names cannot be relied on
(``manifest_lists.ManifestLists.judge``)."""


class MergedAppend(msgspec.Struct, frozen=True):
    """The replacement of a commit, with the manifest list that is to be written for it: its path,
    its name below the table's location, and its bytes."""

    updates: tuple[u.TableUpdate, ...]
    manifest_list: str
    name: str
    content: bytes


class AppendMerger:
    """Merges an append into a table that moved on.

    Args:
        lists: manifest lists that the process has read or written, by path: a file never changes.
    """

    def __init__(self, storages: Storages, ids: Ids, lists: Lru[str, ManifestList] | None = None) -> None:
        self._storages = storages
        self._ids = ids
        self._lists = new_list_cache() if lists is None else lists

    def merge(
        self,
        base: TableMetadata,
        requirements: Sequence[TableRequirement],
        updates: Sequence[u.TableUpdate],
        judge: Judge | None = None,
    ) -> MergedAppend | None:
        """Returns the commit rebased onto ``base``, another version than the one it was made for;
        None when it cannot be merged. Its manifest list is not written yet. Raises the errors of
        ``judge`` for the list that the commit names.
        """
        append = _append(base, requirements, updates)
        current = base.snapshot(base.current_snapshot_id)
        if append is None or current is None:
            return None
        snapshot = append.snapshot
        try:
            listed, file = self._file(base, snapshot.manifest_list)
        except (TurnstileError, _NotMergeable):
            return None
        if judge is not None:
            judge(base, snapshot.manifest_list, file)
        if file is None:
            return None
        try:
            added = self._new_manifests(base, snapshot, listed)
            existing = self._list(base, current)
        except (TurnstileError, _NotMergeable):
            return None
        sequence = base.last_sequence_number + 1
        renumbered = [{**entry, manifests.SEQUENCE: sequence, manifests.MIN_SEQUENCE: sequence} for entry in added]
        name, content = self._new_list(base, snapshot, current, sequence, existing.after(renumbered))
        path = f"{base.location}/{name}"
        rebased = msgspec.structs.replace(
            snapshot,
            parent_snapshot_id=current.snapshot_id,
            sequence_number=sequence,
            manifest_list=path,
            timestamp_ms=max(snapshot.timestamp_ms, current.timestamp_ms),
            schema_id=base.current_schema_id,
            summary=_summary(snapshot, current),
        )
        return MergedAppend((u.AddSnapshot(rebased), *updates[1:]), path, name, content)

    def _new_manifests(self, base: TableMetadata, snapshot: Snapshot, listed: bytes) -> list[avro.Record]:
        """The manifests that ``snapshot``, whose list has the bytes ``listed``, adds to its
        parent's; raises _NotMergeable unless all are as required above."""
        parent = base.snapshot(snapshot.parent_snapshot_id)
        before = self._list(base, parent) if parent is not None else None
        added = manifest_lists.new_entries(listed, before)
        if added is None:  # its writer encodes or orders the parent's entries otherwise
            entries = manifest_lists.parse(listed).entries()
            added = [entry for entry in entries if entry[manifests.ADDED_SNAPSHOT] == snapshot.snapshot_id]
            others = [entry for entry in entries if entry[manifests.ADDED_SNAPSHOT] != snapshot.snapshot_id]
            _require(_paths(others) == _paths(before.entries() if before is not None else []))
        _require(1 <= len(added) <= MAX_MANIFESTS)
        specs = {spec.spec_id for spec in base.partition_specs}
        for entry in added:
            _require(entry[manifests.ADDED_SNAPSHOT] == snapshot.snapshot_id)
            _require(entry[manifests.CONTENT] == 0)
            _require(entry[manifests.EXISTING_FILES] == 0 and entry[manifests.DELETED_FILES] == 0)
            _require(entry[manifests.SEQUENCE] == entry[manifests.MIN_SEQUENCE] == snapshot.sequence_number)
            _require(entry[manifests.SPEC_ID] in specs and entry.get(manifests.KEY_METADATA) is None)
            for file in avro.read(self._read(base, entry[manifests.PATH])):
                _require(file[manifests.STATUS] == manifests.ADDED)
                _require(file.get(manifests.ENTRY_SNAPSHOT) in (None, snapshot.snapshot_id))
                _require(file.get(manifests.ENTRY_SEQUENCE) is None)
                _require(file.get(manifests.ENTRY_FILE_SEQUENCE) is None)
        return added

    def _list(self, base: TableMetadata, snapshot: Snapshot) -> ManifestList:
        """The manifest list of a snapshot of the table: one read, none when cached. Raises
        _NotMergeable and Unreadable."""
        path = snapshot.manifest_list
        known = self._lists.get(path)
        if known is None:
            known = manifest_lists.parse(self._read(base, path))
            self._keep(path, known)
        return known

    def _keep(self, path: str, content: ManifestList) -> None:
        self._lists.put(path, content, 2 * len(content.block.content) + 256)

    def _read(self, base: TableMetadata, path: str) -> bytes:
        raw, file = self._file(base, path)
        _require(file is not None)
        return raw

    def _file(self, base: TableMetadata, path: str) -> tuple[bytes, Stat | None]:
        """A file of the table; no Stat where it is not there. Raises _NotMergeable where it is too
        large, or not the table's."""
        path = normalise(path)
        _require(path.startswith(f"{normalise(base.location)}/"))
        folder, _, name = path.rpartition("/")
        file = self._storages.open(folder).read(name, MAX_BYTES + 1)
        if file is None:
            return b"", None
        _require(len(file[0]) <= MAX_BYTES)
        return file

    def _new_list(
        self, base: TableMetadata, snapshot: Snapshot, parent: Snapshot, sequence: int, listed: ManifestList
    ) -> tuple[str, bytes]:
        """The name and the bytes of a manifest list."""
        unique = self._ids.uuid()
        header = {
            "snapshot-id": str(snapshot.snapshot_id),
            "parent-snapshot-id": str(parent.snapshot_id),
            "sequence-number": str(sequence),
            "format-version": "2",
        }
        raw = listed.file(header, bytes.fromhex(unique.replace("-", "")))
        name = f"metadata/snap-{snapshot.snapshot_id}-1-{unique}.avro"
        self._keep(f"{base.location}/{name}", listed)
        return name, raw


def new_list_cache() -> Lru[str, ManifestList]:
    """Returns a cache without manifest lists."""
    return Lru(_CACHE_BYTES)


class _NotMergeable(Exception):
    """The commit is no plain append."""


def _require(condition: bool) -> None:  # noqa: FBT001 - an assertion
    if not condition:
        raise _NotMergeable


def _paths(entries: list[avro.Record]) -> list[str]:
    return sorted(entry[manifests.PATH] for entry in entries)


def _append(
    base: TableMetadata, requirements: Sequence[TableRequirement], updates: Sequence[u.TableUpdate]
) -> u.AddSnapshot | None:
    """The snapshot of a commit that is a plain append to an older state of main, and nothing
    else."""
    if base.format_version != 2 or len(updates) != 2:
        return None
    added, ref = updates
    if not isinstance(added, u.AddSnapshot) or not isinstance(ref, u.SetSnapshotRef):
        return None
    snapshot = added.snapshot
    if (ref.ref_name, ref.type, ref.snapshot_id) != (MAIN, "branch", snapshot.snapshot_id):
        return None
    if snapshot.summary.get("operation") != "append" or snapshot.key_id is not None:
        return None
    watchful = any(name.startswith(WATCHFUL) for name in snapshot.summary)
    if base.properties.get(MERGE, "false" if watchful else "true").lower() != "true":
        return None
    if base.snapshot(snapshot.snapshot_id) is not None or not _descends(base, snapshot.parent_snapshot_id):
        return None
    return added if all(_holds(requirement, base, snapshot) for requirement in requirements) else None


def _holds(requirement: TableRequirement, base: TableMetadata, snapshot: Snapshot) -> bool:
    """Whether the requirement holds, or only fails because main moved on."""
    match requirement:
        case AssertRefSnapshotId(ref, id):
            return ref == MAIN and id == snapshot.parent_snapshot_id
        case AssertTableUuid(uuid):
            return uuid.lower() == base.table_uuid.lower()
        case _:
            return False


def _descends(base: TableMetadata, ancestor: int | None) -> bool:
    """Whether main's history includes ``ancestor``; None stands before the first snapshot of a
    complete history."""
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in base.snapshots}
    id = base.current_snapshot_id
    for _ in range(len(parents) + 1):
        if id == ancestor:
            return True
        if id not in parents:
            return False
        id = parents[id]
    return False


def _summary(snapshot: Snapshot, current: Snapshot) -> dict[str, str]:
    """The summary with totals that continue the totals of ``current``; a total that cannot be
    computed is left out."""
    summary = {name: value for name, value in snapshot.summary.items() if not name.startswith("total-")}
    summary |= {name: value for name, value in current.summary.items() if name.startswith("total-")}
    for what in _TOTALS:
        before = current.summary.get(f"total-{what}", "")
        added = snapshot.summary.get(f"added-{what}", "0")
        summary.pop(f"total-{what}", None)
        if before.isdigit() and added.isdigit():
            summary[f"total-{what}"] = str(int(before) + int(added))
    return summary
