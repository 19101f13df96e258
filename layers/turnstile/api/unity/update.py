"""One update of a coordinated table, all or nothing.

    commit                   the ratifier's one conditional write, with the metadata that the request changes
    metadata only            one conditional write on the HEAD; the log stays what it is
    claimed backfill only    no write: what is published is decided by who saw it in storage (I5)

A repetition of a commit that was accepted is answered with the present state and changes nothing, whatever else the
request says and however stale its etag is (I3): the ratifier judges identity first, by transaction and by name, in the
tail and in the identity index; where both have forgotten, contents are compared.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Container, Iterator

import msgspec

from turnstile.api.unity import requests
from turnstile.api.unity.agree import describe, needs_uniform, redescribe, visible_properties
from turnstile.api.unity.errors import RequirementFailed
from turnstile.api.unity.table_update import TableUpdate, check_bound, lacking
from turnstile.catalog.describe import Describer
from turnstile.delta.core.decide import Conflict, Ratified, Refused
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.metadata import DeltaMetadata, etag_of
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.ratify import Ratifier
from turnstile.store.core.errors import (
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    StateConflict,
    StorageFault,
    Throttled,
    TurnstileError,
)
from turnstile.store.core.locations import published_path, staged_path
from turnstile.store.ports import World


@contextlib.contextmanager
def after(asked: TableUpdate) -> Iterator[None]:
    """What fails in here fails after ``asked`` was applied: "throttled" or "away" would say that nothing happened (I3)."""
    try:
        yield
    except (StorageFault, Throttled, StateConflict) as error:
        if asked.commit is None and not asked.visible:
            raise
        raise OutcomeUnknown(f"the update was applied, but the table cannot be shown: {error.message}") from error


class Updater:
    """Applies updates. One per sandbox, sharing caches with the other services."""

    def __init__(self, world: World, ratifier: Ratifier, snapshots: MetadataStore) -> None:
        self._world, self._ratifier, self._snapshots = world, ratifier, snapshots
        self._describer = Describer(world, snapshots)

    def update(self, head: TableHead, asked: TableUpdate) -> TableHead:
        """The HEAD after ``asked``.

        Args:
            head: the table's HEAD, just read.

        Raises:
            RequirementFailed: uuid or etag are not what was required; nothing was written.
            InvalidRequest, InvalidCommit: refused; sending it again will not help.
            StateConflict: ``CommitVersionConflict``: somebody else is that version; rebase. Others as in the ratifier.
            OutcomeUnknown: the commit may have been accepted.
        """
        if asked.uuid != head.table_id:
            raise RequirementFailed(f"the table's uuid is {head.table_id}, not {asked.uuid[:100]}")
        if asked.snapshot is not None:
            raise InvalidRequest(
                "update-metadata-snapshot-version is for external tables: here the log says it", field="updates"
            )
        asked = msgspec.structs.replace(asked, table_location=head.location)
        check_bound(asked, head.latest)
        if asked.commit is not None:
            return self._commit(head, asked, asked.commit)

        def change(id: str, before: DeltaMetadata) -> DeltaMetadata:
            if asked.etag is not None and asked.etag != etag_of(id, before):
                raise RequirementFailed(f"the etag is {etag_of(id, before)} now")
            return redescribe(asked, before, self._world.clock.now_ms())

        return self._describer.describe(head, change)

    def _commit(self, head: TableHead, asked: TableUpdate, commit: requests.Commit) -> TableHead:
        before = self._snapshots.get(head.catalog, head.metadata)
        etag = asked.etag
        if etag is not None and etag == etag_of(head.metadata, before):
            etag = head.metadata
        judged = needs_uniform(visible_properties(before, before.beside)) or bool(
            lacking(asked.set_domains, before.protocol.get("writerFeatures") or [])
        )
        request = CommitRequest(
            table_id=head.table_id,
            version=commit.version,
            staged=commit.file_name,
            size=commit.file_size,
            modified=commit.file_modification_timestamp,
            any_name=True,
            etag=etag,
            describe=functools.partial(describe, asked),
            always=asked.visible or judged or asked.uniform is not None,
        )
        try:
            decision = self._ratifier.commit(request)
        except NotFound as error:
            if error.type != "NoSuchStagedFile" or commit.version > head.latest:
                raise
            return self._compared(head, commit, head.latest)  # taken, or forgotten
        match decision:
            case Ratified():
                return self._accepted(head, asked, commit, decision)
            case Conflict():
                return self._compared(head, commit, decision.latest, {place.version for place in decision.winners})
            case Refused():
                raise StateConflict(
                    decision.kind, decision.message, field=decision.field, remedy=decision.remedy, **decision.details
                )

    def _accepted(self, head: TableHead, asked: TableUpdate, commit: requests.Commit, decision: Ratified) -> TableHead:
        if decision.version != commit.version:
            raise AlreadyRatified(
                f"this transaction is version {decision.version} of the table already",
                field="commit.version",
                remedy="do not commit it again: load the table",
            )
        with after(asked):
            return decision.head or self._read(head)

    def _compared(self, head: TableHead, commit: requests.Commit, latest: int, known: Container[int] = ()) -> TableHead:
        """A version that nobody remembers by name is the same commit if its bytes are the same.

        Raises:
            StateConflict: it is another one.
            OutcomeUnknown: that cannot be told now; "away" and "throttled" would say that it is not this one (I3).
        """
        if commit.version in known:
            raise _conflict(commit, latest)
        try:
            now = self._read(head)
            if commit.version >= now.tail_from or commit.version > now.floor:
                raise _conflict(commit, latest)
            storage = self._world.storages.open(head.location)
            mine, theirs = storage.read(staged_path(commit.file_name)), storage.read(published_path(commit.version))
        except (StorageFault, Throttled) as error:
            raise _unknown(commit) from error
        if mine is None or theirs is None:
            raise _unknown(commit)
        if mine[0] != theirs[0]:
            raise _conflict(commit, latest)
        return now

    def _read(self, head: TableHead) -> TableHead:
        row = self._world.refs.read(head.key)
        if row is None:
            raise NotFound("table", head.name, field="table")
        return TableHead.from_row(row)


class AlreadyRatified(TurnstileError):
    """The transaction is another version already. Not a conflict: rebasing would write it a second time (I3)."""

    type = "AlreadyRatified"


def _conflict(commit: requests.Commit, latest: int) -> StateConflict:
    return StateConflict(
        "CommitVersionConflict",
        f"version {commit.version} is another commit. Current table version is {latest}",
        field="commit.version",
        latest=latest,
    )


def _unknown(commit: requests.Commit) -> OutcomeUnknown:
    return OutcomeUnknown(f"nobody remembers who is version {commit.version}, and its content cannot be compared")
