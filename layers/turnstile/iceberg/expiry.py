"""Expiry of a table's snapshots as a change of the catalog: a new metadata file, and one swap of
the HEAD.

The expired parts are computed anew for each attempt, from the metadata that the attempt replaces: a
new tag, or a branch that went back to an old snapshot, keeps its snapshots. No other file is
touched; gc removes files without a name (``gc/kinds/iceberg_files.py``).
"""

from __future__ import annotations

import msgspec

from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import IcebergTable
from turnstile.catalog.core.paths import Path, dotted_name
from turnstile.catalog.reader import View
from turnstile.iceberg.core.expiry import Expired, expired_parts, expires
from turnstile.iceberg.core.table_updates import apply_updates
from turnstile.iceberg.files import MetadataFiles
from turnstile.store.core.errors import OutcomeUnknown, TurnstileError
from turnstile.store.ports import World


class Expiry:
    """Expires snapshots of tables that ask for it. Any number may run at once, and each may die at
    any point: it leaves at most a metadata file that nothing names, which gc removes."""

    def __init__(self, world: World, committer: Committer, files: MetadataFiles) -> None:
        self._world = world
        self._committer = committer
        self._files = files

    def due(self, table: IcebergTable) -> Expired:
        """The expired parts of ``table``; none if it does not ask for expiry. Changes nothing. One
        read, none when cached. Raises as ``MetadataFiles.table``, and InvalidRequest for a property
        that is no number.
        """
        metadata = self._files.table(table)
        return expired_parts(metadata, self._world.clock.now_ms()) if expires(metadata.properties) else Expired()

    def expire(self, catalog: str, path: Path, table_id: str) -> Expired:
        """Removes the expired parts of the table ``table_id`` at ``path``, and returns them; none
        if another table is there by now. Raises as ``due``, and as ``Committer.commit``."""
        written: list[str] = []
        done = Expired()

        def change(view: View) -> Edit | None:
            nonlocal done
            done = Expired()
            entry = view.tree.find(path)
            before = view.entity(entry.obj) if entry is not None else None
            if not isinstance(before, IcebergTable) or before.table_id != table_id:
                return None
            gone = self.due(before)
            now_ms = self._world.clock.now_ms()
            if not gone.updates:
                return None
            metadata = apply_updates(self._files.table(before), gone.updates, now_ms, before.metadata)
            file = self._files.write(before.location, metadata, before)
            written.append(file.path)
            done = gone
            entity = msgspec.structs.replace(before, metadata=file.path, digest=file.digest, updated=now_ms)
            return Edit(f"expire snapshots of {dotted_name(*path)}"[:200], put={path: entity})

        try:
            self._committer.commit(catalog, change)
        except OutcomeUnknown:
            raise  # the HEAD may lead to the last file (I9)
        except TurnstileError:
            self._forget(written)
            raise
        self._forget(written[:-1] if done.updates else written)
        return done

    def _forget(self, written: list[str]) -> None:
        for path in written:
            try:
                self._files.delete(path)
            except TurnstileError:  # gc removes it
                return
