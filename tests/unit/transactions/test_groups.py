"""Groups of commits: all or none, also with lost answers (I3, I8)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from tests.support.delta_table import Table, inline_request, table_id
from tests.support.fakes import delta
from tests.support.fakes.world import FakeWorld
from tests.support.groups import appends, group, groups, latest, ratified, refused
from turnstile.delta.core.decide import Conflict, Ratified, Refused
from turnstile.delta.core.undecided import OPEN_MS
from turnstile.delta.core.writes.ratify import Keep
from turnstile.delta.core.writes.state import drop_head
from turnstile.delta.proposals import CommitRequest, ReadVersion
from turnstile.delta.publish import Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.delta.transactions.groups import GroupRatifier, GroupRefused
from turnstile.delta.undecided import settle_one
from turnstile.store.core.errors import (
    InvalidCommit,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    StorageFault,
    Throttled,
    UnreadableRow,
)
from turnstile.store.core.evaluate import clone
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import staged_path
from turnstile.store.core.writes import Change, Insert, Write
from turnstile.store.ports import Accepted, AllAccepted, SomeRejected, World

# -- all or none ------------------------------------------------------------------------------------------------------


def test_i8_all_members_are_ratified_in_one_write(world: FakeWorld, tables: list[Table]) -> None:
    world.refs.requests.clear()
    request = appends(tables)
    answer = ratified(groups(world).commit(request))
    assert not answer.replayed and [member.version for member in answer.members] == [1, 1, 1]
    assert world.refs.requests == ["read_many", "transact"]
    assert latest(tables) == [1, 1, 1]
    assert {table.head.tail[0].group for table in tables} == {request.id}


@pytest.mark.parametrize("version", [1, None])
def test_i8_each_part_is_exactly_the_single_tables_write(
    world: FakeWorld, tables: list[Table], version: int | None
) -> None:
    service, refs = faulty(world)
    service.commit(group(inline_request(tables[0], version, "t", base=0), inline_request(tables[1], 1, "u")))
    single = tables[2].world.refs
    alone: list[Write] = []
    with patch.object(single, "write", lambda write: alone.append(write) or Accepted(None)), pytest.raises(NotFound):
        Ratifier(world).commit(inline_request(tables[2], version, "t", base=0))
    part = refs.sent[0][0]
    whole = alone[0]
    assert isinstance(part, Change) and isinstance(whole, Change)
    assert [(clause.name, clause.invariant) for clause in part.clauses] == [
        (clause.name, clause.invariant) for clause in whole.clauses
    ]
    assert [(type(action), action.path) for action in part.actions] == [
        (type(action), action.path) for action in whole.actions
    ]


def test_i8_one_member_that_lost_keeps_all_from_being_applied_and_is_named(
    world: FakeWorld, tables: list[Table]
) -> None:
    request = appends(tables)
    tables[1].inline()
    before = dict(world.refs.rows)
    answer = groups(world).commit(request)
    assert refused(answer) == [("commit", 1, "version")]
    assert isinstance(answer, GroupRefused)
    (member,) = answer.members
    assert isinstance(member.decision, Conflict) and [place.version for place in member.decision.winners] == [1]
    assert world.refs.rows == before


def test_i8_every_member_that_lost_is_named(world: FakeWorld, tables: list[Table]) -> None:
    request = appends(tables)
    service = groups(world)
    service.commit(appends(tables, "seen"))
    before = dict(world.refs.rows)
    assert refused(service.commit(request)) == [("commit", index, "version") for index in range(3)]
    assert world.refs.rows == before


@pytest.mark.parametrize("warm", [False, True])
def test_i8_a_table_that_was_read_must_not_have_changed(world: FakeWorld, tables: list[Table], warm: bool) -> None:
    service = groups(world)
    if warm:
        service.commit(appends(tables[:2], "before"))
    written = tables[:2]
    read = tables[2]
    stale = ReadVersion(read.id, read.head.latest)
    request = appends(written, "first", reads=[stale])
    read.inline()
    before = dict(world.refs.rows)
    answer = service.commit(request)
    assert refused(answer) == [("read", 0, "read")]
    assert world.refs.rows == before
    ratified(service.commit(appends(written, "second", reads=[ReadVersion(read.id, read.head.latest)])))
    assert world.refs.rows[read.key] == before[read.key], "a read changes nothing"


@pytest.mark.parametrize("behind", [0, 1, 2, 3])
def test_i8_a_table_that_was_read_may_be_behind_by_its_slack(
    world: FakeWorld, tables: list[Table], behind: int
) -> None:
    written = tables[:2]
    read = tables[2]
    request = appends(written, reads=[ReadVersion(read.id, 0, slack=2)])
    for _ in range(behind):
        read.inline()
    before = world.refs.rows[read.key]
    answer = groups(world).commit(request)
    if behind > 2:
        assert refused(answer) == [("read", 0, "read")]
        assert isinstance(answer, GroupRefused) and isinstance(decision := answer.members[0].decision, Conflict)
        assert [place.version for place in decision.winners] == [3, 2, 1]
    else:
        assert not ratified(answer).replayed and latest(written) == [1, 1]
    assert world.refs.rows[read.key] == before


def test_i8_slack_is_no_excuse_for_a_version_that_is_not_there(world: FakeWorld, tables: list[Table]) -> None:
    answer = groups(world).commit(appends(tables[:1], reads=[ReadVersion(tables[1].id, 1, slack=5)]))
    assert refused(answer) == [("read", 0, "VersionGap")]
    assert latest(tables[:1]) == [0]


def test_i8_write_skew_is_allowed_by_slack_and_a_lost_update_is_not(world: FakeWorld, tables: list[Table]) -> None:
    left = tables[0]
    right = tables[1]
    first = appends([left], "first", reads=[ReadVersion(right.id, 0, slack=1)])
    second = appends([right], "second", reads=[ReadVersion(left.id, 0, slack=1)])
    third = appends([left], "third", reads=[ReadVersion(right.id, 0, slack=1)])
    third = msgspec.structs.replace(third, commits=(msgspec.structs.replace(third.commits[0], version=1),))
    ratified(groups(world).commit(first))
    ratified(groups(world).commit(second))
    assert refused(groups(world).commit(third)) == [("commit", 0, "version")], "what is written is always judged"


def test_i8_a_version_that_was_not_there_to_be_read_is_a_gap(world: FakeWorld, tables: list[Table]) -> None:
    answer = groups(world).commit(appends(tables[:1], reads=[ReadVersion(tables[1].id, 5)]))
    assert refused(answer) == [("read", 0, "VersionGap")]


def test_i8_write_skew_is_refused_to_the_second(world: FakeWorld, tables: list[Table]) -> None:
    left = tables[0]
    right = tables[1]
    first = appends([left], "first", reads=[ReadVersion(right.id, 0)])
    second = appends([right], "second", reads=[ReadVersion(left.id, 0)])
    ratified(groups(world).commit(first))
    assert refused(groups(world).commit(second)) == [("read", 0, "read")]
    assert latest([left, right]) == [1, 0]


def test_a_group_of_one_costs_what_a_single_commit_costs(world: FakeWorld, tables: list[Table]) -> None:
    service = groups(world)
    service.commit(appends(tables[:1], "warm"))
    world.refs.requests.clear()
    ratified(service.commit(appends(tables[:1], "t")))
    assert world.refs.requests == ["write"]


@pytest.mark.parametrize("count", [2, 10, 100])
def test_a_warm_group_is_one_request_whatever_its_size(world: FakeWorld, count: int) -> None:
    tables = [Table(world, table_id(number)) for number in range(count)]
    service = groups(world)
    service.commit(appends(tables, "warm"))
    world.refs.requests.clear()
    ratified(service.commit(appends(tables, "t")))
    assert world.refs.requests == ["transact"]


def test_i7_tickets_in_a_group_get_the_next_version_and_a_later_timestamp(
    world: FakeWorld, tables: list[Table]
) -> None:
    for table in tables:
        table.inline()
    early = tables[0].head.last_ict - 500
    request = group(
        inline_request(tables[0], None, "behind", ict=early, base=0),
        inline_request(tables[1], None, "ahead", base=1),
        inline_request(tables[2], 2, "named"),
    )
    answer = ratified(groups(world).commit(request))
    assert [member.version for member in answer.members] == [2, 2, 2]
    assert [member.place is not None and not member.replayed for member in answer.members] == [True] * 3
    assert tables[0].head.last_ict > early


def test_i2_a_change_of_metadata_may_be_a_member(world: FakeWorld, tables: list[Table]) -> None:
    stamp = world.clock.now_ms() + 1
    content = delta.lines(delta.info("m", stamp), delta.metadata(by="m"))
    request = group(CommitRequest(tables[0].id, 1, content=content), inline_request(tables[1], 1, "t"))
    answer = ratified(groups(world).commit(request))
    assert answer.members[0].metadata == tables[0].head.metadata != "metadata/m"
    assert tables[0].head.epoch == 1


def test_i8_a_member_that_lost_before_anything_was_written_is_named(world: FakeWorld, tables: list[Table]) -> None:
    """A change of metadata looks at the HEAD first."""
    stamp = world.clock.now_ms() + 1
    content = delta.lines(delta.info("m", stamp), delta.metadata(by="m"))
    tables[0].inline()
    request = group(CommitRequest(tables[0].id, 1, content=content), inline_request(tables[1], 1, "t"))
    assert refused(groups(world).commit(request)) == [("commit", 0, "version")]
    assert latest(tables[:2]) == [1, 0]


def test_i2_a_commit_too_large_to_be_read_whole_is_reported_with_the_metadata_of_its_row(
    world: FakeWorld, tables: list[Table]
) -> None:
    adds = [delta.add(f"{number}.parquet") for number in range(100)]
    content = delta.lines(delta.info("large", world.clock.now_ms() + 1), *adds)
    name = tables[0].staged_name(1, 7)
    size = len(content)
    limits = Limits(staged_bytes=2_000)
    tables[0].put(staged_path(name), content)
    service = GroupRatifier(world, Ratifier(world, limits), limits)
    request = group(CommitRequest(tables[0].id, 1, staged=name, size=size), inline_request(tables[1], 1, "t"))
    answer = ratified(service.commit(request))
    assert [member.metadata for member in answer.members] == ["metadata/m", "metadata/m"]


def test_i2_metadata_that_changed_meanwhile_is_judged_again(world: FakeWorld, tables: list[Table]) -> None:
    service = groups(world)
    service.commit(appends(tables, "warm"))
    tables[2].supports()
    answer = ratified(service.commit(appends(tables, "t")))
    assert answer.members[2].metadata == tables[2].head.metadata


def test_i2_a_member_that_breaks_the_protocol_is_named_and_nothing_is_written(
    world: FakeWorld, tables: list[Table]
) -> None:
    request = appends(tables)
    broken = msgspec.structs.replace(request.commits[1], content=b'{"add": 3}\n')
    before = dict(world.refs.rows)
    with pytest.raises(InvalidCommit) as error:
        groups(world).commit(msgspec.structs.replace(request, commits=(request.commits[0], broken, request.commits[2])))
    assert (error.value.field or "").startswith("commits[1]")
    assert world.refs.rows == before


def test_i10_a_dropped_member_is_named(world: FakeWorld, tables: list[Table]) -> None:
    request = appends(tables)
    world.refs.write(drop_head(tables[2].key, world.clock.now_ms()))
    answer = groups(world).commit(request)
    assert refused(answer) == [("commit", 2, "TableNotActive")]
    assert latest(tables[:2]) == [0, 0]


def test_i4_members_are_published_with_their_bytes(world: FakeWorld, tables: list[Table]) -> None:
    request = appends(tables)
    groups(world).commit(request)
    for table, commit in zip(tables, request.commits, strict=True):
        Publisher(world).publish(table.id)
        assert table.published()[1] == commit.content


# -- bad requests -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda tables: {"commits": ()}, "commits"),
        (lambda tables: {"id": "mine"}, "id"),
        (lambda tables: {"commits": tuple(inline_request(tables[0], 1, txn) for txn in "ab")}, "commits"),
        (lambda tables: {"reads": (ReadVersion(tables[0].id, 0),)}, "commits"),
        (lambda tables: {"reads": (ReadVersion(table_id(8), -1),)}, "reads[0].version"),
        (lambda tables: {"reads": (ReadVersion(table_id(8), 0, slack=-1),)}, "reads[0].slack"),
        (lambda tables: {"reads": (ReadVersion(table_id(8), 0, slack=1_000_001),)}, "reads[0].slack"),
        (lambda tables: {"reads": tuple(ReadVersion(table_id(10 + n), 0) for n in range(998))}, "commits"),
        (lambda tables: {"commits": (inline_request(tables[0], 1, "a"), CommitRequest(tables[1].id, 1))}, None),
    ],
)
def test_a_bad_group_is_refused_with_what_is_wrong_and_changes_nothing(
    world: FakeWorld, tables: list[Table], change: Callable[[list[Table]], dict[str, Any]], field: str | None
) -> None:
    before = dict(world.refs.rows)
    world.refs.requests.clear()
    with pytest.raises(InvalidRequest) as error:
        groups(world).commit(msgspec.structs.replace(appends(tables), **change(tables)))
    assert error.value.field == (field or "commits[1].staged")
    assert error.value.remedy
    assert world.refs.rows == before and world.refs.requests == []


def test_a_table_that_does_not_exist_is_not_found(world: FakeWorld, tables: list[Table]) -> None:
    request = appends(tables)
    nowhere = msgspec.structs.replace(request.commits[0], table_id=table_id(99))
    with pytest.raises(NotFound, match="00000099"):
        groups(world).commit(msgspec.structs.replace(request, commits=(nowhere, *request.commits[1:])))
    with pytest.raises(NotFound, match="00000099"):
        groups(world).commit(appends(tables, reads=[ReadVersion(table_id(99), 0)]))
    assert latest(tables) == [0, 0, 0]


# -- replays ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("later", [0, 1, 6])
def test_i3_a_group_that_is_sent_again_is_a_replay_also_after_its_entries_left_the_tails(
    world: FakeWorld, tables: list[Table], later: int, warm: bool
) -> None:
    service = groups(world)
    request = appends(tables)
    service.commit(request)
    for table in tables[: 2 if later else 0]:  # one table stands still: its entry stays in the tail
        for _ in range(later):
            table.inline()
        Publisher(world, keep=Keep(named=0, tickets=0)).publish(table.id) if later > 1 else None
    before = dict(world.refs.rows)
    answer = ratified((service if warm else groups(world)).commit(request))
    assert answer.replayed and [member.version for member in answer.members] == [1, 1, 1]
    assert world.refs.rows == before


def test_i8_a_commit_that_was_ratified_alone_is_no_replay_of_the_group(world: FakeWorld, tables: list[Table]) -> None:
    request = appends(tables)
    assert isinstance(Ratifier(world).commit(request.commits[1]), Ratified)
    before = dict(world.refs.rows)
    assert refused(groups(world).commit(request)) == [("commit", 1, "AlreadyRatified")]
    assert world.refs.rows == before


def test_i8_commits_of_another_group_are_no_replay_of_this_one(world: FakeWorld, tables: list[Table]) -> None:
    request = appends(tables)
    groups(world).commit(request)
    again = groups(world).commit(msgspec.structs.replace(request, id=str(uuid.uuid4())))
    assert refused(again) == [("commit", index, "AlreadyRatified") for index in range(3)]


def test_i3_a_replay_is_answered_although_a_table_that_it_read_has_changed(
    world: FakeWorld, tables: list[Table]
) -> None:
    request = appends(tables[:2], reads=[ReadVersion(tables[2].id, 0)])
    groups(world).commit(request)
    tables[2].inline()
    assert ratified(groups(world).commit(request)).replayed


# -- lost answers -----------------------------------------------------------------------------------------------------


class Faulty:
    """refs whose transactions go as the test says: ``applied`` or not, and then answered, lost, or
    sent again."""

    def __init__(
        self, world: FakeWorld, *happens: Callable[[Faulty, Sequence[Write]], AllAccepted | SomeRejected]
    ) -> None:
        self._refs = world.refs
        self._happens = list(happens)
        self.sent: list[Sequence[Write]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._refs, name)

    def transact(self, writes: Sequence[Write], token: str) -> AllAccepted | SomeRejected:
        self.sent.append(writes)
        return self._happens.pop(0)(self, writes) if self._happens else self._refs.transact(writes, token)

    def apply(self, writes: Sequence[Write]) -> AllAccepted | SomeRejected:
        return self._refs.transact(writes, str(uuid.uuid4()))


def faulty(world: FakeWorld, *happens: Any) -> tuple[GroupRatifier, Faulty]:
    refs = Faulty(world, *happens)
    other = World(refs, world.objs, world.storages, world.clock, world.ids, world.space)  # type: ignore[arg-type]
    return groups(other), refs


def lost(refs: Faulty, writes: Sequence[Write]) -> AllAccepted | SomeRejected:
    refs.apply(writes)
    raise OutcomeUnknown("the answer was lost")


def sent_twice(refs: Faulty, writes: Sequence[Write]) -> AllAccepted | SomeRejected:
    """The adapter lost the answer, and sent the same again."""
    refs.apply(writes)
    answer = refs.apply(writes)
    assert isinstance(answer, SomeRejected)
    return SomeRejected(answer.failed, uncertain=True)


def test_i3_an_unknown_outcome_is_reported_as_unknown_and_the_same_again_is_a_replay(
    world: FakeWorld, tables: list[Table]
) -> None:
    service, _ = faulty(world, lost)
    request = appends(tables)
    with pytest.raises(OutcomeUnknown):
        service.commit(request)
    assert ratified(service.commit(request)).replayed


def test_i3_a_refusal_behind_a_lost_answer_is_found_to_be_a_replay(world: FakeWorld, tables: list[Table]) -> None:
    service, _ = faulty(world, sent_twice)
    answer = ratified(service.commit(appends(tables[:2], reads=[ReadVersion(tables[2].id, 0)])))
    assert answer.replayed and latest(tables) == [1, 1, 0]


def test_i3_a_replay_is_recognised_where_the_store_names_but_one_of_the_rows_that_refused(
    world: FakeWorld, tables: list[Table]
) -> None:
    def names_the_read(refs: Faulty, writes: Sequence[Write]) -> AllAccepted | SomeRejected:
        refs.apply(writes)
        tables[2].inline()
        return SomeRejected({2: world.refs.rows[tables[2].key]}, uncertain=True)

    service, _ = faulty(world, names_the_read)
    assert ratified(service.commit(appends(tables[:2], reads=[ReadVersion(tables[2].id, 0)]))).replayed


def other_form_of(table: Table) -> Callable[[Faulty, Sequence[Write]], AllAccepted | SomeRejected]:
    """A refusal without a certain answer, after which the other form of the table's ticket fits."""

    def refuse(refs: Faulty, writes: Sequence[Write]) -> AllAccepted | SomeRejected:
        table.row["last_ict"] += 10_000
        answer = refs.apply(writes)
        assert isinstance(answer, SomeRejected)
        return SomeRejected(answer.failed, uncertain=True)

    return refuse


