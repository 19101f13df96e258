"""Transactions of a catalog: changes of it and commits of its tables, all or none (I8,
docs/decisions/0023).

    1  members prepared           commits of Delta tables as in a group of them alone
                                  (``delta.transactions.groups``); staged tables read
    2  the catalog's tree         one read; reads of the catalog are checked in it
                                  (``catalog.query.reads``), and the changes
                                  are computed from it, each in the state that the changes before it
                                  leave
    3  objs                       of the catalog's commit
    4  one transaction            the catalog's HEAD swapped, with the rows of the changes, the
                                  writes of the commits, the
                                  checks of tables that were only read, and the idempotency row of
                                  the transaction
    5  refused                    by a commit's row: that row decides it, as in a group of commits
                                  alone
                                  by the catalog's HEAD: again from 2
                                  by the idempotency row: it was applied before
                                      (``catalog.changes.idempotency``)

Where 4 would have more rows than a transaction holds, the commits are prepared in their HEADs
before 2, as a large group's (``delta.transactions.large_groups``), and 4 has the decision of that
group in their place: so any number of tables, up to a group's, change with the catalog in one
instant. They are folded after 4, by this request or by any other that meets one.

HEAD ids of a catalog are used once. So the HEAD shows whether an attempt with a lost answer was
applied, with all its other rows, and an attempt that it has moved past can never be applied. A
crash before 4 leaves objs and files for gc.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.composed import Composition, GroupChange, RefusedChange
from turnstile.catalog.changes.waiting import MAX_ROWS, Edit
from turnstile.catalog.core.paths import fold
from turnstile.catalog.query.reads import CatalogReads
from turnstile.catalog.reader import View
from turnstile.delta.core.decide import Ratified
from turnstile.delta.proposals import GroupRequest
from turnstile.delta.transactions.groups import (
    EntryRefused,
    GroupRatified,
    GroupRatifier,
    GroupRefused,
    OpenGroup,
    check_members,
)
from turnstile.delta.transactions.large_groups import PreparedGroup
from turnstile.store.core.errors import (
    AlreadyExists,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    StateConflict,
    TurnstileError,
)
from turnstile.store.core.writes import Row, Write
from turnstile.store.ports import TRANSACT_MAX


class Applied(msgspec.Struct, frozen=True):
    """The transaction was applied: its commits, in the order of the request, and the number of the
    catalog's commit that has its changes (None: it is not remembered any more)."""

    commits: tuple[Ratified, ...]
    seq: int | None
    replayed: bool = False


class NotApplied(msgspec.Struct, frozen=True):
    """Nothing of the transaction was applied. It has the members that refused: commits and reads,
    or the first change, or read of the catalog."""

    commits: GroupRefused | None = None
    change: RefusedChange | None = None
    read: StateConflict | None = None


class CatalogTransactions:
    """Commits transactions of catalogs. ``committer`` remembers the transaction
    (``IdempotentCommitter``)."""

    def __init__(self, groups: GroupRatifier, committer: Committer) -> None:
        self._groups = groups
        self._committer = committer

    def commit(
        self,
        catalog: str,
        group: GroupRequest,
        changes: Sequence[GroupChange],
        reads: CatalogReads | None = None,
        *,
        with_branch: str = "",
    ) -> Applied | NotApplied:
        """Applies ``changes`` of ``catalog`` and the commits of ``group``, which may be none, if
        ``reads`` of the catalog are still valid. The id of ``group`` is that of the entries in the
        tables' logs; only this very transaction may have it. The commits may also be of tables of
        ``with_branch``, a branch of the catalog.

        Raises InvalidRequest: too many members, one of another catalog, two that change one table;
        the errors of a commit or a change alone, except conflicts, whose ``field`` begins with the
        member; StateConflict ``ConcurrentChange``: other changes of the catalog were faster until
        the deadline; Throttled; EntryRefused by the group's entry in the journal. Then nothing was
        applied. OutcomeUnknown.
        """
        attempt = _Attempt(catalog, self._groups, group, Composition(changes), reads)
        try:
            attempt.require_tables_of(catalog, with_branch)
            outcome = attempt.run(self._committer)
        except OutcomeUnknown:  # files that were written may be in use
            raise
        except (TurnstileError, EntryRefused):
            attempt.changes.report_outcome(applied=False)
            raise
        attempt.changes.report_outcome(applied=isinstance(outcome, Applied) and not outcome.replayed)
        return outcome


