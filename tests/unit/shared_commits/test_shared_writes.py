"""One write of several commits does exactly what their own writes do one after the other (I23)."""

from __future__ import annotations

from functools import reduce

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fakes.heads import (
    APPS,
    START_ICT,
    accepts,
    empty_row,
    floored,
    forms,
    must,
    named,
    named_again,
    proposals,
    ratified,
    recount,
    rows,
    ticket,
)
from turnstile.adapters.dynamo.refs import write_request
from turnstile.delta.core.decide import Proposal, Ratified, decide
from turnstile.delta.core.head import ROWS_OFF, TableHead, cost, tail_by_version
from turnstile.delta.core.writes.shared import GROUP_APPS, GROUP_COMMITS, SharedWrite, share
from turnstile.store.core.evaluate import apply_actions
from turnstile.store.core.writes import Row

MANY = settings(max_examples=examples(250))
NOW = 7


def one_by_one(row: Row | None, members: list[Proposal]) -> Row | None:
    """The row after each proposal's own write, in order; None where one of them is refused."""
    return reduce(lambda before, proposal: None if before is None else ratified(before, proposal), members, row)


def groups(latest: int = 8) -> st.SearchStrategy[list[Proposal]]:
    """Proposals that wait together: any, and many tickets."""
    bases = st.integers(0, latest + 1)
    tickets = st.builds(
        lambda base, number, ict, rows, apps: ticket(base, f"w{number}", START_ICT + ict, rows=rows, apps=apps),
        bases, st.integers(0, 9), st.integers(-5, 60), st.sampled_from([-1, -1, -1, 0, 2]),
        st.sampled_from([(), (), APPS[:1], APPS]),
    )  # fmt: skip
    return st.lists(st.one_of(proposals(latest), tickets, tickets, tickets), min_size=1, max_size=6)


def shared(row: Row, waiting: list[Proposal]) -> tuple[SharedWrite, list[Proposal]]:
    write = share(row, waiting, NOW)
    assert write is not None
    return write, [waiting[member] for member in write.members]


@MANY
@given(rows(), groups(), st.data())
def test_i23_a_shared_write_leaves_the_row_that_its_commits_own_writes_leave_in_order(
    row: Row, waiting: list[Proposal], data: st.DataObject
) -> None:
    if data.draw(st.booleans()):
        waiting = [
            named_again(proposal, TableHead.from_row(row)) if proposal.version else proposal for proposal in waiting
        ]
    write = share(row, waiting, NOW)
    fresh = [proposal for proposal in waiting if ratified(row, proposal) is not None]
    if write is None:
        assert not fresh
        return
    members = [waiting[member] for member in write.members]
    assert accepts(row, write.change)
    after = apply_actions(row, write.change.actions)
    assert after == one_by_one(row, members)
    recount(TableHead.from_row(after))
    placed = tail_by_version(TableHead.from_row(after))[-len(members) :]
    assert [place.entry.txn for place in placed] == [proposal.entry.txn for proposal in members]
    left = [proposal for index, proposal in enumerate(waiting) if index not in write.members]
    names = sum(len(proposal.apps) for proposal in members)
    for proposal in left:  # whoever was left out does not fit any more, or did not fit before the others came
        is_early = proposal.base > row["latest"] or (proposal.version or 0) > row["latest"] + 1
        assert ratified(after, proposal) is None or names + len(proposal.apps) > GROUP_APPS or is_early


@MANY
@given(rows(states=()), groups(), st.data())
def test_i23_a_shared_write_is_accepted_later_only_where_its_commits_own_writes_are(
    row: Row, waiting: list[Proposal], data: st.DataObject
) -> None:
    write = share(row, waiting, NOW)
    if write is None or len(write.members) < 2:
        return
    members = [waiting[member] for member in write.members]
    later = row
    for _ in range(data.draw(st.integers(1, 4))):
        head = TableHead.from_row(later)
        match data.draw(st.sampled_from(["floor", "commit", "member", "state", "reserve"])):
            case "floor":
                later = floored(later, data.draw(st.integers(head.floor, head.latest)), idle=data.draw(st.booleans()))
            case "commit":
                later = ratified(later, data.draw(proposals(head.latest))) or later
            case "member":
                later = ratified(later, data.draw(st.sampled_from(members))) or later
            case "state":
                later = later | {"state": data.draw(st.sampled_from(["active", "stuck"]))}
            case "reserve":
                later = later | {"reserved_by": "h", "reserved_until": 10**15}
    single = one_by_one(later, members)
    if accepts(later, write.change):
        assert apply_actions(later, write.change.actions) == single
    if single is not None and TableHead.from_row(later).latest == row["latest"]:
        assert accepts(later, write.change), "only another commit spoils a group whose commits all fit"


@given(rows(states=()), proposals())
@example(empty_row(), ticket(0))
def test_i23_a_commit_alone_is_written_by_its_own_write(row: Row, proposal: Proposal) -> None:
    write = share(row, [proposal], NOW)
    decision = decide(TableHead.from_row(row), proposal)
    assert (write is not None) == (isinstance(decision, Ratified) and not decision.replayed)
    if write is not None:
        assert write.change in forms(row, proposal) and write.members == (0,)


