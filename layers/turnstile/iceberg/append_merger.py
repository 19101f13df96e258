"""Appends of several writers made one history, for tables that ask for it (``turnstile.merge-appends=true``).

Two writers append to the same base; one is faster. The slower one's commit is what its client would send after a retry:
the same new manifests, with a later sequence number, in front of the manifests that are there now. All that has to be
written anew for it is the manifest list, so the catalog does it instead of refusing.

It is done only where nothing can go wrong by it (ADR 14):

* format version 2, and the commit is one snapshot with operation ``append`` for branch main, nothing else;
* its parent is an ancestor of what main leads to now, and nothing but that is stale;
* its manifest list is its parent's and new data manifests besides, which hold nothing but added files that inherit
  their sequence numbers from the list.

Anything else, or anything that cannot be read, is a conflict as if there were no merging.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from turnstile.iceberg.core import avro
from turnstile.iceberg.core import avro as m
from turnstile.iceberg.core import updates as u
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.requirements import (
    AssertRefSnapshotId,
    AssertTableUuid,
    CommitFailed,
    TableRequirement,
    check,
)
from turnstile.iceberg.core.snapshots import MAIN, Snapshot
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.locations import normalise
from turnstile.store.ports import Ids, Storages

MERGE: Final = "turnstile.merge-appends"
"""The table property that allows it. It is no default: a writer may rely on the refusal to notice others."""

MAX_MANIFESTS: Final = 16
"""New manifests of one commit that are read."""

MAX_BYTES: Final = 8 * 1024 * 1024
"""Bytes of a manifest or manifest list that is read."""

_TOTALS: Final = ("records", "data-files", "files-size")


class MergedAppend(msgspec.Struct, frozen=True):
    """What to apply instead, and the manifest list that was written for it."""

    updates: tuple[u.TableUpdate, ...]
    written: str


class AppendMerger:
    """Merges appends."""

    def __init__(self, storages: Storages, ids: Ids) -> None:
        self._storages, self._ids = storages, ids

    def merged(
        self, base: TableMetadata, requirements: Sequence[TableRequirement], updates: Sequence[u.TableUpdate]
    ) -> MergedAppend | None:
        """The commit rebased onto ``base``, which it was not made for; None when it cannot be merged.

        Raises:
            StorageFault: the new manifest list could not be written.
        """
        asked = _append(base, requirements, updates)
        current = base.snapshot(base.current_snapshot_id)
        if asked is None or current is None:
            return None
        snapshot = asked.snapshot
        try:
            fresh = self._fresh(base, snapshot)
            kept = self._entries(base, current.manifest_list)
        except (TurnstileError, _NotMergeable):
            return None
        sequence = base.last_sequence_number + 1
        renumbered = [{**entry, m.SEQUENCE: sequence, m.MIN_SEQUENCE: sequence} for entry in fresh]
        path = self._write(base, snapshot, current, sequence, [*renumbered, *kept])
        made = msgspec.structs.replace(
            snapshot,
            parent_snapshot_id=current.snapshot_id,
            sequence_number=sequence,
            manifest_list=path,
            timestamp_ms=max(snapshot.timestamp_ms, current.timestamp_ms),
            summary=_summary(snapshot, current),
        )
        return MergedAppend((u.AddSnapshot(made), *updates[1:]), path)

    def _fresh(self, base: TableMetadata, snapshot: Snapshot) -> list[avro.Record]:
        """The manifests that ``snapshot`` adds to its parent's, all of them judged."""
        parent = base.snapshot(snapshot.parent_snapshot_id)
        entries = self._entries(base, snapshot.manifest_list)
        before = self._entries(base, parent.manifest_list) if parent is not None else []
        fresh = [entry for entry in entries if entry[m.ADDED_SNAPSHOT] == snapshot.snapshot_id]
        others = [entry for entry in entries if entry[m.ADDED_SNAPSHOT] != snapshot.snapshot_id]
        _require(1 <= len(fresh) <= MAX_MANIFESTS)
        _require(sorted(one[m.PATH] for one in others) == sorted(one[m.PATH] for one in before))
        specs = {spec.spec_id for spec in base.partition_specs}
        for entry in fresh:
            _require(entry[m.CONTENT] == 0 and entry[m.EXISTING_FILES] == 0 and entry[m.DELETED_FILES] == 0)
            _require(entry[m.SEQUENCE] == entry[m.MIN_SEQUENCE] == snapshot.sequence_number)
            _require(entry[m.SPEC_ID] in specs and entry.get(m.KEY_METADATA) is None)
            for file in avro.read(self._read(base, entry[m.PATH])):
                _require(file[m.STATUS] == m.ADDED)
                _require(file.get(m.ENTRY_SNAPSHOT) in (None, snapshot.snapshot_id))
                _require(file.get(m.ENTRY_SEQUENCE) is None and file.get(m.ENTRY_FILE_SEQUENCE) is None)
        return fresh

    def _entries(self, base: TableMetadata, path: str) -> list[avro.Record]:
        """The entries of a manifest list, if all of what they say can be said again."""
        found = avro.read(self._read(base, path))
        for entry in found:
            _require(set(entry) <= m.KNOWN and all(entry.get(id) is not None for id in m.REQUIRED))
        return found

    def _read(self, base: TableMetadata, path: str) -> bytes:
        """A file of the table."""
        path = normalise(path)
        _require(path.startswith(f"{base.location}/"))
        folder, _, name = path.rpartition("/")
        found = self._storages.open(folder).read(name, MAX_BYTES + 1)
        _require(found is not None and len(found[0]) <= MAX_BYTES)
        assert found is not None
        return found[0]

    def _write(
        self, base: TableMetadata, snapshot: Snapshot, parent: Snapshot, sequence: int, entries: list[avro.Record]
    ) -> str:
        unique = self._ids.uuid()
        about = {
            "snapshot-id": str(snapshot.snapshot_id),
            "parent-snapshot-id": str(parent.snapshot_id),
            "sequence-number": str(sequence),
            "format-version": "2",
        }
        raw = avro.write(entries, m.SCHEMA, about, bytes.fromhex(unique.replace("-", "")))
        name = f"metadata/snap-{snapshot.snapshot_id}-1-{unique}.avro"
        self._storages.open(base.location).put_if_absent(name, raw)
        return f"{base.location}/{name}"