def earlier(groups: GroupRatifier, group: GroupRequest, seq: int | None) -> Applied:
    """The answer to a repeated transaction, which was applied as the change ``seq`` of the catalog.
    Raises OutcomeUnknown if a commit of it cannot be shown any more."""
    try:
        replay = groups.open(group).find_replay()
    except NotFound as error:
        raise OutcomeUnknown(
            f"the transaction was applied, and a table of it is gone: {error.public_message}"
        ) from error
    if replay is None:
        raise OutcomeUnknown("the transaction was applied, and a commit of it cannot be shown any more")
    return Applied(replay.members, seq, replayed=True)


class _ReadChanged(Exception):
    """A read of the catalog is no longer valid. ``refused``: the difference."""

    def __init__(self, refused: StateConflict) -> None:
        super().__init__(refused.message)
        self.refused = refused


class _Decided(Exception):
    """A commit or a read of the transaction was refused: another attempt cannot be accepted."""


class _TooManyRows(Exception):
    """The commits and reads do not fit into the write of the catalog's HEAD."""


class _Attempt:
    """One request: its members while the catalog is changed."""

    def __init__(
        self,
        catalog: str,
        groups: GroupRatifier,
        group: GroupRequest,
        changes: Composition,
        reads: CatalogReads | None,
    ) -> None:
        self._catalog = catalog
        self._large = groups.large
        self._most_rows = groups.part - (TRANSACT_MAX - MAX_ROWS)
        self._commits: OpenGroup = groups.open(group)
        self._prepared: PreparedGroup | None = None
        self._group = group
        self.changes = changes
        self._reads = reads
        self._own = 0
        """Rows of the changes among the writes of the latest edit; the actions of the commits and
        reads follow."""

    def run(self, committer: Committer) -> Applied | NotApplied:
        commits = self._commits
        if not commits.are_open:
            return self._refusal()
        try:
            return self._commit(committer)
        except _TooManyRows:
            return self._commit_large(committer)

    def _commit_large(self, committer: Committer) -> Applied | NotApplied:
        """Prepares the commits, and commits the changes with the decision of the group."""
        self._prepared = self._commits.prepare_large(self._large)
        if self._prepared is None:
            return self._answer_of_others()
        try:
            outcome = self._commit(committer)
        except OutcomeUnknown:
            raise
        except (TurnstileError, EntryRefused) as error:
            if self._large.abort(self._prepared):
                raise
            raise OutcomeUnknown(f"the transaction may be applied, and then: {error}") from error
        if isinstance(outcome, NotApplied):
            self._large.abort(self._prepared)
        return outcome

    def _answer_of_others(self) -> Applied | NotApplied:
        answer = self._commits.answer_of_others()
        return self._earlier(answer) if isinstance(answer, GroupRatified) else NotApplied(commits=answer)

    def _commit(self, committer: Committer) -> Applied | NotApplied:
        commits = self._commits
        try:
            tree = committer.commit(self._catalog, self._change, on_rejected=self._on_rejected)
        except _Decided:
            return self._refusal() if self._prepared is None else self._answer_of_others()
        except _ReadChanged as changed:
            replay = commits.find_replay() if self._group.commits else None
            if replay is not None:  # what was read was changed since by this very transaction
                return self._earlier(replay)
            return NotApplied(read=changed.refused)
        except TurnstileError as error:
            refused = self.changes.refused
            if refused is None:
                raise
            replay = commits.find_replay() if self._group.commits else None
            if replay is not None:  # the change was refused since it was made, by this very transaction
                return self._earlier(replay)
            if isinstance(error, StateConflict | AlreadyExists):
                return NotApplied(change=refused)
            raise
        if self._prepared is not None:
            self._large.fold(self._prepared)
        return Applied(commits.ratified_results().members, tree.commit.seq)

    def require_tables_of(self, *catalogs: str) -> None:
        """Raises InvalidRequest for a commit of a table of another catalog than these."""
        allowed = {fold(catalog) for catalog in catalogs}
        for index, catalog in enumerate(self._commits.catalogs()):
            if fold(catalog) not in allowed:
                raise InvalidRequest(
                    f"the table is one of catalog '{catalog}', and the transaction is one of '{self._catalog}'",
                    field=f"commits[{index}].table_id",
                    remedy="commit to tables of one catalog, or change nothing but tables (POST /v1/transactions)",
                )

    def _change(self, view: View) -> Edit | None:
        if self._reads is not None:
            try:
                self._reads.require_same(view.tree)
            except StateConflict as error:
                raise _ReadChanged(error) from error
        edit = self.changes.apply(view)
        if edit is None:
            if not self._group.commits and not self._group.reads:
                return None
            edit = Edit("transaction")
        self._own = len(edit.writes)
        self._check_keys(edit.writes)
        self._check_number()
        writes = self._commits.writes() if self._prepared is None else [self._large.decision(self._prepared)]
        return msgspec.structs.replace(edit, writes=(*edit.writes, *writes))

    def _check_number(self) -> None:
        """Raises _TooManyRows where the commits have to be prepared, InvalidRequest where that does
        not help."""
        group = self._group
        others = 1 if self._prepared is not None else self._commits.row_count
        if self._own + others <= self._most_rows:
            return
        is_preparable = self._prepared is None and group.entry is None and not group.rows
        if is_preparable and self._own < self._most_rows:
            raise _TooManyRows
        problem = f"the transaction changes or checks {self._own + others} rows, and one may {self._most_rows}"
        raise InvalidRequest(problem, field="changes", remedy="split it into several transactions")

    def _check_keys(self, own: Sequence[Write]) -> None:
        changed = {write.key for write in own}
        for at, key in enumerate(self._commits.table_keys):
            if key in changed:
                read = at - len(self._group.commits)
                raise InvalidRequest(
                    "a change of the same transaction changes the table, and a row takes part in a transaction once",
                    field=f"reads[{read}].table_id" if read >= 0 else f"commits[{at}].table_id",
                    remedy="leave out the read of a table that is changed; send the commit in another transaction",
                )

    def _on_rejected(self, failed: Mapping[int, Row | None]) -> None:
        if self._prepared is not None:
            if self._own in failed:  # the group was aborted, or committed, by another process
                raise _Decided
            self.changes.on_rejected({at: row for at, row in failed.items() if at < self._own})
            return
        last = self._own + len(self._group.commits) + len(self._group.reads) + (self._group.entry is not None)
        rows = {at - self._own: row for at, row in failed.items() if self._own <= at < last}
        if rows:
            self._commits.decide_rejected(rows)
        if self._commits.is_stale or not self._commits.are_open:
            raise _Decided
        self.changes.on_rejected({at: row for at, row in failed.items() if at < self._own})

    def _refusal(self) -> Applied | NotApplied:
        answer = self._commits.answer()
        return self._earlier(answer) if isinstance(answer, GroupRatified) else NotApplied(commits=answer)

    def _earlier(self, replay: GroupRatified) -> Applied:
        """The commits are ratified. An entry with the transaction's id shows that all of it was
        applied; without one that may have been commits alone."""
        if all(member.place is None for member in replay.members):  # an entry that is there is of this transaction
            raise OutcomeUnknown("the commits are ratified; whether these changes came with them is no longer recorded")
        return Applied(replay.members, None, replayed=True)


def check_transaction(group: GroupRequest, changes: int, catalog_reads: int = 0) -> None:
    """Checks shapes and ranges of a request with this many changes and reads of the catalog; raises
    InvalidRequest naming the member."""
    if changes + catalog_reads < 1:
        raise InvalidRequest(
            "a transaction of a catalog needs a change or a read of the catalog",
            field="changes",
            remedy="send commits of tables alone to POST /v1/transactions",
        )
    members = changes + len(group.commits) + len(group.reads)
    if members > TRANSACT_MAX:
        problem = f"a transaction of {members} members; it may have {TRANSACT_MAX}"
        raise InvalidRequest(problem, field="changes", remedy="split it into several transactions")
    check_members(group)
