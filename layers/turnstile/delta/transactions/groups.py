"""Ratification of a group: commits of several Delta tables, all or none (I8). Up to a hundred here,
in one write; for more ``delta.transactions.large_groups`` does steps 2 and 3.

    1  prepare each member        as alone (``delta.ratify``, steps 1 to 3); HEADs that are not
                                  cached are read in one request
    2  one transaction            each part exactly the single-table write; a Check for each table
                                  that was only read
    3  refused                    every member is decided from the row that refused it; if all can
                                  be written after all
                                  (a ticket's other form, inline bytes moved to an obj, a read of
                                  rows that no later commit changed:
                                  ``delta.transactions.group_reads``), again
                                  from 2

A group of one member is a single commit. A crash before 2 leaves objs and staged files for gc;
after 2 all of it is ratified. A lost answer is OutcomeUnknown: the same group, sent again, is a
replay (I3), recognised by the id that every entry carries, or, once entries have left the tail, by
the transaction ids of all members.

Sources: Delta's proposal of multi-table transactions (delta-io/delta 7437), LakeVilla, section 4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TypeGuard

import msgspec

from turnstile.delta.commits import head_of
from turnstile.delta.core.decide import CONTENDED, Conflict, Proposal, Ratified, Refused, excludes_earlier
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.undecided import LARGE_MAX
from turnstile.delta.core.writes.ratify import with_name
from turnstile.delta.prepare import Member, Prepared
from turnstile.delta.proposals import GroupRequest, HandOver, check_request
from turnstile.delta.ratify import Ratifier
from turnstile.delta.transactions.group_reads import GroupReads, Judge, check_reads
from turnstile.delta.transactions.large_groups import LargeGroups, PreparedGroup
from turnstile.delta.undecided import as_readers_see, settle
from turnstile.store.core.errors import ErrorType, InvalidRequest, OutcomeUnknown, TurnstileError
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import check_uuid
from turnstile.store.core.writes import Row, Write
from turnstile.store.ports import TRANSACT_MAX, AllAccepted, World
from turnstile_predicates.conflicts import ChangedRead


class GroupRatified(msgspec.Struct, frozen=True):
    """All members are ratified, in the order of the request; ``replayed`` when they already were
    (I3)."""

    members: tuple[Ratified, ...]
    replayed: bool = False


class EntryRefused(Exception):
    """The group's entry in the journal refused it; ``row`` is that entry (None: there is none)."""

    def __init__(self, row: Row | None) -> None:
        super().__init__("the entry of the group refused it")
        self.row = row


class RowsTaken(Exception):
    """Rows that the group was to make are there already. ``rows``: these, in the order of the
    request; None for one that is not there."""

    def __init__(self, rows: Sequence[Row | None]) -> None:
        super().__init__("rows of the group are there already")
        self.rows = rows


class RefusedMember(msgspec.Struct, frozen=True):
    """The reason why a table keeps the group from being ratified. ``index``: its place among the
    commits, or among the reads; ``change``: the possible change of the rows of a read with a
    predicate.
    """

    table_id: str
    index: int
    decision: Conflict | Refused
    was_read: bool = False
    change: ChangedRead | None = None


class GroupRefused(msgspec.Struct, frozen=True):
    """Nothing of the group is ratified; each member that refused, with its reason."""

    members: tuple[RefusedMember, ...]