class _NotMergeable(Exception):
    """Something about the commit is not that of a plain append."""


def _require(holds: bool) -> None:  # noqa: FBT001 - an assertion
    if not holds:
        raise _NotMergeable


def _append(
    base: TableMetadata, requirements: Sequence[TableRequirement], updates: Sequence[u.TableUpdate]
) -> u.AddSnapshot | None:
    """The snapshot of a commit that is a plain append to an older state of main, and nothing else."""
    if base.format_version != 2 or base.properties.get(MERGE, "false").lower() != "true" or len(updates) != 2:
        return None
    added, moved = updates
    if not isinstance(added, u.AddSnapshot) or not isinstance(moved, u.SetSnapshotRef):
        return None
    snapshot = added.snapshot
    if (moved.ref_name, moved.type, moved.snapshot_id) != (MAIN, "branch", snapshot.snapshot_id):
        return None
    if snapshot.summary.get("operation") != "append" or snapshot.key_id is not None:
        return None
    if base.snapshot(snapshot.snapshot_id) is not None or not _descends(base, snapshot.parent_snapshot_id):
        return None
    return added if all(_passes(one, base, snapshot) for one in requirements) else None


def _passes(requirement: TableRequirement, base: TableMetadata, snapshot: Snapshot) -> bool:
    """Whether nothing is stale but the head of main."""
    match requirement:
        case AssertRefSnapshotId(ref, id):
            return ref == MAIN and id == snapshot.parent_snapshot_id
        case AssertTableUuid():
            try:
                check(requirement, base)
            except CommitFailed:
                return False
            return True
        case _:
            return False


def _descends(base: TableMetadata, ancestor: int | None) -> bool:
    """Whether main's history leads to ``ancestor``; None is where every whole history begins."""
    known = {one.snapshot_id: one.parent_snapshot_id for one in base.snapshots}
    at = base.current_snapshot_id
    for _ in range(len(known) + 1):
        if at == ancestor:
            return True
        if at not in known:
            return False
        at = known[at]
    return False


def _summary(snapshot: Snapshot, current: Snapshot) -> dict[str, str]:
    """The summary with totals that count from what is there now; a total that cannot be told is left out."""
    made = {name: value for name, value in snapshot.summary.items() if not name.startswith("total-")}
    made |= {name: value for name, value in current.summary.items() if name.startswith("total-")}
    for what in _TOTALS:
        before, more = current.summary.get(f"total-{what}", ""), snapshot.summary.get(f"added-{what}", "0")
        made.pop(f"total-{what}", None)
        if before.isdigit() and more.isdigit():
            made[f"total-{what}"] = str(int(before) + int(more))
    return made
