"""Commits of one table or of several, all or nothing.

    1  the catalog's tree          one read
    2  each table's metadata       cached, or one read
    3  requirements, updates       pure; refusals are raised here. The list of an added snapshot is
                                   looked at: one request
    4  new metadata files          one write for each table
    5  the swap of the HEAD        one conditional write for all tables

When the HEAD moved on between 1 and 5, everything is computed again from the new tree; a table that
did not change keeps the file that was written for it. Files of attempts that failed are deleted as
soon as the outcome is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Final

import msgspec

from turnstile.catalog.changes.commit import CatalogChange, Committer
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import ICEBERG_TABLE, Entity, IcebergTable
from turnstile.catalog.core.paths import Path, dotted_name, key_of
from turnstile.catalog.reader import View
from turnstile.iceberg.append_merger import MergedAppend
from turnstile.iceberg.changes import ChangeJudge
from turnstile.iceberg.context import Context
from turnstile.iceberg.core import updates as u
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.requirements import CommitFailed, creates
from turnstile.iceberg.core.shared_appends import may_share
from turnstile.iceberg.core.table_updates import TableChange, apply_updates, table_from_updates
from turnstile.iceberg.expectations.properties import check_expectations
from turnstile.iceberg.files import StoredFile, bucket_errors, nothing_applied
from turnstile.iceberg.locations import LocationClaim, check_paths
from turnstile.iceberg.tables import LoadedTable, already_exists, claim_rejected, entity_at
from turnstile.iceberg.turns import POLL_MS, TURN_MS, TableTurn, begins, has_to_wait, rewrites
from turnstile.store.core.errors import InvalidRequest, TurnstileError
from turnstile.store.core.locations import normalise
from turnstile.store.core.writes import Row, Write

MAX_TABLES: Final = 100
"""Tables of one transaction."""

MAX_NEW: Final = 30
"""Tables that one transaction creates: each takes two rows of the hundred that change together, or
a row for every folder above a requested location."""


class Commits:
    """Commits of one request."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def commit(self, catalog: str, changes: Sequence[TableChange]) -> list[LoadedTable]:
        """Applies ``changes``, all or none, and returns the tables as they are then.

        Raises:
            CommitFailed: a requirement does not hold, or an update was computed from an older
                state.
            InvalidRequest: an update that cannot be applied; a table named twice.
            StateConflict: ``LocationOwned``: a new table's location is another's.
            NotFound, OutcomeUnknown.
        """
        self._look(catalog, changes)
        queue = self._context.appends
        if queue is None or len(changes) != 1 or not may_share(changes[0].requirements, changes[0].updates):
            return self._commit(catalog, changes)
        return [queue.commit(self._context, catalog, changes[0], lambda: self._commit(catalog, changes)[0])]

    def _commit(self, catalog: str, changes: Sequence[TableChange]) -> list[LoadedTable]:
        """Applies ``changes`` by a commit of the catalog of their own; raises as ``commit``."""
        for left in reversed(range(TURN_MS // POLL_MS + 1)):
            run = self._run(catalog, changes, check_names=True, waits=left > 0)
            try:
                self._context.commit_files(catalog, run.change, run.written, run.on_rejected)
                break
            except TableTurn:
                self._context.pause(POLL_MS / 1000)
            except CommitFailed:
                self._begin_turns(catalog, changes)
                raise
        run.forget_others()
        return [LoadedTable(result.entity, result.metadata, result.content) for result in run.latest]

    def prepare(self, catalog: str, changes: Sequence[TableChange]) -> CatalogChange:
        """As ``commit``, to be committed with others; a table may be created in a namespace that
        one of these creates."""
        self._look(catalog, changes)
        run = self._run(catalog, changes, check_names=False)

        def note_outcome(applied: bool) -> None:  # noqa: FBT001
            if applied:
                run.forget_others()
            else:
                self._context.forget(run.written)

        return CatalogChange(run.change, run.on_rejected, note_outcome)

    def _look(self, catalog: str, changes: Sequence[TableChange]) -> None:
        """Raises CommitFailed where the lake of a table is ahead of the store."""
        look = self._context.first_look
        for change in changes if look is not None else ():
            if look is not None and not creates(change.requirements):
                look.require_current(catalog, change.path)

    def _begin_turns(self, catalog: str, changes: Sequence[TableChange]) -> None:
        """Gives a turn to the rewrites among ``changes``, which lost. Failures are ignored: the
        refusal is the answer."""
        now_ms = self._context.world.clock.now_ms()

        def change(view: View) -> Edit | None:
            put: dict[Path, Entity] = {}
            for each in changes:
                entry = view.tree.find(each.path)
                table = view.entity(entry.obj) if entry is not None else None
                if isinstance(table, IcebergTable) and rewrites(each.updates) and begins(table, now_ms):
                    put[each.path] = msgspec.structs.replace(table, turn_until=now_ms + TURN_MS)
            return (
                Edit(f"turn of {', '.join(dotted_name(*path) for path in list(put)[:3])}"[:200], put=put)
                if put
                else None
            )

        if any(rewrites(each.updates) for each in changes):
            with suppress(TurnstileError):
                Committer(self._context.world, self._context.catalog.reader).commit(catalog, change)

    def _run(
        self, catalog: str, changes: Sequence[TableChange], *, check_names: bool, waits: bool = False
    ) -> _Run:  # fmt: skip
        """The attempts of a commit, which are to come. ``check_names``: look now whether the names
        of new tables are free; ``waits``: raise TableTurn where a rewrite has its turn."""
        if not 1 <= len(changes) <= MAX_TABLES:
            raise InvalidRequest(f"a transaction changes 1 to {MAX_TABLES} tables", field="table-changes")
        if len({key_of(change.path) for change in changes}) != len(changes):
            raise InvalidRequest("a table is named twice", field="table-changes", remedy="put its changes together")
        if sum(creates(change.requirements) for change in changes) > MAX_NEW:
            raise InvalidRequest(f"a transaction creates at most {MAX_NEW} tables", field="table-changes")
        claims = [self._claim(catalog, change, check_names) for change in changes]
        return _Run(self._context, changes, claims, waits=waits)

    def _claim(self, catalog: str, change: TableChange, check_name: bool) -> LocationClaim | None:  # noqa: FBT001
        """Where the commit creates its table; None when it changes one."""
        if not creates(change.requirements):
            return None
        if check_name:
            _require_new(self._context.view(catalog), change.path)
        uuid = next((update.uuid for update in change.updates if isinstance(update, u.AssignUuid)), "")
        locations = [update.location for update in change.updates if isinstance(update, u.SetLocation)]
        if not locations or not locations[-1]:
            raise InvalidRequest("the commit gives the new table no location", field="updates")
        uuid = uuid or self._context.world.ids.uuid()
        return self._context.locations.of_staged_table(uuid, locations[-1], catalog, self._context.principal)


class _Result(msgspec.Struct, frozen=True):
    """A table after its change, the metadata file before it (empty for a new table), the files
    written for it, and the bytes of its metadata file (empty where nothing changed)."""

    entity: IcebergTable
    metadata: TableMetadata
    base_file: str
    files: tuple[str, ...] = ()
    content: bytes = b""


class _Run:
    """The attempts of one commit: every file ``written`` so far, and the tables as the ``latest``
    attempt computed them."""

    def __init__(
        self, context: Context, changes: Sequence[TableChange], claims: Sequence[LocationClaim | None], *, waits: bool
    ) -> None:
        self._context = context
        self._world = context.world
        self._files = context.files
        self._changes = changes
        self._claims = claims
        self._waits = waits
        self._judge = ChangeJudge(context)
        self._first_writes: list[int] = []
        self._results: dict[int, _Result] = {}
        self.written: list[str] = []
        self.latest: list[_Result] = []

    @nothing_applied()
    def change(self, view: View) -> Edit | None:
        """All changes, computed from one tree; None when they change nothing."""
        writes: list[Write] = []
        self.latest = []
        self._first_writes = []
        for position, (change, claim) in enumerate(zip(self._changes, self._claims, strict=True)):
            self._first_writes.append(len(writes))
            if claim is None:
                result = self._change(view, change, position)
            else:
                result = self._create(view, change, claim, position)
                writes += self._context.locations.claim(claim, view.tree.catalog, result.entity.created)
            self.latest.append(result)
        put: dict[Path, Entity] = {
            change.path: result.entity
            for change, result in zip(self._changes, self.latest, strict=True)
            if result.entity.metadata != result.base_file
        }
        names = ", ".join(dotted_name(*path) for path in list(put)[:3])
        return Edit(f"commit to {names}"[:200], put=put, writes=tuple(writes)) if put else None

    def forget_others(self) -> None:
        """Deletes the files of attempts before the latest, which was applied."""
        kept = {file for result in self.latest for file in result.files}
        self._context.forget([file for file in self.written if file not in kept])

    def on_rejected(self, failed: Mapping[int, Row | None]) -> None:
        """Passes rejected writes to ``claim_rejected`` of their claim, numbered from its first
        write."""
        ends = [*self._first_writes[1:], max(failed) + 1]
        for claim, start, end in zip(self._claims, self._first_writes, ends, strict=True):
            if claim is not None:
                claim_rejected(claim)({at - start: row for at, row in failed.items() if start <= at < end})

    def _create(self, view: View, change: TableChange, claim: LocationClaim, position: int) -> _Result:
        _require_new(view, change.path)
        if position in self._results:
            return self._results[position]
        now_ms = self._world.clock.now_ms()
        metadata = msgspec.structs.replace(
            table_from_updates(change.updates, now_ms, claim.table_id), location=claim.metadata_location
        )
        check_paths(metadata.properties, claim.location)
        check_expectations(metadata)
        self._judge.lists.require(msgspec.structs.replace(metadata, snapshots=()), change.updates)
        with nullcontext() if claim.managed else bucket_errors("updates.location"):
            file = self._write(claim.location, metadata)
        name = change.path[-1]
        access = self._context.owner_access
        entity = IcebergTable(
            name,
            metadata.table_uuid,
            claim.location,
            file.path,
            now_ms,
            claim.managed,
            access=access,
            digest=file.digest,
        )
        self._results[position] = _Result(entity, metadata, "", (file.path,), file.content)
        return self._results[position]

    def _change(self, view: View, change: TableChange, position: int) -> _Result:
        before = entity_at(view, change.path, IcebergTable)
        if self._waits and before.turn_until and has_to_wait(before, change.updates, self._world.clock.now_ms()):
            raise TableTurn(before.name)
        earlier = self._results.get(position)
        if earlier is not None and earlier.base_file == before.metadata:
            entity = msgspec.structs.replace(earlier.entity, name=before.name, access=before.access)
            return msgspec.structs.replace(earlier, entity=entity)
        base = self._files.table(before)
        updates, merged = self._judge.updates(base, change)
        now_ms = self._world.clock.now_ms()
        metadata = apply_updates(base, updates, now_ms, before.metadata)
        if metadata.location != base.location and normalise(metadata.location) != before.location:
            raise InvalidRequest("a table cannot be moved", field="updates", remedy="create another one and copy it")
        if metadata == base:
            return _Result(before, base, before.metadata)
        if metadata.properties != base.properties:
            check_paths(metadata.properties, before.location)
            check_expectations(metadata, base)
        file = self._write(before.location, metadata, before, merged)
        files = (file.path,) if merged is None else (file.path, merged.manifest_list)
        turn_until = 0 if before.turn_until and rewrites(change.updates) else before.turn_until
        entity = msgspec.structs.replace(
            before, metadata=file.path, digest=file.digest, updated=now_ms, turn_until=turn_until
        )
        self._results[position] = _Result(entity, metadata, before.metadata, files, file.content)
        return self._results[position]

    def _write(
        self,
        location: str,
        metadata: TableMetadata,
        previous: IcebergTable | None = None,
        merged: MergedAppend | None = None,
    ) -> StoredFile:
        """Writes a metadata file, after the manifest list of a ``merged`` append."""
        if merged is not None:
            self.written.append(merged.manifest_list)
            self._world.storages.open(location).put_if_absent(merged.name, merged.content)
        file = self._files.write(location, metadata, previous)
        self.written.append(file.path)
        return file


def _require_new(view: View, path: Path) -> None:
    """Raises CommitFailed or NotFound unless ``path`` can be created now."""
    entry = view.tree.find(path)
    if entry is not None:
        if entry.kind == ICEBERG_TABLE:
            raise CommitFailed(f"Requirement failed: table already exists: {dotted_name(*path)}")
        raise CommitFailed(already_exists(ICEBERG_TABLE, path, entry.kind).message)
    view.tree.parent(path[:-1])
