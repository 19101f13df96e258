"""Groups of more tables than one write changes: all or none, with any process that stops or goes on
(I1, I2, I3, I8)."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import pytest

from tests.support.delta_table import Table, inline_request, table_id
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.groups import appends, group, latest, ratified, refused
from tests.support.groups import groups as small_and_large
from turnstile.delta.commits import read_head
from turnstile.delta.core.decide import Refused
from turnstile.delta.core.head import ACTIVE, DROPPED, EXPORTED
from turnstile.delta.core.undecided import (
    LARGE_MAX,
    OPEN_MS,
    GroupRow,
    Undecided,
    begin,
    begin_anew,
    decision_writes,
    forget_group,
    undecided_of,
    verdict,
)
from turnstile.delta.core.writes.state import drop_head
from turnstile.delta.proposals import GroupRequest, HandOver, ReadVersion
from turnstile.delta.publish import Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.delta.sweep import Sweeper
from turnstile.delta.transactions.cuts import Cuts
from turnstile.delta.transactions.groups import GroupRatifier
from turnstile.delta.undecided import seen_one, settle_one
from turnstile.store.core.errors import InvalidRequest, NotFound, OutcomeUnknown, Throttled
from turnstile.store.core.evaluate import apply_actions
from turnstile.store.core.writes import Change
from turnstile.store.ports import Rejected, SomeRejected, World


class Stopped(BaseException):
    """The coordinator dies."""


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


@pytest.fixture
def tables(world: FakeWorld) -> list[Table]:
    return [Table(world, table_id(number)) for number in range(5)]


def groups(world: World) -> GroupRatifier:
    """As a sandbox that has seen nothing yet: groups of more than two tables are large."""
    return small_and_large(world, part=2)


def undecided(tables: Sequence[Table]) -> int:
    return sum(bool(table.head.undecided) for table in tables)


def group_row(world: FakeWorld) -> GroupRow:
    (row,) = (row for key, row in world.refs.rows.items() if "/group/" in key)
    return GroupRow.from_row(row)


def stopped(world: FakeWorld, request: GroupRequest, after: int) -> bool:
    """Carries out ``request`` until ``after`` writes and transactions were applied. False: there
    were fewer."""
    count = 0

    def counted(plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal count
            if count == after:
                raise Stopped
            count += 1
            return plain(*arguments)

        return call

    refs = world.refs
    with patch.object(refs, "write", counted(refs.write)), patch.object(refs, "transact", counted(refs.transact)):
        try:
            groups(world).commit(request)
        except Stopped:
            return True
    return False


# -- all or none ------------------------------------------------------------------------------------------------------


def test_i8_all_members_are_ratified_and_nothing_is_left_behind(world: FakeWorld, tables: list[Table]) -> None:
    world.refs.requests.clear()
    request = appends(tables)
    answer = ratified(groups(world).commit(request))
    assert not answer.replayed and [member.version for member in answer.members] == [1] * 5
    assert [table.head.latest for table in tables] == [1] * 5 and undecided(tables) == 0
    assert {table.head.tail[0].group for table in tables} == {request.id}
    assert group_row(world).state == "committed" and group_row(world).table_ids() == [table.id for table in tables]
    assert Counter(world.refs.requests) == {"read_many": 1, "write": 2, "transact": 6}


def test_i2_i7_what_is_folded_is_what_the_single_tables_write_would_have_left(
    world: FakeWorld, tables: list[Table]
) -> None:
    single = [Table(world, table_id(number)) for number in range(10, 13)]
    for version in (1, None):
        for table in single:
            Ratifier(world).commit(inline_request(table, version, f"{version}", base=0))
        groups(world).commit(group(*(inline_request(table, version, f"{version}", base=0) for table in tables[:3])))
    varying = {"key", "table_id", "name", "location", "changed_at", "created", "tail", "tail_ict", "last_ict", "bytes"}
    alone = [{name: value for name, value in table.row.items() if name not in varying} for table in single]
    assert [{name: value for name, value in table.row.items() if name not in varying} for table in tables[:3]] == alone


def test_i8_one_that_refuses_refuses_all_and_every_one_that_does_is_named(
    world: FakeWorld, tables: list[Table]
) -> None:
    for table in (tables[1], tables[4]):
        Ratifier(world).commit(inline_request(table, 1, "other"))
    request = group(*(inline_request(table, 1, f"t-{table.id}") for table in tables))
    assert refused(groups(world).commit(request)) == [("commit", 1, "version"), ("commit", 4, "version")]
    assert latest(tables) == [0, 1, 0, 0, 1] and undecided(tables) == 0


def test_i8_one_that_refuses_its_prepare_aborts_what_was_prepared(world: FakeWorld, tables: list[Table]) -> None:
    service = groups(world)
    service.commit(appends(tables))
    Ratifier(world).commit(inline_request(tables[4], 2, "other"))  # this sandbox has not seen it
    request = group(*(inline_request(table, 2, f"u-{table.id}") for table in tables))
    assert refused(service.commit(request)) == [("commit", 4, "version")]
    assert latest(tables) == [1, 1, 1, 1, 2] and undecided(tables) == 0
    assert Counter(row["state"] for key, row in world.refs.rows.items() if "/group/" in key) == {
        "committed": 1,
        "aborted": 1,
    }


def test_i8_what_was_read_is_held_until_the_decision_and_refuses_when_it_changed(
    world: FakeWorld, tables: list[Table]
) -> None:
    reads = [ReadVersion(tables[3].id, 0), ReadVersion(tables[4].id, 0)]
    first = appends(tables[:3], reads=reads)
    assert stopped(world, first, 4)
    assert undecided(tables) == 5
    kind = Ratifier(world).commit(inline_request(tables[4], 1, "w"))
    assert isinstance(kind, Refused) and kind.kind == "ConcurrentChange"
    ratified(groups(world).commit(first))
    assert undecided(tables) == 0
    Ratifier(world).commit(inline_request(tables[4], 1, "w"))
    for index, order in ((1, reads), (0, reads[::-1])):
        assert refused(groups(world).commit(appends(tables[:3], "u", reads=order))) == [("read", index, "read")]
    assert latest(tables) == [1, 1, 1, 0, 1] and undecided(tables) == 0


@pytest.mark.parametrize("part", [2, 100], ids=["prepared", "one write"])
def test_i28_a_table_that_is_handed_over_ends_with_the_group_and_takes_no_commit_after_it(
    world: FakeWorld, tables: list[Table], part: int
) -> None:
    ending = tables[3]
    assert ratified(groups(world).commit(appends([ending])))
    stale = appends(tables[:3], reads=[HandOver(ending.id, 0)])
    assert [place for place, *_ in refused(small_and_large(world, part=part).commit(stale))] == ["read"]
    assert (latest(tables[:3]), ending.head.state, undecided(tables)) == ([0, 0, 0], ACTIVE, 0)
    assert ratified(small_and_large(world, part=part).commit(appends(tables[:3], reads=[HandOver(ending.id, 1)])))
    head = ending.head
    assert (head.state, head.reason, head.managed, head.undecided) == (DROPPED, EXPORTED, False, b"")
    assert (latest(tables[:3]), head.latest) == ([1, 1, 1], 1)
    late = appends([tables[4]], reads=[HandOver(ending.id, 1)])
    assert [place for place, *_ in refused(small_and_large(world, part=1).commit(late))] == ["read"]


def test_i28_a_table_of_a_group_that_is_decided_and_not_folded_is_shown_as_ended() -> None:
    states = []
    for after in range(1, 12):
        world = fake_world()
        tables = [Table(world, table_id(number)) for number in range(4)]
        if not stopped(world, appends(tables[:3], reads=[HandOver(tables[3].id, 0)]), after):
            break
        shown = seen_one(world, tables[3].head)
        assert set(latest(tables[:3])) == {int(shown.state == DROPPED)}, "all or nothing"
        world.clock.now += OPEN_MS + 1
        settled = settle_one(world, tables[3].head)
        assert (settled.state, settled.undecided) == (shown.state, b"")
        states.append(shown.state)
    assert (states[0], states[-1]) == (ACTIVE, DROPPED)


def test_i8_what_was_read_with_slack_may_be_behind_when_it_is_held(world: FakeWorld, tables: list[Table]) -> None:
    request = appends(tables[:3], reads=[ReadVersion(tables[3].id, 0, slack=1), ReadVersion(tables[4].id, 0)])
    Ratifier(world).commit(inline_request(tables[3], 1, "w"))
    assert stopped(world, request, 4) and undecided(tables) == 5
    ratified(groups(world).commit(request))
    Ratifier(world).commit(inline_request(tables[3], 2, "x"))
    again = appends(tables[:3], "u", reads=[ReadVersion(tables[3].id, 0, slack=1), ReadVersion(tables[4].id, 0)])
    assert refused(groups(world).commit(again)) == [("read", 0, "read")]
    assert latest(tables) == [1, 1, 1, 2, 0] and undecided(tables) == 0


def test_i8_a_read_of_a_table_that_an_aborted_group_held_is_no_conflict(world: FakeWorld, tables: list[Table]) -> None:
    assert stopped(world, appends(tables[2:]), 3) and undecided(tables[2:]) == 3
    world.clock.now += OPEN_MS + 1
    ratified(groups(world).commit(appends(tables[:2], reads=[ReadVersion(tables[4].id, 0)])))
    assert latest(tables) == [1, 1, 0, 0, 0]


def test_i8_a_table_that_is_gone_leaves_nothing_behind(world: FakeWorld, tables: list[Table]) -> None:
    service = groups(world)
    service.commit(appends(tables, "before"))
    request = group(*(inline_request(table, 2, f"t-{table.id}") for table in tables))
    del world.refs.rows[world.space.table(tables[4].id)]
    with pytest.raises(NotFound):
        service.commit(request)
    assert latest(tables[:4]) == [1] * 4 and undecided(tables[:4]) == 0


# -- whoever stops, and whoever goes on --------------------------------------------------------------------------------


@pytest.mark.parametrize("after", range(9))
def test_i8_a_coordinator_may_stop_after_any_step_and_readers_see_all_or_nothing(
    world: FakeWorld, tables: list[Table], after: int
) -> None:
    assert stopped(world, appends(tables), after) is (after < 8)
    is_committed = after >= 5
    assert latest(tables) == [int(is_committed)] * 5
    cut = Cuts(world).of([tables[0].id, tables[4].id])
    assert [table.version for table in cut] == [int(is_committed)] * 2


@pytest.mark.parametrize("after", range(9))
def test_i3_i8_the_same_group_sent_again_goes_on_where_the_first_stopped(
    world: FakeWorld, tables: list[Table], after: int
) -> None:
    request = appends(tables)
    stopped(world, request, after)
    assert [member.version for member in ratified(groups(world).commit(request)).members] == [1] * 5
    assert ratified(groups(world).commit(request)).replayed
    assert latest(tables) == [1] * 5


@pytest.mark.parametrize("after", range(1, 9))
def test_i8_i11_others_go_on_after_the_deadline(world: FakeWorld, tables: list[Table], after: int) -> None:
    stopped(world, appends(tables), after)
    world.clock.now += OPEN_MS + 1
    done = int(after >= 5)
    for table in tables:
        Ratifier(world).commit(inline_request(table, done + 1, f"w-{table.id}"))
    assert [table.head.latest for table in tables] == [done + 1] * 5 and undecided(tables) == 0
    places = [table.head.tail[0].txn[0] for table in tables]
    assert places == ["t" if done else "w"] * 5


@pytest.mark.parametrize("after", range(1, 9))
def test_i8_i11_the_sweeper_resolves_what_no_other_process_meets(
    world: FakeWorld, tables: list[Table], after: int
) -> None:
    stopped(world, appends(tables), after)
    world.clock.now += OPEN_MS + 1
    Sweeper(world, Publisher(world)).sweep(until_ms=world.clock.now_ms() + 60_000, each_ms=60_000, workers=1)
    assert undecided(tables) == 0
    assert [table.head.floor for table in tables] == [int(after >= 5)] * 5


def test_i8_i11_an_open_group_refuses_other_writers_for_now_and_readers_not_at_all(
    world: FakeWorld, tables: list[Table]
) -> None:
    assert stopped(world, appends(tables), 4)
    for version, base in ((1, None), (None, 0)):
        answer = Ratifier(world).commit(inline_request(tables[0], version, "w", base=base))
        assert isinstance(answer, Refused) and answer.kind == "ConcurrentChange"
        assert answer.details["retry_after_ms"]
    other = group(inline_request(tables[0], 1, "w"), inline_request(tables[1], 1, "w"))
    assert refused(groups(world).commit(other)) == [
        ("commit", 0, "ConcurrentChange"),
        ("commit", 1, "ConcurrentChange"),
    ]
    reading = group(inline_request(Table(world, table_id(9)), 1, "w"), reads=[ReadVersion(tables[0].id, 0)])
    assert refused(groups(world).commit(reading)) == [("read", 0, "ConcurrentChange")]
    assert latest(tables) == [0] * 5
    assert isinstance(world.refs.write(drop_head(world.space.table(tables[0].id), 1)), Rejected)


def test_i8_a_writer_waits_for_the_decision(world: FakeWorld, tables: list[Table]) -> None:
    request = appends(tables)
    assert stopped(world, request, 4)
    paused: list[float] = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        if len(paused) == 2:
            groups(world).commit(request)

    answer = Ratifier(world, pause=pause).commit(inline_request(tables[0], None, "w", base=0))
    assert not isinstance(answer, Refused) and len(paused) == 2
    assert [table.head.latest for table in tables] == [2, 1, 1, 1, 1]


def test_i8_a_frozen_coordinator_cannot_commit_what_others_aborted(world: FakeWorld, tables: list[Table]) -> None:
    """It wakes up after its deadline, when another commit has taken a version of its group."""
    service = groups(world)
    write = world.refs.write
    request = appends(tables)

    def frozen(change: Any) -> Any:
        if "/group/" in change.key and type(change).__name__ == "Change":
            world.clock.now += OPEN_MS + 1
            with patch.object(world.refs, "write", write):
                Ratifier(world).commit(inline_request(tables[2], 1, "other"))
        return write(change)

    with patch.object(world.refs, "write", frozen):
        assert refused(service.commit(request)) == [("commit", 2, "version")]
    assert latest(tables) == [0, 0, 1, 0, 0] and undecided(tables) == 0


def test_i8_a_late_prepare_of_an_aborted_group_is_removed_by_the_next_process_that_meets_it(
    world: FakeWorld, tables: list[Table]
) -> None:
    sent: list[Any] = []
    transact = world.refs.transact
    with patch.object(world.refs, "transact", lambda writes, token: sent.append(writes) or transact(writes, token)):
        stopped_at = stopped(world, appends(tables), 4)
    assert stopped_at
    world.clock.now += OPEN_MS + 1
    Sweeper(world, Publisher(world)).sweep(until_ms=world.clock.now_ms() + 60_000, each_ms=60_000, workers=1)
    for writes in sent:
        transact(writes, str(uuid.uuid4()))
    assert undecided(tables) == 5 and latest(tables) == [0] * 5
    ratified(groups(world).commit(appends(tables, "next")))
    assert [table.head.latest for table in tables] == [1] * 5
    assert {table.head.tail[0].txn for table in tables} == {f"next-{table.id}" for table in tables}


def test_i2_i3_a_late_prepare_of_a_committed_group_is_refused(world: FakeWorld, tables: list[Table]) -> None:
    sent: list[Any] = []
    transact = world.refs.transact
    commits = [
        inline_request(table, version, "t", base=0)
        for table, version in zip(tables, (1, None, 1, None, 1), strict=True)
    ]
    with patch.object(world.refs, "transact", lambda writes, token: sent.append(writes) or transact(writes, token)):
        ratified(groups(world).commit(group(*commits)))
    before = [table.row for table in tables]
    for writes in sent:
        transact(writes, str(uuid.uuid4()))
    assert [table.row for table in tables] == before


def test_i8_a_group_begun_anew_does_not_count_the_entries_of_before(world: FakeWorld, tables: list[Table]) -> None:
    request = appends(tables)
    assert stopped(world, request, 2)
    first = undecided_of(tables[0].head)
    world.clock.now += OPEN_MS + 1
    assert not settle_one(world, tables[1].head).undecided
    assert group_row(world).state == "aborted" and undecided(tables) == 1
    assert stopped(world, request, 4)  # begun anew, and the entry of before is removed
    assert undecided(tables) == 0
    ratified(groups(world).commit(request))
    assert first is not None and group_row(world).token != first.token
    assert latest(tables) == [1] * 5


def test_i3_the_same_id_with_other_commits_is_another_group(world: FakeWorld, tables: list[Table]) -> None:
    request = appends(tables)
    assert stopped(world, request, 4)
    other = appends(tables, "u", id=request.id)
    assert {kind for _, _, kind in refused(groups(world).commit(other))} == {"ConcurrentChange"}
    ratified(groups(world).commit(request))
    assert {kind for _, _, kind in refused(groups(world).commit(other))} == {"version"}


def test_i3_a_sandbox_that_has_not_seen_the_decision_finds_it_in_the_group_s_row(
    world: FakeWorld, tables: list[Table]
) -> None:
    service = groups(world)
    request = appends(tables)
    service.commit(group(*(inline_request(table, 9, "gap") for table in tables)))  # it has seen the tables now
    ratified(groups(world).commit(request))
    world.refs.requests.clear()
    assert ratified(service.commit(request)).replayed
    assert Counter(world.refs.requests) == {"write": 1, "read_many": 1}


def test_i8_an_entry_whose_group_has_no_row_any_more_is_of_one_that_was_aborted(
    world: FakeWorld, tables: list[Table]
) -> None:
    assert stopped(world, appends(tables), 4)
    entry = undecided_of(tables[0].head)
    assert entry is not None
    del world.refs.rows[world.space.group(entry.ref)]
    assert latest(tables) == [0] * 5
    Ratifier(world).commit(inline_request(tables[0], 1, "w"))
    assert tables[0].head.tail[0].txn == "w"


def test_i8_a_group_whose_row_gc_takes_at_that_moment_is_begun_all_the_same(
    world: FakeWorld, tables: list[Table]
) -> None:
    request = appends(tables)
    write = world.refs.write
    assert stopped(world, request, 2)
    world.clock.now += OPEN_MS + 1
    settle_one(world, tables[0].head)

    def collected(change: Any) -> Any:
        if isinstance(change, Change) and "/group/" in change.key and change.key in world.refs.rows:
            row = GroupRow.from_row(world.refs.rows[change.key])
            if row.state == "aborted":
                write(forget_group(row))
        return write(change)

    with patch.object(world.refs, "write", collected):
        ratified(groups(world).commit(request))
    assert latest(tables) == [1] * 5


def test_i8_a_group_that_is_prepared_already_sends_no_empty_transaction(world: FakeWorld, tables: list[Table]) -> None:
    request = appends(tables)
    transact = world.refs.transact
    sizes = list[int]()
    assert stopped(world, request, 4)
    with patch.object(
        world.refs, "transact", lambda writes, token: sizes.append(len(writes)) or transact(writes, token)
    ):
        ratified(groups(world).commit(request))
    assert sizes == [2, 2, 1, 2, 2, 1]


def test_i8_a_row_that_is_gone_at_the_decision_is_no_commit(world: FakeWorld, tables: list[Table]) -> None:
    write = world.refs.write

    def gone(change: Any) -> Any:
        if isinstance(change, Change) and "/group/" in change.key:
            world.refs.rows.pop(change.key, None)
        return write(change)

    with patch.object(world.refs, "write", gone):
        answer = groups(world).commit(appends(tables))
    assert {kind for _, _, kind in refused(answer)} == {"ConcurrentChange"}
    assert latest(tables) == [0] * 5 and undecided(tables) == 0


def test_i8_a_store_that_names_no_row_ends_the_folding_and_not_the_request(
    world: FakeWorld, tables: list[Table]
) -> None:
    transact = world.refs.transact
    calls = 0

    def nameless(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        assert calls < 20
        return transact(*arguments) if calls <= 3 else SomeRejected({})

    with patch.object(world.refs, "transact", nameless):
        ratified(groups(world).commit(appends(tables)))
    assert latest(tables) == [1] * 5 and undecided(tables) == 5


def test_i8_a_deadline_is_over_after_it_and_every_beginning_has_its_own() -> None:
    row = GroupRow.from_row(begin("k", "t1", b"", 1_000).row)
    entry = Undecided("g", "g.0", "t1", 1)
    assert row.deadline == 1_000 + OPEN_MS
    assert [verdict(entry, row, now) for now in (row.deadline, row.deadline + 1)] == ["open", "late"]
    aborted = apply_actions(row.to_row(), decision_writes("k", "t1", "aborted", 2_000).actions)
    assert (aborted["state"], aborted["changed_at"]) == ("aborted", 2_000)
    anew = GroupRow.from_row(apply_actions(aborted, begin_anew(GroupRow.from_row(aborted), "t2", 3_000).actions))
    assert anew == GroupRow("k", "open", "t2", b"", 1_000, 3_000 + OPEN_MS, 3_000)
    assert [verdict(entry, row, 0) for row in (None, anew)] == ["aborted", "aborted"]


# -- lost answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", range(8))
@pytest.mark.parametrize("is_applied", [True, False])
def test_i3_i8_an_answer_that_is_lost_anywhere_is_unknown_or_true(
    world: FakeWorld, tables: list[Table], at: int, *, is_applied: bool
) -> None:
    request = appends(tables)
    count = 0

    def flaky(plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal count
            count += 1
            if count == at + 1:
                if is_applied:
                    plain(*arguments)
                raise OutcomeUnknown("the answer is lost")
            return plain(*arguments)

        return call

    refs = world.refs
    with patch.object(refs, "write", flaky(refs.write)), patch.object(refs, "transact", flaky(refs.transact)):
        if at < 5:
            with pytest.raises(OutcomeUnknown):
                groups(world).commit(request)
        else:
            ratified(groups(world).commit(request))
    ratified(groups(world).commit(request))
    assert latest(tables) == [1] * 5


def test_i8_throttled_while_it_prepares_is_aborted_and_nothing_was_applied(
    world: FakeWorld, tables: list[Table]
) -> None:
    request = appends(tables)
    transact = world.refs.transact
    count = 0

    def throttled(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == 2:
            raise Throttled("slow down")
        return transact(*arguments)

    with patch.object(world.refs, "transact", throttled), pytest.raises(Throttled):
        groups(world).commit(request)
    assert group_row(world).state == "aborted" and undecided(tables) == 0
    ratified(groups(world).commit(request))


# -- cuts and cost ----------------------------------------------------------------------------------------------------


def test_i8_a_cut_does_not_show_what_was_committed_after_its_moment(world: FakeWorld, tables: list[Table]) -> None:
    """Between the rows and the look at the group another table changes, then the group is
    committed."""
    request = appends(tables[:3])
    beside = tables[4]
    assert stopped(world, request, 3)
    cut = world.refs.read_cut
    moments = 0

    def after_it(keys: Any) -> Any:
        nonlocal moments
        rows = cut(keys)
        moments = moments + 1
        if moments == 1:
            Ratifier(world).commit(inline_request(beside, 1, "w"))
            groups(world).commit(request)
        return rows

    with patch.object(world.refs, "read_cut", after_it):
        shown = Cuts(world).of([tables[0].id, beside.id])
    assert [table.version for table in shown] == [1, 1] and moments == 2


def test_i8_tables_without_entries_cost_no_request_more(world: FakeWorld, tables: list[Table]) -> None:
    world.refs.requests.clear()
    read_head(world, tables[0].id)
    Cuts(world).take([table.id for table in tables])
    service = Ratifier(world)
    service.commit(inline_request(tables[0], 1, "t"))
    service.commit(inline_request(tables[0], 2, "u"))
    assert Counter(world.refs.requests) == {"read": 2, "read_cut": 1, "write": 2}


def test_i8_a_thousand_tables_are_ratified_in_few_requests(world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    tables = [Table(world, table_id(number)) for number in range(LARGE_MAX)]
    world.refs.requests.clear()
    answer = ratified(GroupRatifier(world, Ratifier(world)).commit(appends(tables)))
    assert len(answer.members) == LARGE_MAX and undecided(tables) == 0
    assert Counter(world.refs.requests) == {"read_many": 10, "write": 2, "transact": 20}
    with pytest.raises(InvalidRequest):
        groups(world).commit(appends([*tables, Table(world, table_id(LARGE_MAX))]))


def test_i8_a_store_with_room_takes_a_thousand_tables_in_one_write(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(world.refs, "transact_max", LARGE_MAX)
    tables = [Table(world, table_id(number)) for number in range(LARGE_MAX)]
    world.refs.requests.clear()
    answer = ratified(GroupRatifier(world, Ratifier(world)).commit(appends(tables)))
    assert len(answer.members) == LARGE_MAX and undecided(tables) == 0
    assert Counter(world.refs.requests) == {"read_many": 10, "transact": 1}


def test_i8_a_group_that_fits_one_write_has_no_row_of_its_own(world: FakeWorld, tables: list[Table]) -> None:
    ratified(GroupRatifier(world, Ratifier(world), part=5).commit(appends(tables)))
    assert not [key for key in world.refs.rows if "/group/" in key]
