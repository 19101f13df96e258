"""Ratification of a group that is too large for one conditional write: up to a thousand tables (I8,
ADR 24).

    1  begin                the group's row: open
    2  prepare              an undecided entry in every HEAD, a hundred in one transaction, each
                            under exactly the conditions
                            of the single-table write; an entry without a commit for each table that
                            was only read
    3  decide               committed, when all are prepared; aborted, when one is refused: one
                            conditional write
    4  fold, or remove      the entries, a hundred in one transaction

Before 3 the group is invisible to readers, after it all of it is visible: a process that finds an
entry reads the group's row (``delta.undecided``). If the coordinator dies, others abort its group
after the deadline, or fold its entries. The same group, sent again, takes part in its open
beginning, or begins anew after an abort, or is a replay (I3). A failure of 4 changes no answer.

Sources: Marlin, "MarlinCommit"; Cornus (Guo et al., 2022): two-phase commit in which the log
decides, and not the coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from turnstile.delta.commits import head_of
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.undecided import (
    ABORTED,
    COMMITTED,
    OPEN,
    Beginning,
    GroupRow,
    GroupState,
    begin,
    begin_anew,
    decision_writes,
    fold,
    group_ref,
    packed_ids,
    prepare,
    remove,
    undecided_of,
)
from turnstile.delta.prepare import Member, Prepared
from turnstile.delta.proposals import GroupRequest, HandOver
from turnstile.delta.ratify import Ratifier
from turnstile.delta.transactions.group_reads import GroupReads
from turnstile.delta.undecided import settle
from turnstile.store.core.errors import OutcomeUnknown, Throttled, TurnstileError
from turnstile.store.core.limits import Limits
from turnstile.store.core.writes import Change, Write
from turnstile.store.faults import Faults, no_faults
from turnstile.store.ports import AllAccepted, World, in_batches
from turnstile.store.retry import Pause

_BEGINS: Final = 4
"""How often one request looks at a group's row that changes under it."""


class LargeGroups:
    """Carries out groups that ``GroupRatifier`` has prepared. No state between requests."""

    def __init__(
        self,
        world: World,
        ratifier: Ratifier,
        limits: Limits,
        *,
        pause: Pause,
        part: int,
        faults: Faults = no_faults,
    ) -> None:
        self._world = world
        self._ratifier = ratifier
        self._limits = limits
        self._pause = pause
        self._part = part
        self._faults = faults

    def attempt(
        self,
        group: GroupRequest,
        members: list[Member],
        reads: GroupReads,
        decide: Callable[[Mapping[int, TableHead]], None],
    ) -> bool:
        """Steps 1 to 4, of members that are all to be written. Returns whether this request
        committed the group; ``members`` are as they were prepared then. Otherwise it was aborted,
        or another request committed it, as the HEADs say; ``members`` has decisions in place of
        members that refused, where ``decide`` puts them, and ``reads`` has the stale ones.

        Raises Throttled and other errors of the store if the group is aborted, OutcomeUnknown if
        that is not known.
        """
        run = self.prepare(group, members, reads, decide)
        if run is None:
            return False
        if self._decide(run.beginning, COMMITTED):
            self.fold(run)
            return True
        self.abort(run)
        return False

    def prepare(
        self,
        group: GroupRequest,
        members: list[Member],
        reads: GroupReads,
        decide: Callable[[Mapping[int, TableHead]], None],
    ) -> PreparedGroup | None:
        """Steps 1 and 2, for a sender that decides the group with other rows (``decision``), then
        calls ``fold`` or ``abort``. Returns None where the group was aborted, or committed by
        another request. Raises as ``attempt``."""
        beginning = self._begin(group)
        if beginning is None:
            return None
        run = PreparedGroup(
            self._world, self._ratifier, beginning, group=group, members=members, reads=reads, decide=decide
        )
        self._faults("group.begun")
        try:
            is_prepared = self._prepare(run)
        except OutcomeUnknown:
            raise
        except TurnstileError as error:
            if self.abort(run):
                raise
            # Another request, of the same group, has committed it.
            raise OutcomeUnknown(f"the group is ratified, and then: {error.public_message}") from error
        if not is_prepared:
            self.abort(run)
            return None
        self._faults("group.prepared")
        return run

    def decision(self, run: PreparedGroup) -> Change:
        """The write that commits the group: step 3, for a transaction with other rows."""
        return self._decision(run.beginning, COMMITTED)

    def fold(self, run: PreparedGroup) -> None:
        """Step 4 of a group that is committed."""
        self._faults("group.decided")
        self._finish(run, lambda key, packed: fold(key, packed, self._world.clock.now_ms()))

    def abort(self, run: PreparedGroup) -> bool:
        """Steps 3 and 4 of a group that is not to be committed. Returns False where it is committed
        by now. Raises OutcomeUnknown where the store does not say."""
        if not self._decide(run.beginning, ABORTED):
            return False
        self._faults("group.decided")
        self._finish(run, remove)
        return True

    # -- steps --------------------------------------------------------------------------------------------------------

    def _begin(self, group: GroupRequest) -> Beginning | None:
        """Step 1; None if the group is committed. A beginning that is open, of this group sent
        before, is taken part in: its entries are the same."""
        ref = group_ref(group.id, _identity(group))
        key = self._world.space.group(ref)
        now = self._world.clock.now_ms()
        token = self._world.ids.uuid()
        ids = [commit.table_id for commit in group.commits] + [read.table_id for read in group.reads]
        write: Write = begin(key, token, packed_ids(ids), now)
        for _ in range(_BEGINS):
            answer = self._world.refs.write(write)
            if answer.row is None:  # gc took the row meanwhile
                write = begin(key, token, packed_ids(ids), now)
                continue
            row = GroupRow.from_row(answer.row)  # as it was written, or as it refused
            if row.state != ABORTED:
                return Beginning(group.id, ref, row.token) if row.state == OPEN else None
            write = begin_anew(row, token, now)
        raise Throttled("the group was begun and aborted by others during every attempt")

    def _prepare(self, run: PreparedGroup) -> bool:
        """Step 2; whether every table is prepared."""
        for positions in in_batches(run.order(), self._part):
            if not self._prepare_some(run, set(positions)):
                return False
            self._faults("group.part")
        return True

    def _prepare_some(self, run: PreparedGroup, left: set[int]) -> bool:
        for _ in range(self._limits.attempts):
            order = sorted(left)
            answer = self._world.refs.transact([run.change(at) for at in order], self._world.ids.uuid())
            if isinstance(answer, AllAccepted):
                return True
            heads = {order[at]: head_of(row, run.table_id(order[at])) for at, row in answer.failed.items()}
            for at, head in list(heads.items()):
                if run.beginning.owns(undecided_of(head)):  # its answer was lost, or another request prepared it
                    run.entries[at] = head.undecided
                    left.discard(at)
                    del heads[at]
            may_go_on = run.may_go_on(settle(self._world, heads, self._pause))
            if not may_go_on or not left:
                return may_go_on
        return False

    def _decide(self, beginning: Beginning, target: GroupState) -> bool:
        """Step 3: whether the group is ``target`` now; it is not committed where its row is of
        another beginning. Raises OutcomeUnknown where the store does not say."""
        try:
            answer = self._world.refs.write(self._decision(beginning, target))
        except TurnstileError as error:
            raise OutcomeUnknown(f"the decision on the group could not be written: {error.public_message}") from error
        row = GroupRow.from_row(answer.row) if answer.row is not None else None
        is_committed = row is not None and (row.token, row.state) == (beginning.token, COMMITTED)
        return is_committed == (target == COMMITTED)

    def _decision(self, beginning: Beginning, target: GroupState) -> Change:
        key = self._world.space.group(beginning.ref)
        return decision_writes(key, beginning.token, target, self._world.clock.now_ms())

    def _finish(self, run: PreparedGroup, write: Callable[[str, bytes], Change]) -> None:
        """Step 4, as far as it goes: other processes do the rest."""
        try:
            for positions in in_batches(run.order(), self._part):
                left = [at for at in positions if at in run.entries]
                while left:
                    writes = [write(run.key(at), run.entries[at]) for at in left]
                    answer = self._world.refs.transact(writes, self._world.ids.uuid())
                    if isinstance(answer, AllAccepted) or not answer.failed:
                        break
                    left = [at for place, at in enumerate(left) if place not in answer.failed]  # others did those
                self._faults("group.folded")
        except TurnstileError:
            return