def test_i3_a_lost_answer_is_not_forgotten_by_the_attempt_after_it(world: FakeWorld, tables: list[Table]) -> None:
    def stuck(refs: Faulty, writes: Sequence[Write]) -> AllAccepted | SomeRejected:
        tables[1].row.update(state="stuck", reason="x")
        return refs.apply(writes)

    service, _ = faulty(world, other_form_of(tables[0]), stuck)
    with pytest.raises(OutcomeUnknown):
        service.commit(group(inline_request(tables[0], None, "a", base=0), inline_request(tables[1], 1, "b")))


def test_i12_an_unknown_outcome_behind_a_damaged_row_is_without_its_key(world: FakeWorld, tables: list[Table]) -> None:
    def damaged(refs: Faulty, writes: Sequence[Write]) -> AllAccepted | SomeRejected:
        raise UnreadableRow(tables[1].key, "its bytes are no row")

    service, _ = faulty(world, other_form_of(tables[0]), damaged)
    with pytest.raises(OutcomeUnknown) as unknown:
        service.commit(group(inline_request(tables[0], None, "a", base=0), inline_request(tables[1], 1, "b")))
    assert "a row of the store cannot be read" in unknown.value.message and tables[1].key not in unknown.value.message


@pytest.mark.parametrize("happens", ["stuck", "taken", "read"])
def test_i3_a_refusal_behind_a_lost_answer_is_reported_only_where_it_stays(
    world: FakeWorld, tables: list[Table], happens: str
) -> None:
    """The first copy is held up on its way, and lands afterwards."""

    def refused_meanwhile(refs: Faulty, writes: Sequence[Write]) -> AllAccepted | SomeRejected:
        if happens == "stuck":
            tables[0].row.update(state="stuck", reason="x")
        else:
            tables[1 if happens == "taken" else 2].inline()
        answer = refs.apply(writes)
        assert isinstance(answer, SomeRejected)
        return SomeRejected(answer.failed, uncertain=True)

    service, refs = faulty(world, refused_meanwhile)
    request = appends(tables[:2], reads=[ReadVersion(tables[2].id, 0)])
    if happens == "stuck":
        with pytest.raises(OutcomeUnknown):
            service.commit(request)
        tables[0].row.update(state="active", reason="")
        assert refs.apply(refs.sent[0]) == AllAccepted(), "or the test shows nothing"
        assert ratified(service.commit(request)).replayed
    else:
        expected = ("commit", 1, "version") if happens == "taken" else ("read", 0, "read")
        assert refused(service.commit(request)) == [expected]
        assert refs.apply(refs.sent[0]) != AllAccepted()