class GroupRatifier:
    """Decides groups of commits. Shares the caches of the single commits' ratifier. ``part``:
    tables that one transaction changes, by default as many as the store takes; a group of more is a
    large one. ``judge``: of reads with predicates; without one these hold while their tables do not
    change. ``large`` carries out large groups, also for a sender that decides them itself.
    """

    def __init__(
        self,
        world: World,
        ratifier: Ratifier,
        limits: Limits | None = None,
        *,
        part: int | None = None,
        judge: Judge | None = None,
    ) -> None:
        self._world = world
        self._ratifier = ratifier
        self._limits = limits or Limits()
        self._judge = judge
        self.part = world.refs.transact_max if part is None else part
        self.large = LargeGroups(world, ratifier, self._limits, pause=ratifier.preparer.pause, part=self.part)

    def commit(self, group: GroupRequest) -> GroupRatified | GroupRefused:
        """Decides one group. Raises InvalidRequest, InvalidCommit, TooLarge or NotFound, whose
        ``field`` begins with the member, if it is refused, Throttled if nothing was applied,
        OutcomeUnknown if the outcome could not be learned, EntryRefused, RowsTaken.
        """
        check_group(group)
        if len(group.commits) == 1 and not group.reads and group.entry is None and not group.rows:
            with _naming(0):
                decision = self._ratifier.commit(group.commits[0], group.id)
            return OpenGroup(self._world, self._ratifier, group, [decision]).answer()
        members = self.open(group)
        is_large = len(group.commits) + len(group.reads) > self.part and group.entry is None
        return members.carried_out(self.large) if is_large and members.are_open else self._attempt(members)

    def remember(self, heads: Collection[TableHead]) -> None:
        """Uses HEADs that were just read for the group that follows, which does not read them
        again."""
        for head in heads:
            self._ratifier.heads.remember(head)
        self._ratifier.preparer.look(heads)

    def open(self, group: GroupRequest) -> OpenGroup:
        """Step 1: the group with its members prepared. Raises as ``commit``; nothing was written
        but objs."""
        members = OpenGroup(self._world, self._ratifier, group, [], self._judge)
        members.prepare()
        return members

    def _attempt(self, members: OpenGroup) -> GroupRatified | GroupRefused:
        """Steps 2 and 3."""
        lost = False  # whether the response to a transaction of this request was lost
        try:
            for _ in range(self._limits.attempts):
                if not members.are_open:
                    return members.answer(lost=lost)
                # A token of its own: another attempt, or the same group sent again, is another
                # transaction.
                answer = self._world.refs.transact(members.writes(), self._world.ids.uuid())
                if isinstance(answer, AllAccepted):
                    return members.ratified_results()
                lost = lost or answer.uncertain
                members.decide_rejected(answer.failed)
                if members.is_stale:
                    return members.answer(lost=lost)
        except OutcomeUnknown:
            raise
        except TurnstileError as error:  # true of the last transaction, and not of the one before it
            if not lost:
                raise
            raise OutcomeUnknown(f"an answer was lost, and then: {error.public_message}") from error
        members.fail_contended()
        return members.answer(lost=lost)


