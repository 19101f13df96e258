"""Commits with the net change of a table, for the log of the catalog's table or of the branch's."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from turnstile.branches.core.net_change import FileKey, NetChange, RowIds, commit_lines
from turnstile.branches.core.paths import Action
from turnstile.branches.core.registry import BranchRef, registry_with
from turnstile.catalog.create import UUID_PROPERTY
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.definition import BRANCHES_DOMAIN
from turnstile.delta.core.head import TableHead
from turnstile.delta.proposals import CommitRequest
from turnstile.store.core.names import staged_file, staged_path


class NetCommits:
    """Makes the commits of promotions and updates. ``principal``: the author."""

    def __init__(self, catalog: CatalogServices, principal: str) -> None:
        self._services = catalog
        self._world = catalog.world
        self._principal = principal

    def request(
        self,
        head: TableHead,
        operation: str,
        parameters: Mapping[str, object],
        moved: NetChange,
        *,
        new_files: Collection[FileKey] = (),
        renumbered: Collection[Action] = (),
        name: str = "",
    ) -> CommitRequest:
        """Returns the commit of ``moved`` that follows the latest one of ``head``. The paths of its
        files are valid in the log of that table. ``new_files`` get row ids, ``renumbered`` ones of
        the table get others; the table gets the full ``name``. A large commit is written to a
        staged file. Raises UnsupportedTable for a file with new ids that has no statistics."""
        version = head.latest + 1
        if "metaData" in moved.definition:
            moved.definition = {**moved.definition, "metaData": self._metadata(head, moved.definition["metaData"])}
        now = self._world.clock.now_ms()
        info = self._info(head, operation, parameters, moved, now)
        next_id = None if head.row_hwm is None else head.row_hwm + 1
        content = commit_lines(info, moved, new_files, RowIds(next_id, version), renumbered)
        if len(content) <= self._services.limits.inline_bytes:
            return CommitRequest(
                head.table_id, version, base=head.latest, content=content, principal=self._principal, checked=True,
                name=name,
            )  # fmt: skip
        staged = staged_file(version, self._world.ids.uuid())
        self._world.storages.open(head.location).put_if_absent(staged_path(staged), content)
        return CommitRequest(
            head.table_id, version, base=head.latest, staged=staged, size=len(content), modified_ms=now,
            principal=self._principal, checked=True, name=name,
        )  # fmt: skip

    def register(self, moved: NetChange, catalog: TableHead, ref: BranchRef) -> None:
        """Adds the registry of branches of the catalog's table ``catalog``, with ``ref``, to the
        change of that table or of the branch's, which has the same protocol."""
        stored = self._services.metadata.get(catalog.catalog, catalog.metadata)
        protocol = moved.definition.get("protocol") or stored.protocol
        registry = registry_with(stored.domains.get(BRANCHES_DOMAIN), ref, protocol)
        if registry is not None:
            moved.domains = {**moved.domains, BRANCHES_DOMAIN: registry}

    def _metadata(self, head: TableHead, body: Action) -> Action:
        """The definition of a table under the id of the table that gets it."""
        stored = self._services.metadata.get(head.catalog, head.metadata).metadata
        configuration = {key: value for key, value in (body.get("configuration") or {}).items() if key != UUID_PROPERTY}
        own = (stored.get("configuration") or {}).get(UUID_PROPERTY)
        if own is not None:
            configuration[UUID_PROPERTY] = own
        return {**body, "id": stored.get("id"), "configuration": configuration}

    def _info(
        self, head: TableHead, operation: str, parameters: Mapping[str, object], moved: NetChange, now: int
    ) -> Action:
        return {
            "timestamp": now,
            "inCommitTimestamp": max(now, head.last_ict + 1),
            "operation": operation,
            "operationParameters": {name: msgspec.json.encode(value).decode() for name, value in parameters.items()},
            "operationMetrics": {
                "numAddedFiles": str(len(moved.added)),
                "numRemovedFiles": str(len(moved.removed)),
            },
            "readVersion": head.latest,
            "isBlindAppend": moved.blind,
            "engineInfo": "Turnstile",
            "txnId": self._world.ids.uuid(),
        }
