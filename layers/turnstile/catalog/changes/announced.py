"""Announced transactions of catalogs: changes of one, reads of it and commits, with an entry in the
journal (docs/decisions/0022, 0023).

    1  announce      ``delta.transactions.journal``: the commits, changes and reads as an obj, and
                     the entry's
                     row
    2  commit        the one write of ``catalog.changes.transactions``, which also turns the entry
                     from open
                     to committed
    3  refused       by the entry: it was committed before, with the same content (a replay), or it
                     never will be;
                     by any other row: the entry is read once more, since a copy may have been
                         faster

The entry holds the outcome, in place of the row of an idempotency key, for every sender of the
transaction. A crash between any two writes leaves an entry that is open, and nothing else but objs
and files for gc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.composed import GroupChange
from turnstile.catalog.changes.transactions import Applied, CatalogTransactions, NotApplied, earlier
from turnstile.catalog.query.reads import CatalogReads
from turnstile.delta.core.journal_rows import COMMITTED, OPEN, JournalRow
from turnstile.delta.proposals import GroupRequest
from turnstile.delta.transactions.groups import EntryRefused, GroupRatifier
from turnstile.delta.transactions.journal import CatalogPart, Journal, settled_error, superseded_error
from turnstile.store.core.errors import TurnstileError


class AnnouncedTransactions:
    """Commits announced transactions of catalogs. The caller authorizes (I12)."""

    def __init__(self, journal: Journal, groups: GroupRatifier, committer: Committer) -> None:
        self._journal = journal
        self._groups = groups
        self._transactions = CatalogTransactions(groups, committer)

    def find_replay(self, group: GroupRequest, part: CatalogPart) -> Applied | None:
        """The result of the transaction, if it is committed with this very content; None while it
        is open. Raises NotFound without an entry; StateConflict ``TransactionAborted``,
        ``TransactionCommitted`` or ``TransactionSuperseded`` if this content never will be;
        OutcomeUnknown if it is committed and a commit of it cannot be shown any more.
        """
        sent, obj = self._journal.with_entry(group, part)
        return self._outcome(sent, obj, self._journal.entry(group.id))

    def commit(
        self,
        group: GroupRequest,
        part: CatalogPart,
        changes: Callable[[], Sequence[GroupChange]],
        reads: CatalogReads,
    ) -> Applied | NotApplied:
        """Applies the announced content, once, for all senders. ``changes`` are those of ``part``,
        prepared when it is called. Raises as ``find_replay``, as ``changes``, and as
        ``CatalogTransactions.commit``.
        """
        sent, obj = self._journal.with_entry(group, part)
        try:
            outcome = self._transactions.commit(part.catalog, sent, changes(), reads)
        except (EntryRefused, TurnstileError):
            replay = self._outcome(sent, obj, self._journal.entry(group.id))
            if replay is None:
                raise
            return replay
        if isinstance(outcome, Applied):
            return outcome
        return self._outcome(sent, obj, self._journal.entry(group.id)) or outcome

    def _outcome(self, sent: GroupRequest, obj: str, entry: JournalRow) -> Applied | None:
        if entry.state == OPEN and entry.obj == obj:
            return None
        if entry.state == COMMITTED and entry.obj == obj:
            return earlier(self._groups, sent, None)
        raise superseded_error(entry) if entry.state == OPEN else settled_error(entry)