@pytest.mark.parametrize("error", [Throttled(), StorageFault("x")])
def test_i3_a_fault_after_a_lost_answer_leaves_the_outcome_unknown(
    world: FakeWorld, tables: list[Table], error: Exception
) -> None:
    def fail(refs: Faulty, writes: Sequence[Write]) -> AllAccepted | SomeRejected:
        raise error

    def uncertain(refs: Faulty, writes: Sequence[Write]) -> AllAccepted | SomeRejected:
        tables[0].row["last_ict"] += 10_000  # the ticket's other form fits now
        answer = refs.apply(writes)
        assert isinstance(answer, SomeRejected)
        return SomeRejected(answer.failed, uncertain=True)

    request = group(inline_request(tables[0], None, "a", base=0), inline_request(tables[1], 1, "b"))
    service, _ = faulty(world, uncertain, fail)
    with pytest.raises(OutcomeUnknown):
        service.commit(request)
    service, _ = faulty(world, fail)
    with pytest.raises(type(error)):
        service.commit(appends(tables, "other"))


def test_i3_versions_that_cannot_be_read_after_the_write_leave_the_outcome_unknown(
    world: FakeWorld, tables: list[Table]
) -> None:
    service, refs = faulty(world)
    request = group(inline_request(tables[0], None, "a", base=0), inline_request(tables[1], 1, "b"))

    def fail(keys: Sequence[str]) -> Any:
        if refs.sent:
            raise Throttled
        return world.refs.read_many(keys)

    refs.read_many = fail  # type: ignore[attr-defined]
    with pytest.raises(OutcomeUnknown, match="is ratified"):
        service.commit(request)
    assert latest(tables[:2]) == [1, 1]