class PreparedGroup:
    """One group while it is carried out. Its tables have positions: the commits, then the reads and
    the tables that are handed over."""

    def __init__(
        self,
        world: World,
        ratifier: Ratifier,
        beginning: Beginning,
        *,
        group: GroupRequest,
        members: list[Member],
        reads: GroupReads,
        decide: Callable[[Mapping[int, TableHead]], None],
    ) -> None:
        self._world = world
        self._ratifier = ratifier
        self.beginning = beginning
        self._group = group
        self._members = members
        self._reads = reads
        self._decide = decide
        self.entries: dict[int, bytes] = {}  # by position: what was sent, or seen, as its undecided entry

    def order(self) -> list[int]:
        """The positions by table, the same for every group: two that share tables meet at the first
        of them."""
        return sorted(range(len(self._members) + len(self._group.reads)), key=self.table_id)

    def table_id(self, at: int) -> str:
        own = len(self._members)
        return self._group.commits[at].table_id if at < own else self._group.reads[at - own].table_id

    def key(self, at: int) -> str:
        return self._world.space.table(self.table_id(at))

    def change(self, at: int) -> Change:
        """The write that prepares the table at ``at``."""
        if at >= len(self._members):
            index = at - len(self._members)
            change = self._reads.hold(self.beginning, index, self.key(at), self._world.clock.now_ms())
        else:
            member = self._members[at]
            assert isinstance(member, Prepared)
            proposal = member.proposal
            behind = member.clock_behind
            name = self._group.commits[at].name
            written = self._ratifier.preparer.change(member)
            change = prepare(self.beginning, written, proposal, clock_behind=behind, name=name)
        self.entries[at] = change.actions[0].value  # type: ignore[union-attr]
        return change

    def may_go_on(self, heads: Mapping[int, TableHead]) -> bool:
        """Decides the members at these positions from their HEADs; whether all of them may be
        prepared after all."""
        own = len(self._members)
        self._decide({at: head for at, head in heads.items() if at < own})
        self._reads.decide_refused({at - own: head for at, head in heads.items() if at >= own})
        return not self._reads.stale and all(isinstance(self._members[at], Prepared) for at in heads if at < own)


def _identity(group: GroupRequest) -> bytes:
    """An identity of the group: equal for every request with the same group, and for no other."""
    commits: Iterable[Sequence[object]] = (
        (
            commit.table_id, commit.version, commit.base, commit.staged, commit.size, commit.modified_ms,
            commit.content,
            commit.inline_name, commit.etag, *filter(None, (commit.name,)),
        )
        for commit in sorted(group.commits, key=lambda commit: commit.table_id)
    )  # fmt: skip
    reads = sorted(
        (
            read.table_id,
            read.version,
            *filter(None, (read.slack, read.predicate, isinstance(read, HandOver))),
        )
        for read in group.reads
    )
    return msgspec.msgpack.encode((group.id, list(commits), reads))
