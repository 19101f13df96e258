"""Ratification of a commit: the hot path.

    1  read the content           inline: from the request; staged: one storage read (``prepare``)
    2  judge it                   protocol, contract, timestamps (I7), before anything is written
    3  metadata, if it changes    read the HEAD and its table metadata, write the new table metadata
                                  as an obj
    4  one conditional write      accepted: done; commits that wait for the same table share it
                                  (``CommitTurn``)
    5  refused                    ``decide`` answers from the returned row; after Recall and Spill
                                  the write is sent again

A crash after any step leaves at most an unreferenced obj or staged file for gc. When the response
of 4 is lost the client is told OutcomeUnknown, sends the same proposal again and gets a replay
(I3). The same holds for a refusal at 5 after a lost response, unless the earlier attempt cannot be
accepted any more either (``excludes_earlier``).

Commits of one table that wait in a process are ratified by one write of its HEAD (I23):

    a commit comes     1  its content is validated (``prepare``), and it joins the line of its table
                          (``store.queue``)
                       2  the first of the line leads; the others wait
    the leader         1  takes the commits that wait, up to a limit
                       2  chooses the ones that fit together on the row which its last write left
                          (``core.writes.shared``); the first row is unknown, so the first commit is
                          written alone, as if there were no line
                       3  one conditional write
                       4  answers every commit that it took from the row that comes back: ratified,
                          a conflict, a refusal; or it stays in the line

Every commit is answered by a row that was read or written after it joined, and by the same
functions as a single one. A commit without others in the line is as cheap as before: one write, no
cached row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from turnstile.delta.commits import head_of
from turnstile.delta.core.decide import CONTENDED, Conflict, Ratified, Refused, excludes_earlier
from turnstile.delta.core.head import TableHead, newest, tail_by_version
from turnstile.delta.core.writes.shared import GROUP_COMMITS, SharedWrite, share
from turnstile.delta.heads import SeenHeads
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.prepare import Prepared, Preparer, RowsCheck
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.undecided import settle_one
from turnstile.store.core.errors import OutcomeUnknown, TurnstileError
from turnstile.store.core.limits import Limits
from turnstile.store.core.writes import Row
from turnstile.store.ports import Accepted, World
from turnstile.store.queue import LeftLine, Line, Waiting, WaitingQueue, copy_of
from turnstile.store.retry import Pause, no_pause

PATIENCE_MS: Final = 2_000
"""How long a commit waits in a line that does not move; then it is written alone."""

Answer = Ratified | Conflict | Refused


class WaitingCommit(Waiting[Answer]):
    """A commit in the line of its table.

    Attributes:
        prepared: the next write.
        lost: whether the response to a write that had it was lost: only an answer which excludes
            that write is final (I3).
        tries: how often it was part of an attempt.
    """

    def __init__(self, prepared: Prepared) -> None:
        super().__init__()
        self.prepared = prepared
        self.lost = False
        self.tries = 0

    def answer(self, decision: Answer) -> None:
        """Settles the commit with a decision; with OutcomeUnknown if an earlier write may have
        another outcome yet."""
        if self.lost and not excludes_earlier(decision, is_named=self.prepared.proposal.version is not None):
            reason = decision.message if isinstance(decision, Refused) else ""
            message = f"an answer was lost, and the retry was refused for a reason that may pass: {reason}"
            self.settle(OutcomeUnknown(message))
        else:
            self.settle(decision)

    def fail(self, error: TurnstileError) -> None:
        """Settles the commit with an error, which is true of the last write and not of one before
        it."""
        if self.lost and not isinstance(error, OutcomeUnknown):
            error = OutcomeUnknown(f"an answer was lost, and then: {error.public_message}")
        self.settle(copy_of(error))


class CommitQueue:
    """The commits that wait in a process, by table. Safe for threads. ``queue``: in measurements,
    one that waits in its own way."""

    def __init__(self, queue: WaitingQueue[WaitingCommit] | None = None) -> None:
        self._queue = queue or new_queue()

    def commit(self, preparer: Preparer, prepared: Prepared) -> Answer:
        """Returns the decision on a commit, whichever thread writes it. Raises as
        ``Ratifier.commit``."""
        waiting = WaitingCommit(prepared)
        try:
            self._apply(self._queue, preparer, waiting)
        except LeftLine:
            self._apply(new_queue(), preparer, waiting)
        return waiting.outcome()

    def _apply(self, queue: WaitingQueue[WaitingCommit], preparer: Preparer, waiting: WaitingCommit) -> None:
        def lead(line: Line[WaitingCommit]) -> None:
            CommitTurn(preparer, queue, line, waiting).run()

        queue.apply(waiting.prepared.table_id, waiting, lead, PATIENCE_MS)


def new_queue() -> WaitingQueue[WaitingCommit]:
    """Returns a queue in which no commit waits."""
    return WaitingQueue(GROUP_COMMITS, "commits of the table")


class CommitTurn:
    """One leader's attempts, until its own commit, the first of the line, has an outcome. For one
    thread."""

    def __init__(
        self, preparer: Preparer, queue: WaitingQueue[WaitingCommit], line: Line[WaitingCommit], own: WaitingCommit
    ) -> None:
        self._preparer = preparer
        self._heads = preparer.heads
        self._world = preparer.world
        self._queue = queue
        self._line = line
        self._own = own
        self._table_id = own.prepared.table_id

    def run(self) -> None:
        """Settles the own commit, and others on the way."""
        while not self._own.is_settled:
            group = self._queue.take(self._line)
            try:
                self._line.row = self._attempt(group)
            except TurnstileError as error:  # it says nothing of one commit in particular
                self._line.row = None
                for waiting in group:
                    waiting.fail(error)
            except BaseException:
                for waiting in group:
                    waiting.settle(OutcomeUnknown("the process that writes the commit is ending"))
                raise
            finally:
                self._queue.release(self._line, group, self._own)

    def _attempt(self, group: Sequence[WaitingCommit]) -> Row | None:
        """Writes the commits of a group that fit together, and answers from the row that comes
        back; returns the row, if it is known."""
        shared = self._write_of(group)
        if shared is None:
            self._judge(group, group[:1], self._heads.read(self._table_id))
            return None
        members = [group[index] for index in shared.members]
        try:
            response = self._world.refs.write(shared.change)
        except TurnstileError as error:
            for waiting in members:
                waiting.fail(error)
            return None
        row = response.row
        head = self._heads.remember(head_of(row, self._table_id))
        if isinstance(response, Accepted):
            _settle_ratified(members, head)
        else:
            for waiting in members:
                waiting.lost = waiting.lost or response.uncertain
            if head.undecided:
                head = self._heads.remember(settle_one(self._world, head, self._preparer.pause))
                row = None
        self._judge([waiting for waiting in group if not waiting.is_settled], [*members, group[0]], head)
        return row

    def _write_of(self, group: Sequence[WaitingCommit]) -> SharedWrite | None:
        """The next write, and its commits; None if the row that a read returned would refuse it."""
        first = group[0].prepared
        row = self._line.row
        if row is None:
            return (
                None
                if self._heads.is_taken(first.table_id, first.proposal)
                else SharedWrite(self._preparer.change(first), (0,))
            )
        return share(row, [waiting.prepared.proposal for waiting in group], self._world.clock.now_ms())

    def _judge(self, group: Sequence[WaitingCommit], tried: Sequence[WaitingCommit], head: TableHead) -> None:
        """Answers commits from a row that was read or written after they joined; commits that it
        would accept stay in the line."""
        for waiting in group:
            waiting.tries += waiting in tried
            try:
                following = self._preparer.redecide(waiting.prepared, head)
            except TurnstileError as error:
                waiting.fail(error)
                continue
            if not isinstance(following, Prepared):
                waiting.answer(following)
            elif waiting.tries < self._preparer.attempts:
                waiting.prepared = following
            else:
                waiting.answer(CONTENDED)


def _settle_ratified(members: Sequence[WaitingCommit], head: TableHead) -> None:
    """Settles the commits that the newest write of a HEAD ratified, the last ones of its tail."""
    # The newest one alone is found without placing the others of the tail.
    places = tail_by_version(head)[-len(members) :] if len(members) > 1 else (newest(head),)
    for waiting, place in zip(members, places, strict=True):
        if place is None or place.entry.txn != waiting.prepared.proposal.entry.txn:
            raise TurnstileError("an accepted commit is not the newest of its HEAD")
        waiting.settle(Ratified(place, place.version, latest=head.latest, metadata=head.metadata, head=head))


class Ratifier:
    """Decides commits of Delta tables. No state between requests but caches.

    Attributes:
        heads: the HEADs that this process has seen.
        preparer: the steps before and between writes, which groups of commits do as well
            (``delta.transactions.groups``).
    """

    def __init__(
        self,
        world: World,
        limits: Limits | None = None,
        metadata: MetadataStore | None = None,
        *,
        pause: Pause = no_pause,
        queue: CommitQueue | None = None,
        looks: bool = False,
        rows_check: RowsCheck | None = None,
    ) -> None:
        """
        Args:
            looks: whether the log of a table is looked at before its first commit (``first_look``):
                for a process that lives long.
            rows_check: of expectations; None: they are not checked.
        """
        self.heads = SeenHeads(world)
        self.preparer = Preparer(
            world, self.heads, limits or Limits(), metadata, pause=pause, looks=looks, rows_check=rows_check
        )
        self._queue = queue or CommitQueue()

    def commit(self, request: CommitRequest, group: str = "") -> Ratified | Conflict | Refused:
        """Decides one proposal. Returns the ratified version, also of a replay; a conflict with a
        commit of the same version; or a refusal.

        Raises:
            InvalidRequest, InvalidCommit, TooLarge: the proposal is refused for good.
            NotFound: there is no such table or staged file.
            Throttled: nothing was applied; the client sends the proposal again.
            OutcomeUnknown: the outcome of the write could not be learned; the same proposal again
                returns it.
        """
        prepared = self.preparer.prepare(request, group)
        return self._queue.commit(self.preparer, prepared) if isinstance(prepared, Prepared) else prepared
