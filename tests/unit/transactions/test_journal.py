"""The journal of transactions says the true outcome of a group, whichever process finishes or
undoes it (I3, I8)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tests.support.delta_table import Table, table_id
from tests.support.fakes.world import FakeWorld
from tests.support.groups import appends, groups, journal, latest, ratified
from turnstile.delta.core import journal_rows
from turnstile.delta.core.journal_rows import JournalRow
from turnstile.delta.proposals import CommitRequest, GroupRequest, ReadVersion
from turnstile.delta.transactions.groups import GroupRefused
from turnstile.delta.transactions.journal import Announcement, Journal
from turnstile.store.core.errors import InvalidRequest, NotFound, OutcomeUnknown, StateConflict
from turnstile.store.core.writes import Write
from turnstile.store.ports import AllAccepted, Rejected, SomeRejected, World


def announced(world: FakeWorld, group: GroupRequest, **more: Any) -> JournalRow:
    return journal(world).announce(Announcement(group, **more))


def entry(world: FakeWorld, group: GroupRequest) -> JournalRow:
    return journal(world).entry(group.id)


class Losing:
    """refs that lose the answer of every transaction, and keep a copy; ``applied`` whether it comes
    before that."""

    def __init__(self, world: FakeWorld, *, applied: bool) -> None:
        self._refs = world.refs
        self._applied = applied
        self.copies: list[Sequence[Write]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._refs, name)

    def transact(self, writes: Sequence[Write], token: str) -> AllAccepted | SomeRejected:
        self.copies.append(writes)
        if self._applied:
            self._refs.transact(writes, token)
        raise OutcomeUnknown("the answer was lost")

    def deliver(self) -> AllAccepted | SomeRejected:
        """The copy arrives late."""
        return self._refs.transact(self.copies[-1], str(uuid.uuid4()))


def losing(world: FakeWorld, *, applied: bool) -> tuple[Journal, Losing]:
    refs = Losing(world, applied=applied)
    lost: Any = refs
    return journal(World(lost, world.objs, world.storages, world.clock, world.ids, world.space)), refs


def refused_as(type: str) -> Any:
    return pytest.raises(StateConflict, check=lambda error: error.type == type)


# -- one outcome ------------------------------------------------------------------------------------------------------


def test_i8_a_group_and_its_entry_are_committed_in_one_write(world: FakeWorld, tables: list[Table]) -> None:
    group = appends(tables[:2], reads=[ReadVersion(tables[2].id, 0)])
    row = announced(world, group, isolation="serializable", owner="ann")
    assert (row.state, row.written, row.read) == ("open", {t.id: 1 for t in tables[:2]}, {tables[2].id: 0})
    assert not ratified(journal(world).commit(group)).replayed
    row = entry(world, group)
    assert (row.state, row.isolation, row.owner) == ("committed", "serializable", "ann")
    assert row.created < row.settled < row.until
    assert latest(tables) == [1, 1, 0]


def test_slack_is_in_the_entry_as_it_was_announced_last(world: FakeWorld, tables: list[Table]) -> None:
    first = appends(tables[:2], reads=[ReadVersion(tables[2].id, 0, slack=1)])
    second = msgspec.structs.replace(first, reads=(ReadVersion(tables[2].id, 0, slack=2),))
    plain = msgspec.structs.replace(first, reads=(ReadVersion(tables[2].id, 0),))
    assert announced(world, first).slack == {tables[2].id: 1}
    for attempt, (group, slack) in enumerate(((second, {tables[2].id: 2}), (plain, {})), start=2):
        announced(world, group, attempt=attempt)
        assert entry(world, group).slack == slack
        sent, _ = journal(world).content(entry(world, group))
        assert sent == group


def test_i8_a_group_of_one_table_is_committed_with_its_entry_too(world: FakeWorld, tables: list[Table]) -> None:
    group = appends(tables[:1])
    announced(world, group)
    journal(world).commit(group)
    assert (entry(world, group).state, latest(tables)) == ("committed", [1, 0, 0])


def test_i8_a_group_with_an_entry_is_committed_in_one_write_whatever_its_size(
    world: FakeWorld, tables: list[Table]
) -> None:
    group = appends(tables)
    announced(world, group)
    world.refs.requests.clear()
    ratified(Journal(world, groups(world, part=2)).commit(group))
    assert world.refs.requests.count("transact") == 1
    assert entry(world, group).state == "committed"


def test_i8_a_group_that_is_refused_leaves_its_entry_open(world: FakeWorld, tables: list[Table]) -> None:
    group = appends(tables[:2])
    announced(world, group)
    tables[1].inline()
    assert isinstance(journal(world).commit(group), GroupRefused)
    assert (entry(world, group).state, latest(tables)) == ("open", [0, 1, 0])


def test_i3_an_announced_transaction_is_resumed_by_another_and_again_is_a_replay(
    world: FakeWorld, tables: list[Table]
) -> None:
    staged = tables[2].stage(lose=True)
    size = len(tables[2].storage.read(f"_delta_log/_staged_commits/{staged}")[0])  # type: ignore[index]
    group = appends(tables[:1], reads=[ReadVersion(tables[1].id, 0)])
    group = msgspec.structs.replace(
        group, commits=(*group.commits, CommitRequest(tables[2].id, 1, staged=staged, size=size, etag="metadata/m"))
    )
    announced(world, group)
    sent, answer = journal(world).resume(entry(world, group))
    assert not ratified(answer).replayed and sent == group, "the obj has all of the group"
    assert ratified(journal(world).resume(entry(world, group))[1]).replayed
    assert ratified(journal(world).commit(group)).replayed, "the client that was thought dead"
    assert latest(tables) == [1, 0, 1]


@pytest.mark.parametrize("applied", [True, False])
def test_i3_a_lost_answer_is_found_out_by_resuming(world: FakeWorld, tables: list[Table], applied: bool) -> None:
    group = appends(tables)
    service, copy = losing(world, applied=applied)
    service.announce(Announcement(group))
    with pytest.raises(OutcomeUnknown):
        service.commit(group)
    assert entry(world, group).state == ("committed" if applied else "open")
    assert ratified(journal(world).resume(entry(world, group))[1]).replayed is applied
    assert isinstance(copy.deliver(), SomeRejected) and latest(tables) == [1, 1, 1]


def test_i3_a_copy_that_arrives_after_an_abort_is_refused(world: FakeWorld, tables: list[Table]) -> None:
    group = appends(tables)
    service, copy = losing(world, applied=False)
    service.announce(Announcement(group))
    with pytest.raises(OutcomeUnknown):
        service.commit(group)
    aborted = journal(world).abort(entry(world, group))
    assert aborted.state == "aborted"
    assert isinstance(copy.deliver(), SomeRejected) and latest(tables) == [0, 0, 0]
    for again in (lambda: journal(world).commit(group), lambda: journal(world).resume(entry(world, group))):
        with refused_as("TransactionAborted"):
            again()
    assert journal(world).abort(entry(world, group)) == aborted, "again it is the same"
    with refused_as("TransactionAborted"):
        announced(world, group)


def test_i3_a_copy_that_arrives_after_the_entry_was_removed_is_refused(world: FakeWorld, tables: list[Table]) -> None:
    group = appends(tables)
    service, copy = losing(world, applied=False)
    row = service.announce(Announcement(group))
    with pytest.raises(OutcomeUnknown):
        service.commit(group)
    del world.refs.rows[row.key]
    assert isinstance(copy.deliver(), SomeRejected) and latest(tables) == [0, 0, 0]
    with pytest.raises(NotFound):
        journal(world).commit(group)


def test_i3_what_is_committed_cannot_be_aborted(world: FakeWorld, tables: list[Table]) -> None:
    group = appends(tables)
    before_it = announced(world, group)
    journal(world).commit(group)
    rows = dict(world.refs.rows)
    for seen in (before_it, entry(world, group)):
        with refused_as("TransactionCommitted"):
            journal(world).abort(seen)
    with refused_as("TransactionCommitted"):
        announced(world, group, attempt=2)
    assert dict(world.refs.rows) == rows


def test_i3_a_group_that_was_not_announced_is_refused(world: FakeWorld, tables: list[Table]) -> None:
    with pytest.raises(NotFound):
        journal(world).commit(appends(tables))
    assert latest(tables) == [0, 0, 0]


# -- attempts ---------------------------------------------------------------------------------------------------------


def rebased(group: GroupRequest, tables: list[Table]) -> GroupRequest:
    """The same transaction on top of another commit."""
    return appends(tables[: len(group.commits)], "rebased", id=group.id)


def test_i3_of_two_attempts_only_the_later_one_can_be_committed(world: FakeWorld, tables: list[Table]) -> None:
    first = appends(tables[:2])
    announced(world, first)
    tables[0].inline()
    second = rebased(first, tables)
    row = announced(world, second, attempt=2)
    assert (row.attempt, row.written) == (2, {tables[0].id: 2, tables[1].id: 1})
    for stale, attempt in ((first, 1), (first, 2)):
        with refused_as("TransactionSuperseded"):
            announced(world, stale, attempt=attempt)
    assert entry(world, first) == row, "a late copy of the first announcement changes nothing"
    assert ratified(journal(world).commit(second))
    assert latest(tables) == [2, 1, 0]


def test_i8_a_later_attempt_says_what_it_read(world: FakeWorld, tables: list[Table]) -> None:
    first = appends(tables[:1], reads=[ReadVersion(tables[1].id, 0)])
    announced(world, first)
    tables[1].inline()
    row = announced(world, msgspec.structs.replace(first, reads=(ReadVersion(tables[1].id, 1),)), attempt=2)
    assert row.read == {tables[1].id: 1} and row == entry(world, first)


def test_i8_commits_that_are_not_those_of_the_entry_are_refused(world: FakeWorld, tables: list[Table]) -> None:
    group = appends(tables[:2])
    announced(world, group)
    with refused_as("TransactionSuperseded"):
        journal(world).commit(appends(tables[:2], "other", id=group.id))
    assert latest(tables) == [0, 0, 0]


def test_i3_announcing_the_same_again_changes_nothing(world: FakeWorld, tables: list[Table]) -> None:
    group = appends(tables)
    row = announced(world, group)
    world.clock.now += 1_000
    assert announced(world, group) == row


def test_i12_a_later_attempt_is_about_the_same_tables(world: FakeWorld, tables: list[Table]) -> None:
    group = appends(tables[:2])
    announced(world, group)
    with refused_as("TransactionSuperseded"):
        announced(world, appends(tables[1:], id=group.id), attempt=2)


def test_i3_a_resumer_goes_on_with_what_is_announced_now_while_the_client_rebases(
    world: FakeWorld, tables: list[Table]
) -> None:
    first = appends(tables[:2])
    seen = announced(world, first)
    second = appends(tables[:2], "second", id=first.id)
    announced(world, second, attempt=2)
    sent, answer = journal(world).resume(seen)
    assert ratified(answer) and sent == second
    assert tables[0].head.tail[-1].txn == f"second-{tables[0].id}"


def test_i3_an_abort_goes_on_with_what_is_announced_now(world: FakeWorld, tables: list[Table]) -> None:
    first = appends(tables[:2])
    seen = announced(world, first)
    announced(world, appends(tables[:2], "second", id=first.id), attempt=2)
    assert journal(world).abort(seen).attempt == 2


# -- the writes -------------------------------------------------------------------------------------------------------


def test_i3_each_clause_refuses_for_itself_alone(world: FakeWorld, tables: list[Table]) -> None:
    """And nothing is changed by a write that is refused."""
    row = announced(world, appends(tables), attempt=3)
    now = world.clock.now_ms()
    other = msgspec.structs.replace(row, attempt=3)
    cases: list[tuple[str, Write]] = [
        ("new", journal_rows.announce(row)),
        ("later attempt", journal_rows.announce_again(other)),
        ("same commits", journal_rows.commit_entry(row.key, "transaction/other", now)),
        ("same commits", journal_rows.abort_entry(row.key, "transaction/other", (), now)),
        ("over", journal_rows.expire_entry(row.key, row.until - 1)),
        ("settled", journal_rows.forget_entry(msgspec.structs.replace(row, settled=1))),
    ]
    for name, write in cases:
        assert name in [clause.name for clause in write.clauses]
        assert isinstance(world.refs.write(write), Rejected), name
        assert JournalRow.from_row(world.refs.rows[row.key]) == row
    world.refs.write(journal_rows.abort_entry(row.key, row.obj, (), now))
    later = msgspec.structs.replace(row, attempt=4)
    for write in (
        journal_rows.announce_again(later),
        journal_rows.commit_entry(row.key, row.obj, now),
        journal_rows.abort_entry(row.key, row.obj, (), now),
        journal_rows.expire_entry(row.key, row.until),
    ):
        assert isinstance(world.refs.write(write), Rejected), "it is settled"


# -- bad requests -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"attempt": 0}, "attempt"),
        ({"ttl_ms": 59_999}, "ttl_ms"),
        ({"ttl_ms": 7 * 86_400_000 + 1}, "ttl_ms"),
    ],
)
def test_a_bad_announcement_is_refused_and_changes_nothing(
    world: FakeWorld, tables: list[Table], more: dict[str, Any], field: str
) -> None:
    rows = dict(world.refs.rows)
    with pytest.raises(InvalidRequest) as refused:
        announced(world, appends(tables), **more)
    assert refused.value.field == field
    assert dict(world.refs.rows) == rows


def test_a_ticket_cannot_be_announced(world: FakeWorld, tables: list[Table]) -> None:
    group = appends(tables[:1])
    ticket = msgspec.structs.replace(group.commits[0], version=None, base=0)
    for send in (lambda g: announced(world, g), journal(world).commit):
        with pytest.raises(InvalidRequest) as refused:
            send(msgspec.structs.replace(group, commits=(ticket,)))
        assert refused.value.field == "commits[0].version"


def test_a_hundred_tables_and_their_entry_are_too_many_for_one_write(world: FakeWorld) -> None:
    commits = tuple(CommitRequest(table_id(number), 1, content=b"{}") for number in range(100))
    with pytest.raises(InvalidRequest, match="it may have 99"):
        announced(world, GroupRequest(str(uuid.uuid4()), commits))


def test_i3_a_committed_transaction_is_reported_also_when_its_commits_are_gone(
    world: FakeWorld, tables: list[Table]
) -> None:
    group = appends(tables)
    announced(world, group)
    journal(world).commit(group)
    world.objs.delete(world.space.objs("."), entry(world, group).obj)
    with refused_as("TransactionCommitted"):
        journal(world).resume(entry(world, group))


def test_an_entry_whose_commits_are_gone_can_be_aborted_only(world: FakeWorld, tables: list[Table]) -> None:
    group = appends(tables)
    row = announced(world, group)
    world.objs.delete(world.space.objs("."), row.obj)
    with refused_as("ReloadRequired"):
        journal(world).resume(row)
    assert journal(world).abort(row, lambda _: True).state == "aborted"