class OpenGroup:
    """The members of one group while it is decided, for the sender of their writes:
    ``GroupRatifier``, or a change of a catalog that they are part of
    (``catalog.changes.transactions``).
    """

    def __init__(
        self, world: World, ratifier: Ratifier, group: GroupRequest, members: list[Member], judge: Judge | None = None
    ) -> None:
        self._world = world
        self._ratifier = ratifier
        self._group = group
        self._members = members
        self._reads = GroupReads(group.reads, judge)

    def prepare(self) -> None:
        """Step 1, which decides members that their HEADs are seen to refuse."""
        unseen = self._ratifier.heads.without_head(request.table_id for request in self._group.commits)
        self._ratifier.preparer.look(self._heads(unseen).values())
        for index, request in enumerate(self._group.commits):
            with _naming(index):
                self._members.append(self._ratifier.preparer.prepare(request, self._group.id))
        seen = self._ratifier.heads
        taken = [
            at
            for at, member in enumerate(self._members)
            if _is_open(member) and seen.is_taken(member.table_id, member.proposal)
        ]
        self._decide(self._read(taken))

    def carried_out(self, large: LargeGroups) -> GroupRatified | GroupRefused:
        """Steps 2 and 3 of a group that is too large for one transaction, if all its members are to
        be written."""
        if large.attempt(self._group, self._members, self._reads, self._decide):
            return self.ratified_results()
        return self.answer_of_others()

    def prepare_large(self, large: LargeGroups) -> PreparedGroup | None:
        """Prepares a group that is too large for one transaction; its sender decides it. None where
        it was not prepared, as of ``LargeGroups.prepare``."""
        return large.prepare(self._group, self._members, self._reads, self._decide)

    def answer_of_others(self) -> GroupRatified | GroupRefused:
        """The answer where this request did not commit the large group."""
        self._decide(self._read([at for at, member in enumerate(self._members) if _is_open(member)]))
        if self.are_open and not self.is_stale:
            self.fail_contended()
        return self.answer()

    @property
    def are_open(self) -> bool:
        """Whether every member is to be written."""
        return all(_is_open(member) for member in self._members)

    @property
    def is_stale(self) -> bool:
        """Whether a read of a table that is not written is invalid by now."""
        return bool(self._reads.stale)

    @property
    def table_keys(self) -> list[str]:
        """The keys of the tables' rows: of the commits, then of the reads."""
        ids = [commit.table_id for commit in self._group.commits] + [read.table_id for read in self._group.reads]
        return [self._world.space.table(id) for id in ids]

    @property
    def row_count(self) -> int:
        """The number of ``writes`` while all members are open."""
        group = self._group
        return len(group.commits) + len(group.reads) + (group.entry is not None) + len(group.rows)

    def writes(self) -> list[Write]:
        """Step 2: the conditional writes of the members, the checks of the reads, in the order of
        the request, and the change of the group's entry."""
        change = self._ratifier.preparer.change
        members = zip(self._members, self._group.commits, strict=True)
        commits = [with_name(change(member), commit.name) for member, commit in members if _is_open(member)]
        reads = self._reads.writes(self._world.space.table, self._world.clock.now_ms())
        entry = [self._group.entry] if self._group.entry is not None else []
        return [*commits, *reads, *entry, *self._group.rows]

    def decide_rejected(self, failed: Mapping[int, Row | None]) -> None:
        """Step 3, of the rows that refused, by position in ``writes``. Raises NotFound for a row
        that is not there, EntryRefused, RowsTaken."""
        own = len(self._members)
        last = own + len(self._group.reads)
        if self._group.rows and any(at >= last for at in failed):
            raise RowsTaken([failed.get(last + at) for at in range(len(self._group.rows))])
        if last in failed:  # final, also of an attempt whose response was lost
            raise EntryRefused(failed[last])
        heads = {at: head_of(row, _table_of(self._group, at)) for at, row in failed.items()}
        heads = settle(self._world, heads, self._ratifier.preparer.pause)
        read = {at - own: heads.pop(at) for at in sorted(heads) if at >= own}
        self._decide(heads)
        self._reads.decide_refused(read)

    def ratified_results(self) -> GroupRatified:
        """The results of the members' accepted writes. A transaction returns no rows: if a version
        or the metadata follows from the row, the rows are read. Raises OutcomeUnknown if they
        cannot be read.
        """
        writing = [member for member in self._members if _is_open(member)]
        in_row = [member.table_id for member in writing if not _is_named(member.proposal)]
        try:
            heads = self._heads(in_row)
            return GroupRatified(tuple(self._ratified_at(member, heads.get(member.table_id)) for member in writing))
        except TurnstileError as error:
            raise OutcomeUnknown(
                f"the group is ratified, and its versions could not be read: {error.public_message}"
            ) from error

    def find_replay(self) -> GroupRatified | None:
        """The results of the members, if all of them were ratified, and no other group's. Reads the
        HEADs of the members that are to be written."""
        self._decide(self._read([at for at, member in enumerate(self._members) if _is_open(member)]))
        ratified = tuple(member for member in self._members if isinstance(member, Ratified))
        if len(ratified) < len(self._members) or not all(_is_of(member, self._group) for member in ratified):
            return None
        return GroupRatified(ratified, replayed=any(member.replayed for member in ratified))

    def catalogs(self) -> list[str]:
        """Returns the catalogs of the written tables, in the order of the request. Tables with
        cached facts cost no request."""
        return [self._ratifier.heads.facts(request.table_id).catalog for request in self._group.commits]

    def fail_contended(self) -> None:
        """No attempt was accepted."""
        self._members[:] = [CONTENDED for _ in self._members]

    def answer(self, *, lost: bool = False) -> GroupRatified | GroupRefused:
        """The answer when not every member is to be written. ``lost``: the answer to a transaction
        of this request was lost. Raises OutcomeUnknown where a refusal may pass and ``lost``."""
        group = self._group
        members = self._members
        if lost or any(isinstance(member, Ratified) for member in members):
            # All of it may be ratified: the rows of the members that are open were not seen yet.
            ratified = self.find_replay()
            if ratified is not None:
                return ratified
        refused = []
        is_final = False
        for index, (request, member) in enumerate(zip(group.commits, members, strict=True)):
            decision = _without_the_others(member) if isinstance(member, Ratified) else member
            if not isinstance(decision, Prepared):
                refused.append(RefusedMember(request.table_id, index, decision))
                is_final |= isinstance(member, Ratified) or excludes_earlier(
                    decision, is_named=request.version is not None
                )
        reads = self._reads
        for index, stale in reads.stale.items():
            table_id = group.reads[index].table_id
            refused.append(RefusedMember(table_id, index, reads.decision(index), was_read=True, change=stale.change))
            is_final |= reads.is_final(index)
        if lost and not is_final:
            raise OutcomeUnknown("an answer was lost, and the retry was refused for a reason that may pass")
        return GroupRefused(tuple(refused))

    # -- steps --------------------------------------------------------------------------------------------------------

    def _decide(self, heads: Mapping[int, TableHead]) -> None:
        """Replaces members that were to be written by the decisions from their HEADs."""
        for index, head in heads.items():
            member = self._members[index]
            if _is_open(member):
                with _naming(index):
                    self._members[index] = self._ratifier.preparer.redecide(member, self._ratifier.heads.remember(head))

    def _read(self, indexes: Sequence[int]) -> dict[int, TableHead]:
        """The HEADs of the members at ``indexes`` that are to be written: one request, none for
        none."""
        ids = {index: member.table_id for index in indexes if _is_open(member := self._members[index])}
        heads = self._heads(list(ids.values()))
        return {index: heads[id] for index, id in ids.items()}

    def _heads(self, table_ids: Sequence[str]) -> dict[str, TableHead]:
        """The HEADs of these tables: one request, none for none. Raises NotFound."""
        keys = {id: self._world.space.table(id) for id in table_ids}
        rows = self._world.refs.read_many(list(keys.values())) if keys else {}
        heads = as_readers_see(self._world, {id: head_of(rows.get(key), id) for id, key in keys.items()})
        return {id: self._ratifier.heads.remember(head) for id, head in heads.items()}

    def _ratified_at(self, member: Prepared, head: TableHead | None) -> Ratified:
        if head is None:
            return self._ratifier.heads.remember_accepted(member.table_id, member.proposal)
        decision = self._ratifier.preparer.redecide(member, head)
        if not isinstance(decision, Ratified):
            raise TurnstileError(f"table {member.table_id} lacks a commit of a group that was accepted")
        return msgspec.structs.replace(decision, replayed=decision.place is None)