def test_i11_a_member_without_room_moves_its_bytes_or_is_named(world: FakeWorld, tables: list[Table]) -> None:
    tables[0].row["bytes"] = 1_000_000
    assert refused(groups(world).commit(appends(tables))) == [("commit", 0, "BacklogFull")]
    assert latest(tables) == [0, 0, 0]


def test_i8_a_group_that_never_fits_is_contended_and_nothing_is_applied(world: FakeWorld, tables: list[Table]) -> None:
    def never(refs: Faulty, writes: Sequence[Write]) -> AllAccepted | SomeRejected:
        return SomeRejected({0: world.refs.rows[writes[0].key]})

    service, _ = faulty(world, *([never] * 50))
    answer = service.commit(appends(tables))
    assert isinstance(answer, GroupRefused)
    assert {member.decision.kind for member in answer.members if isinstance(member.decision, Refused)} == {
        "ConcurrentChange"
    }
    assert latest(tables) == [0, 0, 0]


def test_i3_a_head_that_lacks_an_accepted_commit_leaves_the_outcome_unknown(
    world: FakeWorld, tables: list[Table]
) -> None:
    """A backup was put back before the versions were read."""
    service, refs = faulty(world)
    before = clone(tables[0].row)

    def put_back(keys: Sequence[str]) -> Any:
        if refs.sent:
            world.refs.rows[tables[0].key] = before | {"last_ict": before["last_ict"] + 10_000, "state": "stuck"}
        return world.refs.read_many(keys)

    refs.read_many = put_back  # type: ignore[attr-defined]
    with pytest.raises(OutcomeUnknown, match="lacks a commit"):
        service.commit(group(inline_request(tables[0], None, "a", base=0), inline_request(tables[1], 1, "b")))


