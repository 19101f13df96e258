"""Reads of a group are compared with the commits since: reads that still hold, and reads that do
not (I20)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.delta_table import Table, inline_request
from tests.support.fakes import delta
from tests.support.fakes.world import FakeWorld
from tests.support.groups import appends, groups, latest, ratified, refused
from turnstile.delta.core.decide import Ratified
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.proposals import CommitRequest, ReadVersion
from turnstile.delta.publish import Publisher
from turnstile.delta.transactions.groups import GroupRatifier, GroupRefused
from turnstile.planning import reads
from turnstile.planning.core.plans import Plan, PlannedFile, PlanStatistics
from turnstile.planning.reads import CommitJudge, check_predicates
from turnstile.store.core.errors import InvalidRequest, OutcomeUnknown, UnsupportedTable
from turnstile.store.core.names import published_path
from turnstile.store.ports import AllAccepted, SomeRejected
from turnstile_predicates.predicates import Comparison, Value


def stats(low: int, high: int) -> str:
    return json.dumps({"numRecords": 2, "minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}})


def judging(world: FakeWorld, **more: Any) -> GroupRatifier:
    return groups(world, judge=CommitJudge(world, MetadataStore(world.objs, world.space)), **more)


def change(table: Table, *actions: dict[str, Any]) -> None:
    """Commits these actions as the next version."""
    version = table.head.latest + 1
    now = table.world.clock.now_ms()
    content = delta.lines(delta.info(f"w-{table.id}-{version}", max(now, table.head.last_ict + 1)), *actions)
    answer = table.ratifier.commit(CommitRequest(table.id, version, content=content))
    assert isinstance(answer, Ratified), answer
    table._ratified(answer, content, "")


def ids(low: int, high: int, **more: Any) -> dict[str, Any]:
    return delta.add(f"{low}-{high}", stats=stats(low, high), **more)


def removal(path: str, **more: Any) -> dict[str, Any]:
    action = delta.remove(path)
    return {"remove": {**action["remove"], **more}}


def request(tables: Sequence[Table], predicate: str = "id = 5", version: int = 0, **more: Any) -> Any:
    return appends(tables[:2], reads=[ReadVersion(tables[2].id, version, predicate=predicate, **more)])


@pytest.mark.parametrize("part", [100, 1])
def test_i20_commits_that_changed_no_such_row_do_not_matter(world: FakeWorld, tables: list[Table], part: int) -> None:
    change(tables[2], ids(6, 9))
    change(tables[2], removal("old", stats=stats(0, 4)))
    change(tables[2], removal("moved", dataChange=False), ids(0, 9, dataChange=False))
    row = dict(world.refs.rows[tables[2].key])
    assert not ratified(judging(world, part=part).commit(request(tables))).replayed
    assert latest(tables) == [1, 1, 3] and world.refs.rows[tables[2].key] == row


@pytest.mark.parametrize("part", [100, 1])
@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ([ids(0, 5)], "added"),
        ([removal("old", stats=stats(5, 5))], "removed"),
        ([removal("old")], "removed"),
        ([delta.metadata(by="x")], "definition"),
        ([delta.protocol()], "protocol"),
    ],
)
def test_i20_a_commit_that_may_have_changed_such_a_row_refuses_the_group_and_is_named(
    world: FakeWorld, tables: list[Table], actions: list[dict[str, Any]], reason: str, part: int
) -> None:
    change(tables[2], ids(6, 9))
    change(tables[2], *actions)
    change(tables[2], ids(6, 9))
    answer = judging(world, part=part).commit(request(tables))
    assert refused(answer) == [("read", 0, "read")] and latest(tables) == [0, 0, 3]
    assert isinstance(answer, GroupRefused)
    (member,) = answer.members
    assert member.change is not None and member.change.version == 2 and reason in member.change.reason
    winners = getattr(member.decision, "winners", ())
    assert [place.version for place in winners] == [3, 2, 1], "all that came since it was read"


def test_i20_what_was_judged_is_what_is_checked(world: FakeWorld, tables: list[Table]) -> None:
    """A commit that comes after the judgement is judged in its turn."""
    change(tables[2], ids(6, 9))
    sent = list[list[Any]]()
    transact = world.refs.transact

    def moving(writes: Any, token: str) -> Any:
        sent.append([clause.test.value for clause in writes[2].clauses if clause.name == "unchanged"])
        if len(sent) == 2:
            change(tables[2], ids(6, 9))
        if len(sent) == 3:
            change(tables[2], ids(5, 5))
        return transact(writes, token)

    world.refs.transact = moving  # type: ignore[method-assign]
    answer = judging(world).commit(request(tables))
    assert refused(answer) == [("read", 0, "read")]
    assert sent == [[0], [1], [2]]


def test_i20_published_and_unpublished_commits_are_judged_alike(world: FakeWorld, tables: list[Table]) -> None:
    change(tables[2], ids(6, 9))
    change(tables[2], ids(6, 9))
    Publisher(world).publish(tables[2].id)
    change(tables[2], ids(6, 9))
    ratified(judging(world).commit(request(tables)))
    change(tables[2], ids(6, 9))
    Publisher(world).publish(tables[2].id)
    fresh = appends(tables[:2], "u", reads=request(tables, "id = 7", version=3).reads)
    assert refused(judging(world).commit(fresh)) == [("read", 0, "read")]


def test_i20_a_read_may_be_behind_by_its_slack_and_is_judged_up_to_there(world: FakeWorld, tables: list[Table]) -> None:
    change(tables[2], ids(6, 9))
    change(tables[2], ids(5, 5))
    assert refused(judging(world).commit(request(tables, slack=0))) == [("read", 0, "read")]
    ratified(judging(world).commit(request(tables, slack=1)))


def test_i20_a_ratifier_without_a_judge_and_a_read_without_a_predicate_want_the_version_that_was_read(
    world: FakeWorld, tables: list[Table]
) -> None:
    change(tables[2], ids(6, 9))
    assert refused(groups(world).commit(request(tables))) == [("read", 0, "read")]
    assert refused(judging(world).commit(request(tables, predicate=""))) == [("read", 0, "read")]
    future = judging(world).commit(request(tables, version=2))
    assert refused(future) == [("read", 0, "VersionGap")]


def test_i3_a_refusal_by_what_was_read_is_final_also_after_a_lost_answer(world: FakeWorld, tables: list[Table]) -> None:
    change(tables[2], ids(6, 9))
    transact = world.refs.transact
    attempts = 0

    def losing(writes: Any, token: str) -> Any:
        nonlocal attempts
        attempts += 1
        answer = transact(writes, token)
        if attempts == 1:
            assert isinstance(answer, SomeRejected)
            change(tables[2], ids(5, 5))
            return SomeRejected({2: dict(world.refs.rows[tables[2].key])}, uncertain=True)
        return answer

    world.refs.transact = losing  # type: ignore[method-assign]
    assert refused(judging(world).commit(request(tables))) == [("read", 0, "read")]


def test_i3_a_commit_that_cannot_be_read_after_a_lost_answer_leaves_the_outcome_unknown(
    world: FakeWorld, tables: list[Table]
) -> None:
    change(tables[2], ids(6, 9))
    Publisher(world).publish(tables[2].id)
    transact = world.refs.transact
    attempts = 0

    def losing(writes: Any, token: str) -> Any:
        nonlocal attempts
        attempts += 1
        answer = transact(writes, token)
        assert not isinstance(answer, AllAccepted)
        if attempts == 1:
            change(tables[2], ids(6, 9))
            Publisher(world).publish(tables[2].id)
            return SomeRejected(answer.failed, uncertain=True)
        del world.storages.files[f"{tables[2].location}/{published_path(2)}"]
        return answer

    world.refs.transact = losing  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown):
        judging(world).commit(request(tables))


def test_a_predicate_that_is_none_of_the_tables_is_refused_by_its_place(world: FakeWorld, tables: list[Table]) -> None:
    change(tables[2], ids(6, 9))
    with pytest.raises(InvalidRequest) as error:
        judging(world).commit(request(tables, "nothing = 5"))
    assert error.value.field == "reads[0].predicate" and latest(tables) == [0, 0, 1]
    for text in ("id =", "upper(id) = 'A'", "id = other"):
        with pytest.raises(InvalidRequest) as error:
            check_predicates({"reads[3].predicate": text})
        assert error.value.field == "reads[3].predicate"
    check_predicates({"x": "anything = 5"})


def test_i20_a_read_of_long_ago_counts_as_changed(
    world: FakeWorld, tables: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        change(tables[2], ids(6, 9))
    monkeypatch.setattr(reads, "MAX_VERSIONS", 3)
    ratified(judging(world).commit(request(tables)))
    monkeypatch.setattr(reads, "MAX_VERSIONS", 2)
    fresh = appends(tables[:2], "u", reads=request(tables).reads)
    assert refused(judging(world).commit(fresh)) == [("read", 0, "read")]


def test_i20_more_files_than_are_held_count_as_a_change(
    world: FakeWorld, tables: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    change(tables[2], ids(6, 6), ids(7, 7))
    monkeypatch.setattr(reads, "MAX_ADDED", 2)
    ratified(judging(world).commit(request(tables)))
    monkeypatch.setattr(reads, "MAX_ADDED", 1)
    fresh = appends(tables[:2], "u", reads=request(tables).reads)
    assert refused(judging(world).commit(fresh)) == [("read", 0, "read")]


def test_i20_a_file_that_came_and_went_is_judged_by_what_it_had(world: FakeWorld, tables: list[Table]) -> None:
    change(tables[2], ids(6, 9))
    change(tables[2], removal("6-9"))
    ratified(judging(world).commit(request(tables)))
    judge = CommitJudge(world, MetadataStore(world.objs, world.space))
    assert judge("id = 5", 0).change(tables[2].head, 2) is None
    found = judge("id = 5", 1).change(tables[2].head, 2)
    assert found is not None and found.path == "6-9", "nothing is known of a file that was there before"
    assert judge("id = 5", 1, lambda _, file: file["path"] != "6-9").change(tables[2].head, 2) is None
    whole = judge("", 0).change(tables[2].head, 2)
    assert whole is not None and whole.version == 1


def test_i20_a_commit_that_is_missing_is_named(world: FakeWorld, tables: list[Table]) -> None:
    change(tables[2], ids(6, 9))
    Publisher(world).publish(tables[2].id)
    change(tables[2], ids(6, 9))
    del world.storages.files[f"{tables[2].location}/{published_path(1)}"]
    with pytest.raises(UnsupportedTable, match="version 1 is missing") as error:
        judging(world).commit(request(tables))
    assert error.value.field == "reads[0].predicate"
    assert latest(tables)[:2] == [0, 0]
    ratified(judging(world).commit(request(tables, version=2)))


def test_i20_a_single_commit_may_have_judged_reads(world: FakeWorld, tables: list[Table]) -> None:
    change(tables[2], ids(6, 9))
    ticket = inline_request(tables[0], None, "ticket", base=0)
    one = appends([], reads=[ReadVersion(tables[2].id, 0, predicate="id = 5")])
    answer = judging(world).commit(type(one)(one.id, (ticket,), one.reads))
    assert [member.version for member in ratified(answer).members] == [1]


def test_i8_a_read_without_a_predicate_is_of_a_version_also_where_rows_only_moved(
    world: FakeWorld, tables: list[Table]
) -> None:
    change(tables[2], removal("moved", dataChange=False), ids(0, 9, dataChange=False))
    assert refused(judging(world).commit(request(tables, predicate=""))) == [("read", 0, "read")]
    ratified(judging(world).commit(request(tables)))


def test_i20_a_column_that_is_gone_was_changed_and_is_no_error(world: FakeWorld, tables: list[Table]) -> None:
    action = delta.metadata()["metaData"]
    other = {"name": "other", "type": "long", "nullable": True, "metadata": {}}
    change(tables[2], {"metaData": {**action, "schemaString": json.dumps({"type": "struct", "fields": [other]})}})
    assert refused(judging(world).commit(request(tables))) == [("read", 0, "read")]


def test_i20_what_is_added_counts_whatever_an_index_says_of_files_that_were_there(
    world: FakeWorld, tables: list[Table]
) -> None:
    change(tables[2], ids(5, 5))
    change(tables[2], removal("other"))
    judge = CommitJudge(world, MetadataStore(world.objs, world.space))
    added = judge("id = 5", 0, lambda *_: False).change(tables[2].head, 2)
    assert added is not None and added.version == 1
    assert judge("id = 5", 1, lambda *_: False).change(tables[2].head, 2) is None


def test_i20_commits_are_counted_from_the_version_that_was_read(
    world: FakeWorld, tables: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        change(tables[2], ids(6, 9))
    monkeypatch.setattr(reads, "MAX_VERSIONS", 2)
    judge = CommitJudge(world, MetadataStore(world.objs, world.space))
    assert judge("id = 5", 2).change(tables[2].head, 4) is None
    late = judge("id = 5", 1).change(tables[2].head, 4)
    assert late is not None and late.version == 4


def test_no_more_files_than_that_are_looked_up_in_an_index(
    world: FakeWorld, tables: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    class Planner:
        def first_files(self, table: Any, predicate: Any, version: int) -> Any:
            asked.append((str(predicate), version))
            return Plan(
                version, [PlannedFile("f", 1, {}, 1)] if len(asked) % 2 else [], PlanStatistics(0, 0), None, {}, {}
            )

    monkeypatch.setattr(reads, "MAX_LOOKED_UP", 2)
    files = reads.IndexedFiles(Planner(), tables[2].head, 7)
    predicate = Comparison(("id",), "=", Value("integer", 5))
    file = {"path": "f"}
    assert files.was_read(None, file) and not asked
    assert [files.was_read(predicate, file) for _ in range(3)] == [False, False, True]
    assert len(asked) == 4 and {version for _, version in asked} == {7}


def test_each_commit_is_read_once_however_often_a_group_is_sent_again(
    world: FakeWorld, tables: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        change(tables[2], ids(6, 9))
    opened = list[tuple[int, int]]()
    commits_of = reads.commits_of

    def counted(world: Any, head: Any, first: int, last: int) -> Any:
        opened.append((first, last))
        return commits_of(world, head, first, last)

    monkeypatch.setattr(reads, "commits_of", counted)
    transact = world.refs.transact
    left = [2]

    def moving(writes: Any, token: str) -> Any:
        if opened and left[0]:
            left[0] -= 1
            change(tables[2], ids(6, 9))
        return transact(writes, token)

    world.refs.transact = moving  # type: ignore[method-assign]
    ratified(judging(world).commit(request(tables)))
    assert opened == [(1, 3), (4, 4), (5, 5)]
