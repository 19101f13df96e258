"""A transaction that lost comes to what it would have come to at the new cut, and runs nothing
again without need (I8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.unit.spark_client.replayed_statements import NAMES, SCHEMA, Operation, Outcome, between, operations, replayed
from turnstile_spark.transactions.conflicts.conflict_check import Read, Winner
from turnstile_spark.transactions.recovery.replay_choice import (
    MovedTable,
    Replay,
    Statement,
    at_cut,
    has_row_ids,
    is_append_only,
    refusal,
)

_histories = st.tuples(
    st.lists(operations(("append", "append", "append", "copy", "define")), max_size=5),
    st.lists(operations(), min_size=1, max_size=5),
    st.lists(operations((*NAMES, "compact")), max_size=3),
    st.booleans(),
)
History = tuple[Sequence[Operation], Sequence[Operation], Sequence[Operation], bool]


def _outcome(history: History, kind: type[Replay] = Replay) -> Outcome:
    before, own, winners, tracks_rows = history
    return replayed(before, own, winners, tracks_rows=tracks_rows, kind=kind)


def _is_wrong(history: History, kind: type[Replay] = Replay) -> bool:
    try:
        outcome = _outcome(history, kind)
    except (AssertionError, KeyError, ValueError):
        return True
    if outcome.rows != outcome.expected:
        return True
    return history[3] and any(
        len(set(ids)) != len(ids) or max(ids, default=-1) > outcome.marks[name] for name, ids in outcome.ids.items()
    )


@settings(max_examples=examples(250))
@given(_histories)
def test_i8_a_replay_comes_to_what_all_statements_come_to_at_the_new_cut(history: History) -> None:
    assert not _is_wrong(history)


@settings(max_examples=examples(60))
@given(_histories)
def test_without_winners_every_statement_is_kept_as_it_is(history: History) -> None:
    before, own, _, tracks_rows = history
    outcome = replayed(before, own, [], tracks_rows=tracks_rows)
    assert all(outcome.kept)
    assert all(outcome.is_same)


class _ForgetsReads(Replay):
    def _reason_of_read(self, table_id: str, read: Read) -> str:
        return ""


class _ForgetsOrder(Replay):
    def _reason_of_order(self, table_id: str, actions: Sequence[Any]) -> str:
        return ""


class _ForgetsOwnWrites(Replay):
    def ran_again(self, statement: Statement, commits: Mapping[str, Any]) -> None:
        super().ran_again(statement, commits)
        self._other.clear()


class _ForgetsWhatIsWrittenAnew(Replay):
    """A table that a statement writes only when it runs again."""

    def ran_again(self, statement: Statement, commits: Mapping[str, Any]) -> None:
        others = set(self._other)
        super().ran_again(statement, commits)
        self._other = others | set(statement.commits)


class _ForgetsWhatIsNotWrittenAnyMore(Replay):
    def ran_again(self, statement: Statement, commits: Mapping[str, Any]) -> None:
        others = set(self._other)
        super().ran_again(statement, commits)
        self._other = others | set(commits)


class _ForgetsDefinitions(Replay):
    def _note(self, commits: Mapping[str, Any]) -> None:
        super()._note(commits)
        self._redefined.clear()


class _ForgetsEarlierWrites(Replay):
    """That rows with ids may have been rewritten."""

    def _note(self, commits: Mapping[str, Any]) -> None:
        super()._note(commits)
        self._written.clear()


class _ForgetsWinners(Replay):
    """Changes of the same files."""

    def reason(self, statement: Statement) -> str:
        return super().reason(Statement(statement.name, statement.reads, {}, statement.obstacle))


class _PutsNothingOnTop(Replay):
    def reuse_commits(self, statement: Statement) -> Any:
        super().reuse_commits(statement)
        return statement.commits


@pytest.mark.parametrize(
    ("mistake", "before", "own", "winners", "tracks_rows"),
    [
        (_ForgetsReads, "", "append a 1, copy a from a", "append a 1", False),
        (_ForgetsOrder, "", "append a 1, define a from a, append a 1", "append a 1", False),
        (_ForgetsOwnWrites, "", "append a 1, define a from a, append a 1", "append a 1", False),
        (_ForgetsWhatIsWrittenAnew, "", "copy b from c, copy a from b 3", "append c 1", False),
        (_ForgetsWhatIsNotWrittenAnyMore, "append b 1", "copy a from b, copy c from a 9", "update b 9", False),
        (_ForgetsDefinitions, "", "append a 1, define a from a, append a 1", "append a 1", False),
        (_ForgetsEarlierWrites, "", "append a 1, update a 1", "append a 9", True),
        (_ForgetsWinners, "", "append a 1", "define a from b", False),
        (_ForgetsWinners, "append a 1", "delete a 1", "compact a", False),
        (_PutsNothingOnTop, "", "append a 1", "append a 1", True),
    ],
)
def test_a_planted_mistake_is_found(mistake, before, own, winners, tracks_rows) -> None:
    history = (*map(_operations, (before, own, winners)), tracks_rows)
    assert not _is_wrong(history)
    assert _is_wrong(history, mistake)


def _operations(text: str) -> list[Operation]:
    """For example "update a 3" of rows 0 to 1 with the number 3, "copy a from b 3" of rows 0 to
    9."""
    operations_of_text = []
    for line in filter(None, text.split(", ")):
        name, target, *rest = line.split()
        source = rest[1] if rest[:1] == ["from"] else target
        number = int(rest[-1]) if rest and rest[-1].isdigit() else 1
        operations_of_text.append(Operation(name, target, source, 0, 9 if name == "copy" else 1, number))
    return operations_of_text


# -- single rules -----------------------------------------------------------------------------------------------------


def _adds(path: str, low: int, high: int) -> dict[str, Any]:
    stats = f'{{"numRecords":2,"minValues":{{"i":{low}}},"maxValues":{{"i":{high}}},"nullCount":{{"i":0}}}}'
    return {"add": {"path": path, "partitionValues": {}, "size": 1, "dataChange": True, "stats": stats}}


def _commit(*actions: dict[str, Any], at: int = 1) -> list[dict[str, Any]]:
    return [{"commitInfo": {"inCommitTimestamp": at}}, *actions]


def _moved(*winners: list[dict[str, Any]], base: int = 4) -> MovedTable:
    return MovedTable("t", base, [Winner(base + 1 + at, actions) for at, actions in enumerate(winners)], SCHEMA)


READ = Read("t", 4, between(0, 9), files=frozenset({"old"}))
NEAR = _commit(_adds("w", 5, 6))
FAR = _commit(_adds("w", 50, 60))


@pytest.mark.parametrize(
    ("read", "winner", "has_to"),
    [
        (READ, NEAR, True),
        (READ, FAR, False),
        (Read("t", 5, between(0, 9), files=frozenset({"old"})), NEAR, True),  # with a commit of its own
        (Read("t", 3, between(0, 9)), FAR, True),  # of a version before the cut
        (Read("t", 3, between(0, 9), is_time_travel=True), NEAR, False),
        (Read("t", 4, between(0, 9), is_time_travel=True), NEAR, True),
        (Read("t", 4, between(0, 9), is_stale_allowed=True), NEAR, False),
        (READ, _commit({"metaData": {}}), True),
    ],
)
def test_a_statement_runs_again_when_a_winner_may_have_changed_what_it_read(read, winner, has_to) -> None:
    assert bool(Replay({"t": _moved(winner)}).reason(Statement("s", {"t": [read]}))) == has_to


def test_after_an_own_change_of_the_definition_predicates_are_not_those_of_the_winners() -> None:
    removed = _commit({"remove": {"path": "far", "dataChange": True}})
    replay = Replay({"t": _moved(removed)})
    define = Statement("s", {}, {"t": [_commit({"metaData": {}})]})
    read = Read("t", 5, between(0, 9), files=frozenset({"old"}))
    assert replay.reason(Statement("s", {"t": [read]})) == ""
    assert replay.reason(define) == ""
    replay.reuse_commits(define)
    assert "removed" in replay.reason(Statement("s", {"t": [read]}))


def test_an_append_above_what_ran_again_stays_as_it_is_with_fewer_commits_below() -> None:
    replay = Replay({"t": _moved()})
    update = Statement("s", {}, {"t": [_commit(_adds("x", 1, 2), at=7), _commit(_adds("y", 1, 2), at=8)]})
    append = Statement("s", {}, {"t": [_commit(_adds("z", 1, 2), at=9)]})
    replay.ran_again(update, {})
    assert replay.reason(append) == ""
    assert replay.reuse_commits(append) == append.commits
    assert replay.reuse_commits(append) == {"t": [_commit(_adds("z", 1, 2), at=10)]}  # timestamps increase


@pytest.mark.parametrize("at", [7, 100])
def test_the_timestamps_of_kept_commits_follow_what_is_below_them(at: int) -> None:
    replay = Replay({"t": _moved(_commit(at=100))})
    first, second = (Statement("s", {}, {"t": [_commit(_adds(path, 1, 2), at=at)]}) for path in "xy")
    placed = [replay.reuse_commits(append)["t"][0][0]["commitInfo"]["inCommitTimestamp"] for append in (first, second)]
    assert placed == [101, 102]
    without = Statement("s", {}, {"t": [[{"commitInfo": {}}, _adds("z", 1, 2)]]})
    assert replay.reuse_commits(without) == without.commits


@pytest.mark.parametrize("kind", ["metaData", "protocol"])
def test_a_change_of_the_definition_above_what_ran_again_runs_again_and_so_do_appends_after_it(kind: str) -> None:
    define = Statement("s", {}, {"t": [_commit({kind: {}})]})
    append = Statement("s", {}, {"t": [_commit(_adds("x", 1, 2))]})
    replay = Replay({"t": _moved()})
    replay.ran_again(append, append.commits)
    assert replay.reason(append) == ""
    assert "writes rows that this one changes" in replay.reason(define)
    replay.ran_again(define, define.commits)
    assert "changes the definition" in replay.reason(append)


def test_rows_with_ids_run_again_only_where_ids_may_have_been_copied() -> None:
    def tracked(path: str, first: int) -> list[dict[str, Any]]:
        mark = {"domain": "delta.rowTracking", "configuration": f'{{"rowIdHighWaterMark":{first + 1}}}'}
        added = {**_adds(path, 1, 2)["add"], "baseRowId": first, "defaultRowCommitVersion": 5 + first // 2}
        return _commit({"add": added}, {"domainMetadata": mark})

    first = Statement("s", {}, {"t": [tracked("x", 0)]})
    second = Statement("s", {}, {"t": [tracked("y", 2)]})
    rewrite = Statement("s", {}, {"t": [[*tracked("z", 2), {"remove": {"path": "x", "dataChange": True}}]]})
    for winners, has_to in (([tracked("w", 0)], True), ([], False)):
        replay = Replay({"t": _moved(*winners)})
        replay.reuse_commits(first)
        assert replay.reason(second) == ""
        assert bool(replay.reason(rewrite)) == has_to
    replay.ran_again(first, first.commits)
    assert "follow one another" in replay.reason(second)


def test_a_statement_with_an_obstacle_is_refused_before_anything_runs() -> None:
    tables = {"t": _moved(NEAR)}
    kept = Statement("statement 1", {}, {"t": [_commit(_adds("x", 1, 2))]}, "obstacle")
    assert refusal([kept], tables) == ""
    concerned = Statement("statement 2", {"t": [READ]}, {}, "it is bad")
    why = refusal([kept, concerned], tables)
    assert why.startswith("statement 2 would have to run again (t: version 5")
    assert why.endswith("and cannot: it is bad")
    again = Statement("statement 2", {"t": [READ]}, {"u": [_commit(_adds("y", 1, 2))]})
    look = Statement("the program", {"u": [Read("u", 5, between(0, 9))]}, {}, "it read")
    assert refusal([again, look], tables | {"u": MovedTable("u", 4, [], SCHEMA)}).startswith("the program")


def test_commits_that_have_no_counterpart_are_refused_or_run_again() -> None:
    batch = {"txn": {"appId": "stream", "version": 3}}
    first, second = (Statement("s", {}, {"t": [_commit(batch)]}, obstacle) for obstacle in ("", "it is bad"))
    assert "streaming application" in refusal([first, second], {"t": _moved(FAR)})
    assert refusal([first, first], {"t": _moved(FAR)}) == ""


def test_reads_of_kept_statements_are_of_the_new_cut() -> None:
    past = Read("t", 3, is_time_travel=True)
    at_base = Read("t", 4, is_time_travel=True)
    own = Read("t", 5, is_time_travel=True)
    moved = at_cut([READ, past, at_base, own], 4, 9)
    assert [read.version for read in moved] == [9, 3, 4, 9]


def test_what_an_append_is() -> None:
    mark = {"domainMetadata": {"domain": "delta.rowTracking", "configuration": "{}"}}
    other = {"domainMetadata": {"domain": "other", "configuration": "{}"}}
    vector = {"add": {"path": "x", "dataChange": True, "deletionVector": {"storageType": "u"}}}
    moved = {"add": {"path": "x", "dataChange": False}}
    assert is_append_only([*_commit(_adds("x", 1, 2)), mark])
    for action in (other, vector, moved, {"remove": {"path": "x"}}, {"metaData": {}}, {"txn": {}}, {"cdc": {}}):
        assert not is_append_only(_commit(action))
    assert has_row_ids([mark])
    assert has_row_ids([{"add": {"path": "x", "baseRowId": 0}}])
    assert not has_row_ids(_commit(_adds("x", 1, 2)))