def test_i23_a_commit_that_names_its_version_comes_before_tickets() -> None:
    write, members = shared(empty_row(), [ticket(0, "a"), ticket(0, "b"), named(1, "c"), named(1, "d")])
    assert [proposal.entry.txn for proposal in members] == ["c", "a", "b"] and write.members == (2, 0, 1)


def test_i23_a_commit_sent_twice_is_ratified_once() -> None:
    assert shared(empty_row(), [ticket(0, "a"), ticket(0, "a"), ticket(0, "b")])[0].members == (0, 2)


def test_i2_i23_a_change_of_metadata_comes_first_and_excludes_tickets_of_older_metadata() -> None:
    change = named(1, "m", metadata="m1", changed="metadata")
    write, _ = shared(empty_row(), [ticket(0, "a"), change, ticket(1, "b")])
    assert write.members == (1, 2)
    after = TableHead.from_row(apply_actions(empty_row(), write.change.actions))
    assert (after.metadata, after.epoch, after.latest) == ("m1", 1, 2)


def test_i2_i23_a_group_may_end_row_tracking() -> None:
    row = empty_row(row_hwm=5)
    write, _ = shared(row, [named(1, "m", hwm=ROWS_OFF), ticket(0, "a")])
    after = apply_actions(row, write.change.actions)
    assert write.members == (0, 1) and "row_hwm" not in after
    recount(TableHead.from_row(after))


def test_i3_i23_tickets_of_one_streaming_application_do_not_share_a_write() -> None:
    apps = APPS[:1]
    assert shared(empty_row(), [ticket(0, "a", apps=apps), ticket(0, "b", apps=apps), ticket(0, "c")])[0].members == (
        0,
        2,
    )


def test_i11_i23_a_group_has_room_for_all_of_its_commits_or_leaves_some_out() -> None:
    row = empty_row()
    data = b"d" * 4_000
    waiting = [ticket(0, f"t{number}", data=data) for number in range(30)]
    write, members = shared(row, waiting)
    assert 1 < len(members) < 30
    after = apply_actions(row, write.change.actions)
    assert after["bytes"] <= members[0].room
    assert not accepts(row | {"bytes": members[0].room - after["bytes"] + 1}, write.change)
    assert accepts(row | {"bytes": members[0].room - after["bytes"]}, write.change)


def test_i11_i23_a_commit_that_may_fill_the_row_less_than_others_is_heard() -> None:
    small = msgspec.structs.replace(ticket(0, "small"), room=400)
    free_at = small.room - cost(small.entry)
    write, _ = shared(empty_row(), [small, ticket(0, "a"), ticket(0, "b")])
    assert accepts(empty_row() | {"bytes": free_at}, write.change)
    assert not accepts(empty_row() | {"bytes": free_at + 1}, write.change)


def test_i7_i23_timestamps_follow_each_other_whatever_the_clocks_of_the_writers_say() -> None:
    row = must(empty_row(), named(1, "first", START_ICT + 100))
    icts = [START_ICT + 5, START_ICT + 200, START_ICT + 150, START_ICT + 200]
    write, _ = shared(row, [ticket(0, f"t{number}", ict) for number, ict in enumerate(icts)])
    after = TableHead.from_row(apply_actions(row, write.change.actions))
    assert [place.ict - START_ICT for place in tail_by_version(after)] == [100, 101, 200, 201, 202]
    assert after.last_ict == START_ICT + 202


def test_i2_i23_row_ids_of_tickets_follow_those_of_the_commits_before_them() -> None:
    row = empty_row(row_hwm=9)
    write, _ = shared(
        row, [ticket(0, "a", rows=5), ticket(0, "b", rows=0), named(1, "c", hwm=19), ticket(0, "d", rows=2)]
    )
    after = TableHead.from_row(apply_actions(row, write.change.actions))
    assert [place.first_row for place in tail_by_version(after)] == [None, 20, 25, 25] and after.row_hwm == 26


def test_i23_the_largest_group_fits_into_a_condition_of_dynamodb() -> None:
    waiting = [
        ticket(0, f"{number}" + "x" * 30, apps=(f"{number:016d}",) if number < GROUP_APPS + 1 else ())
        for number in range(60)
    ]
    row = empty_row()
    write, members = shared(row, waiting)
    assert len(members) == GROUP_COMMITS and sum(len(member.apps) for member in members) == GROUP_APPS
    request = write_request("refs", write.change)
    for name in ("ConditionExpression", "UpdateExpression"):
        assert len(request[name].encode()) <= 4_096, name
    words = request["ConditionExpression"].replace("(", " ( ").split()
    operators = sum(
        word in ("AND", "OR", "NOT", "=", "<", "<=", ">=", "contains", "attribute_exists", "attribute_not_exists")
        for word in words
    )
    assert operators <= 300