@pytest.mark.parametrize("slack", [0, 1])
def test_i3_a_read_that_is_refused_for_now_behind_a_lost_answer_leaves_the_outcome_unknown(
    world: FakeWorld, tables: list[Table], slack: int
) -> None:
    """The first copy is held up on its way, and lands when the group that holds the table was
    aborted."""
    other = [Table(world, table_id(number)) for number in range(5, 7)]
    request = appends(tables[:2], reads=[ReadVersion(tables[2].id, 0, slack=slack)])
    for _ in range(slack):
        tables[2].inline()

    def held_meanwhile(refs: Faulty, writes: Sequence[Write]) -> AllAccepted | SomeRejected:
        begun = world.refs.write  # the coordinator stops before the decision
        stopped = patch.object(world.refs, "write", lambda write: begun(write) if isinstance(write, Insert) else 1 / 0)
        with stopped, pytest.raises(ZeroDivisionError):
            groups(world, part=2).commit(appends([*other, tables[2]], "large"))
        assert tables[2].head.undecided
        answer = refs.apply(writes)
        assert isinstance(answer, SomeRejected)
        return SomeRejected(answer.failed, uncertain=True)

    service, refs = faulty(world, held_meanwhile)
    with pytest.raises(OutcomeUnknown):
        service.commit(request)
    world.clock.now += OPEN_MS + 1
    settle_one(world, tables[2].head)
    assert refs.apply(refs.sent[0]) == AllAccepted(), "or the test shows nothing"
