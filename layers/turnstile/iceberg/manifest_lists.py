"""Checks the manifest lists of snapshots that a commit adds: they exist, and are young enough that
gc has removed none of their files (I10).

gc removes files that no metadata file names after a grace. A writer that was frozen for longer
names files that are gone, and its commit would leave a table that cannot be read. The reliable age
of a snapshot is the storage's time of its list; ``timestamp-ms`` is of the writer's clock. Its
other files were written before it, so half of the grace is a margin for them.

The answer is 400, and it comes before any requirement is checked. After 409 Iceberg's clients load
the table again, write a new list, and name the old manifests in it (Java's ``SnapshotProducer``
retries ``CommitFailedException`` alone, PyIceberg's ``Transaction`` likewise); that list is young.
After 400 both give the commit up, so that a second run writes all files again. A snapshot that the
table has already is not checked: after 400 Java deletes its files, which are in use then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from turnstile.iceberg.core import updates as u
from turnstile.iceberg.core.expiry import may_be_collected, removes
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.locations import normalise
from turnstile.store.ports import Clock, Stat, Storages

REMEDY: Final = "run the whole write again, with new data files; the present ones may have been removed"


class ManifestLists:
    """Looks at the manifest lists of a commit.

    Lists outside of the table's location are not looked at: gc removes nothing there, and the
    service may have no rights.
    """

    def __init__(self, storages: Storages, clock: Clock, unnamed_ms: int) -> None:
        """``unnamed_ms``: for how long gc leaves files that nothing names."""
        self._storages = storages
        self._clock = clock
        self._unnamed_ms = unnamed_ms

    def require(self, base: TableMetadata, updates: Sequence[u.TableUpdate]) -> None:
        """Raises InvalidRequest unless all lists that ``updates`` bring to ``base`` can be relied
        on: one request each."""
        for update in updates:
            if isinstance(update, u.AddSnapshot) and base.snapshot(update.snapshot.snapshot_id) is None:
                path = update.snapshot.manifest_list
                if _below(path, base.location):
                    folder, _, name = normalise(path).rpartition("/")
                    self.judge(base, path, self._storages.open(folder).stat(name))

    def judge(self, base: TableMetadata, path: str, file: Stat | None) -> None:
        """As ``require``, for one list; ``file`` is its entry in storage, None if it is gone."""
        if file is None:
            raise InvalidRequest(f"the manifest list {path} is not there", field="updates", remedy=REMEDY)
        age_ms = self._clock.now_ms() - file.modified_ms
        if removes(base.properties) and may_be_collected(age_ms, self._unnamed_ms):
            raise InvalidRequest(
                f"the manifest list {path} was written {age_ms // 3_600_000} h ago, so that files of this snapshot may "
                f"be gone",
                field="updates",
                remedy=REMEDY,
            )


def _below(path: str, location: str) -> bool:
    """Whether the list is in the table's location; not where its path is none that the service
    knows."""
    try:
        return normalise(path).startswith(f"{normalise(location)}/")
    except InvalidRequest:
        return False