def check_group(group: GroupRequest) -> None:
    """Checks shapes and ranges; raises InvalidRequest naming the member."""
    if not group.commits:
        raise InvalidRequest("a group without commits", field="commits", remedy="tables are read without a transaction")
    check_members(group)


def check_members(group: GroupRequest) -> None:
    """As ``check_group``, of a group that may be without commits, as a part of something else."""
    check_uuid(group.id, "id")
    tables = [request.table_id for request in group.commits] + [read.table_id for read in group.reads]
    most = LARGE_MAX if group.entry is None else TRANSACT_MAX - 1
    count = len(tables) - sum(isinstance(read, HandOver) for read in group.reads)
    if count > most:
        problem = f"a group of {count} tables; it may have {most}, with those that are only read"
        raise InvalidRequest(problem, field="commits", remedy="split it into several transactions")
    if repeated := {id for id, count in Counter(tables).items() if count > 1}:
        problem = f"table {min(repeated)} is named twice"
        raise InvalidRequest(problem, field="commits", remedy="one commit a table; a written table needs no read")
    for index, request in enumerate(group.commits):
        with _naming(index):
            check_request(request)
    check_reads(group.reads)


class _naming:  # noqa: N801 - a context manager, entered several times for each member
    """An error about a member says which."""

    __slots__ = ("_index",)

    def __init__(self, index: int) -> None:
        self._index = index

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, TurnstileError):
            member = f"commits[{self._index}]"
            error.member = self._index
            error.field = f"{member}.{error.field}" if error.field else member


def _table_of(group: GroupRequest, position: int) -> str:
    own = len(group.commits)
    return group.commits[position].table_id if position < own else group.reads[position - own].table_id


def _is_open(member: Member) -> TypeGuard[Prepared]:
    return isinstance(member, Prepared)


def _is_named(proposal: Proposal) -> bool:
    """Whether the result of an accepted proposal is known without its row."""
    return proposal.version is not None and (proposal.metadata or proposal.asserts) is not None


def _is_of(member: Ratified, group: GroupRequest) -> bool:
    """Whether a commit was ratified in this group, as far as its entry is still there to say."""
    return member.place is None or member.place.entry.group == group.id


def _without_the_others(member: Ratified) -> Refused:
    return Refused(
        ErrorType.ALREADY_RATIFIED,
        f"the commit is version {member.version} already, and was not ratified with this group",
        "load the table again; use new transaction ids for every new transaction",
        "id",
        {"version": member.version, "latest": member.latest},
    )
