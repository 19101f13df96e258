"""One update of a coordinated table, all or nothing.

    commit                   the ratifier's one conditional write, with the metadata that the
                             request changes
    metadata only            one conditional write on the HEAD; the log stays unchanged
    claimed backfill only    no write: only versions that were seen in storage count as published
                             (I5)

A repetition of an accepted commit returns the present state and changes nothing, for any other
members of the request and however stale its etag is (I3). The ratifier checks identity first, by
transaction and by name, in the tail and in the identity index; if neither has the commit any more,
contents are compared.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Container, Iterator

import msgspec

from turnstile.api.conflicts import note_conflicts
from turnstile.api.unity import requests, table_update
from turnstile.api.unity.errors import RequirementFailed
from turnstile.api.unity.table_update import TableUpdate, check_bound, without_feature
from turnstile.catalog.describe import Describer
from turnstile.delta.commits import pieces_of
from turnstile.delta.core.decide import Conflict, Refused
from turnstile.delta.core.head import TableHead, digest_of_pieces
from turnstile.delta.core.metadata import DeltaMetadata, etag_of
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.ratify import Ratifier
from turnstile.delta.undecided import seen_one
from turnstile.store.core.errors import (
    ErrorType,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    StateConflict,
    StorageFault,
    Throttled,
    TurnstileError,
)
from turnstile.store.core.names import published_path, staged_path
from turnstile.store.ports import PIECE_BYTES, LogStorage, World


@contextlib.contextmanager
def after_update(update: TableUpdate) -> Iterator[None]:
    """Turns errors of the block into OutcomeUnknown, because ``update`` was applied: Throttled and
    StorageFault say that nothing happened (I3)."""
    try:
        yield
    except (StorageFault, Throttled, StateConflict) as error:
        if update.commit is None and not update.visible:
            raise
        problem = f"the update was applied, but the table cannot be shown: {error.public_message}"
        raise OutcomeUnknown(problem) from error


class Updater:
    """Applies updates. One for a sandbox, sharing caches with the other services."""

    def __init__(self, world: World, ratifier: Ratifier, metadata: MetadataStore) -> None:
        self._world = world
        self._ratifier = ratifier
        self._metadata = metadata
        self._describer = Describer(world, metadata)

    def update(self, head: TableHead, update: TableUpdate, principal: str) -> TableHead:
        """Applies ``update`` of ``principal`` to the table of ``head``, which was just read, and
        returns the HEAD after it.

        Raises RequirementFailed if uuid or etag differ from the required ones; StateConflict
        ``CommitVersionConflict`` if another commit is that version: rebase; others as the ratifier.
        """
        if update.uuid != head.table_id:
            raise RequirementFailed(f"the table's uuid is {head.table_id}, not {update.uuid[:100]}")
        if update.snapshot is not None:
            raise InvalidRequest(
                "update-metadata-snapshot-version is for external tables: here the log says it", field="updates"
            )
        update = msgspec.structs.replace(update, table_location=head.location)
        check_bound(update, head.latest)
        if update.commit is not None:
            return self._commit(head, update, update.commit, principal)

        def change(id: str, before: DeltaMetadata) -> DeltaMetadata:
            if update.etag is not None and update.etag != etag_of(id, before):
                raise RequirementFailed(f"the etag is {etag_of(id, before)} now")
            return table_update.metadata_after_update(update, id, before, self._world.clock.now_ms())

        return self._describer.describe(head, change)

    def _commit(self, head: TableHead, update: TableUpdate, commit: requests.Commit, principal: str) -> TableHead:
        before = self._metadata.get(head.catalog, head.metadata)
        etag = update.etag
        if etag is not None and etag == etag_of(head.metadata, before):
            etag = head.metadata
        uniform = table_update.needs_uniform(table_update.visible_properties(before, before.beside))
        marks = update.marks_rows(before=before.beside.row_mark) != before.beside.row_mark
        featureless = without_feature(update.set_domains, before.protocol.get("writerFeatures") or [])
        request = CommitRequest(
            table_id=head.table_id,
            version=commit.version,
            staged=commit.file_name,
            size=commit.file_size,
            modified_ms=commit.file_modification_timestamp,
            any_name=True,
            etag=etag,
            describe=functools.partial(table_update.metadata_after_commit, update),
            always=update.visible or marks or uniform or bool(featureless) or update.uniform is not None,
            principal=principal,
        )
        try:
            decision = self._ratifier.commit(request)
        except NotFound as error:
            if error.type != ErrorType.NO_SUCH_STAGED_FILE or commit.version > head.latest:
                raise
            return self._compare_contents(head, commit, head.latest)  # committed, and perhaps forgotten
        if isinstance(decision, Conflict):
            try:
                return self._compare_contents(
                    head, commit, decision.latest, {winner.version for winner in decision.winners}
                )
            except StateConflict:
                note_conflicts([(head.table_id, decision)], request.staged)
                raise
        if isinstance(decision, Refused):
            raise StateConflict(
                decision.kind, decision.message, field=decision.field, remedy=decision.remedy, **decision.details
            )
        if decision.version != commit.version:
            raise AlreadyRatified(
                f"this transaction is version {decision.version} of the table already",
                field="commit.version",
                remedy="do not commit it again: load the table",
            )
        with after_update(update):
            return decision.head or self._read(head)

    def _compare_contents(
        self, head: TableHead, commit: requests.Commit, latest: int, others: Container[int] = ()
    ) -> TableHead:
        """A version that is in no index any more is the same commit if its bytes are the same.
        OutcomeUnknown if that cannot be found out now: other errors would say that it is not this
        one (I3).
        """
        if commit.version in others:
            raise _conflict(commit, latest)
        try:
            now = self._read(head)
            if commit.version >= now.tail_from or commit.version > now.floor:
                raise _conflict(commit, latest)
            storage = self._world.storages.open(head.location)
            staged = _digest(storage, staged_path(commit.file_name))
            published = _digest(storage, published_path(commit.version))
        except (StorageFault, Throttled) as error:
            raise _unknown(commit) from error
        if staged is None or published is None:
            raise _unknown(commit)
        if staged != published:
            raise _conflict(commit, latest)
        return now

    def _read(self, head: TableHead) -> TableHead:
        row = self._world.refs.read(head.key)
        if row is None:
            raise NotFound("table", head.name, field="table")
        now = TableHead.from_row(row)
        return seen_one(self._world, now) if now.undecided else now


class AlreadyRatified(TurnstileError):
    """The transaction is another version already. No conflict: rebasing would write it a second
    time (I3)."""

    type = ErrorType.ALREADY_RATIFIED


def _digest(storage: LogStorage, path: str) -> int | None:
    """The digest of a file, in bounded memory; None if there is none."""
    file = storage.read(path, PIECE_BYTES)
    return None if file is None else digest_of_pieces(pieces_of(storage, path, *file))


def _conflict(commit: requests.Commit, latest: int) -> StateConflict:
    return StateConflict(
        ErrorType.COMMIT_VERSION_CONFLICT,
        f"version {commit.version} is another commit. Current table version is {latest}",
        field="commit.version",
        latest=latest,
    )


def _unknown(commit: requests.Commit) -> OutcomeUnknown:
    return OutcomeUnknown(f"it is unknown which commit is version {commit.version}, and its content cannot be compared")
