"""The commit of one table, and the updates that it makes to the table as it is now."""

from __future__ import annotations

from collections.abc import Sequence

from turnstile.iceberg.append_merger import AppendMerger, MergedAppend
from turnstile.iceberg.context import Context
from turnstile.iceberg.core import updates as u
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.requirements import CommitFailed, check
from turnstile.iceberg.core.table_updates import TableChange
from turnstile.iceberg.manifest_lists import ManifestLists


class ChangeJudge:
    """Checks the commits of one request against the table that they change."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.lists = ManifestLists(context.world.storages, context.world.clock, context.catalog.limits.unnamed_ms)

    def updates(self, base: TableMetadata, change: TableChange) -> tuple[Sequence[u.TableUpdate], MergedAppend | None]:
        """Returns the updates to apply to ``base``, and the manifest list that is to be written for
        them. Raises CommitFailed, and InvalidRequest for a snapshot whose files may be gone.
        """
        try:
            for requirement in change.requirements:
                check(requirement, base)
        except CommitFailed:
            context = self._context
            merger = AppendMerger(context.world.storages, context.world.ids, context.files.manifest_lists)
            merged = merger.merge(base, change.requirements, change.updates, self.lists.judge)
            if merged is None:
                self.lists.require(base, change.updates)
                raise
            return merged.updates, merged
        self.lists.require(base, change.updates)
        return change.updates, None
