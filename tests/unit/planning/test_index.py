"""An index shows exactly the files of the version that is asked for, whatever happened while it was
kept up; it decides nothing (I16)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.delta_table import Killed, kill_at
from tests.support.examples import examples
from tests.unit.planning.tables import DAYS, SMALL, History
from turnstile.maintenance.work import Maintainer
from turnstile.planning.core.predicates import And, Predicate, TableColumns
from turnstile.planning.core.roots import FOLDER, Sizes, unpack_root
from turnstile.planning.planner import Planner
from turnstile.planning.upkeep import IndexUpkeep, newest_root
from turnstile.store.core.errors import ErrorType, InvalidRequest, NotFound, StateConflict
from turnstile.store.core.names import published_path
from turnstile.store.core.rows import FILE_INDEX

SEEDS = range(examples(6))
POINTS = ("index.leaf", "index.leaves", "index.root")


def shown(plan: Any) -> dict[str, Any]:
    return {
        file.path: (
            file.size,
            file.partition_values["day"],
            None if file.deletion_vector is None else file.deletion_vector.offset,
            file.records,
        )
        for file in plan.files
    }


def expected(state: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        path: (
            add["size"],
            add["partitionValues"]["day"],
            add["deletionVector"]["offset"] if "deletionVector" in add else None,
            None if add["stats"] is None else 3,
        )
        for path, add in state.items()
    }


def of_day(day: int, low: int, high: int) -> Any:
    def predicate(columns: TableColumns) -> Predicate:
        return And((columns.find_column("day").compare("=", day), columns.find_column("ID").between(low, high)))

    return predicate


def check(history: History, planner: Planner, version: int | None = None) -> Any:
    """Compares every file of a version, and those that a predicate leaves, with the model."""
    version = history.head.latest if version is None else version
    plan = planner.plan(history.head, version=version)
    state = history.states[version]
    assert plan.version == version
    assert len(plan.files) == len(state)
    assert shown(plan) == expected(state)
    for day in range(DAYS if version > 0 else 0):
        low = history.rng.randrange(100)
        some = planner.plan(history.head, of_day(day, low, low + 20), version=version)
        wanted = {
            path
            for path, add in state.items()
            if add["partitionValues"]["day"] == str(day)
            and ((ids := history.ids(add)) is None or (ids[0] <= low + 20 and ids[1] >= low))
        }
        assert {file.path for file in some.files} == wanted
    return plan


def upkeep(history: History, **more: Any) -> IndexUpkeep:
    return IndexUpkeep(history.world, sizes=SMALL, **more)


def roots(history: History) -> list[Any]:
    objs = history.world.objs.list(history.world.space.objs("main"), FILE_INDEX.id(f"{history.id}/"))
    return [unpack_root(obj.payload) for obj in objs]


def indexed(seed: int, steps: int = 12) -> History:
    """A table with an index that is a little behind."""
    history = History(seed)
    for _ in range(steps):
        history.step()
    history.publish()
    upkeep(history).keep_up(history.head)
    history.step()
    return history


@pytest.mark.parametrize("seed", SEEDS)
def test_i16_every_version_is_shown_as_it_is_while_the_index_is_kept_up(seed) -> None:
    history = History(seed)
    used = 0
    planner = Planner(history.world)
    for _ in range(20):
        history.step()
        if history.rng.random() < 0.5:
            history.publish()
        if history.rng.random() < 0.6:
            upkeep(history).keep_up(history.head)
        used += check(history, planner).statistics.index_version >= 0
    assert used > 10, "the log was read instead"
    for version in range(seed % 3, history.head.latest + 1, 3):
        check(history, Planner(history.world), version)


def test_histories_have_several_leaves_and_changes_that_wait() -> None:
    seen = set[tuple[bool, bool]]()
    for seed in range(3):
        history = History(seed)
        for _ in range(20):
            history.step()
            history.publish()
            upkeep(history).keep_up(history.head)
        seen |= {(len(root.leaves) > 2, bool(root.deltas)) for root in roots(history)}
    assert (True, True) in seen and (True, False) in seen


@pytest.mark.parametrize("seed", SEEDS)
def test_i16_no_file_is_in_two_leaves_and_waiting_changes_are_bounded(seed) -> None:
    history = History(seed)
    for _ in range(15):
        history.step()
        history.publish()
        upkeep(history).keep_up(history.head)
        for root in roots(history)[-1:]:
            assert len(root.deltas) <= SMALL.deltas
            assert all(ref.rows <= SMALL.leaf_rows for ref in root.leaves)
            assert [ref.first for ref in root.leaves] == sorted((ref.first for ref in root.leaves), key=first_known)
            assert sum(ref.rows for ref in root.leaves) <= len(history.states[-1]) + SMALL.most_pending(0) + 8


def first_known(first: tuple[Any, ...]) -> Any:
    return tuple((value is None, 0 if value is None else value) for value in first)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("visit", [1, 3])
def test_i16_a_worker_that_dies_leaves_the_index_as_it_was_or_as_it_will_be(point, visit) -> None:
    for seed in SEEDS[:2]:
        history = History(seed)
        for _ in range(6):
            history.step()
            history.publish()
            try:
                upkeep(history, faults=kill_at(point, visit)).keep_up(history.head)
            except Killed:
                check(history, Planner(history.world))
        check(history, Planner(history.world))
        upkeep(history).keep_up(history.head)
        assert check(history, Planner(history.world)).statistics.index_version >= 0


def test_i16_two_workers_at_once_both_write_what_is_right() -> None:
    history = indexed(3)
    for _ in range(3):
        history.step()
    history.publish()
    inner = upkeep(history)

    def meanwhile(point: str) -> None:
        if point == "index.leaves":
            inner.keep_up(history.head)

    upkeep(history, faults=meanwhile).keep_up(history.head)
    newest = [root for root in roots(history) if root.version == history.head.floor]
    assert len(newest) == 2
    assert check(history, Planner(history.world)).statistics.index_version == history.head.floor


def test_i10_nothing_is_written_for_a_table_that_was_dropped_meanwhile() -> None:
    history = indexed(4)
    before = len(roots(history))
    for _ in range(3):
        history.step()
    history.publish()

    def refuse() -> None:
        raise StateConflict(ErrorType.TABLE_NOT_ACTIVE, "it is dropped", remedy="none", state="dropped")

    with pytest.raises(StateConflict):
        upkeep(history).keep_up(history.head, refuse)
    assert len(roots(history)) == before


@pytest.mark.parametrize("harm", ["gone", "other bytes", "another leaf"])
def test_i16_a_leaf_that_is_not_what_was_written_is_not_believed_and_the_index_is_built_anew(harm) -> None:
    history = indexed(5, steps=16)
    stored = newest_root(history.world, history.head)
    assert stored is not None and len(stored.root.leaves) > 1
    first, second = (f"{FOLDER}{ref.name}" for ref in stored.root.leaves[:2])
    other = history.table.storage.read(second)
    history.table.storage.delete(first)
    if harm != "gone":
        assert other is not None
        history.table.put(first, b"nonsense" if harm == "other bytes" else other[0])
    plan = check(history, Planner(history.world))
    assert plan.statistics.index_version == -1, "the log was read"
    for _ in range(8):
        history.step()
    history.publish()
    upkeep(history).keep_up(history.head)
    assert check(history, Planner(history.world)).statistics.index_version == history.head.floor


def test_i16_a_root_of_another_history_is_not_believed_and_goes() -> None:
    history = indexed(6)
    stored = newest_root(history.world, history.head)
    assert stored is not None
    path = published_path(stored.root.version)
    content = history.table.storage.read(path)
    assert content is not None
    history.table.storage.delete(path)
    history.table.put(path, content[0].replace(b'"txnId":"c-', b'"txnId":"d-'))
    assert check(history, Planner(history.world)).statistics.index_version == -1
    upkeep(history).keep_up(history.head)
    after = newest_root(history.world, history.head)
    assert after is not None and after.id != stored.id
    assert check(history, Planner(history.world)).statistics.index_version == after.root.version


def test_i16_a_root_of_a_later_version_than_the_head_knows_is_not_used() -> None:
    history = indexed(7)
    history.table.row["floor"] = history.head.floor - 1
    plan = Planner(history.world).plan(history.head, version=history.head.floor)
    assert plan.statistics.index_version == -1
    assert shown(plan) == expected(history.states[plan.version])


def test_an_index_that_cannot_be_read_counts_as_missing() -> None:
    history = indexed(8)
    space = history.world.space.objs("main")
    obj = history.world.objs.newest(space, FILE_INDEX.id(f"{history.id}/"))
    assert obj is not None
    assert unpack_root(obj.payload[:-3]) is None
    assert unpack_root(b"") is None


@pytest.mark.parametrize("more", [0, 1])
def test_an_index_that_is_too_far_behind_is_built_anew_and_meanwhile_the_log_is_read(monkeypatch, more) -> None:
    most = 5
    for module in ("planner", "upkeep"):
        monkeypatch.setattr(f"turnstile.planning.{module}.MAX_BEHIND", most)
    history = indexed(9, steps=40)
    before = newest_root(history.world, history.head)
    assert before is not None
    while history.head.latest < before.root.version + most + more:
        history.step()
    planner = Planner(history.world)
    assert check(history, planner).statistics.index_version == (-1 if more else before.root.version)
    history.publish()
    upkeep(history).keep_up(history.head)
    after = newest_root(history.world, history.head)
    assert after is not None and after.root.version == before.root.version + most + more
    assert bool(before.root.names & after.root.names) is not bool(more)
    planner = Planner(history.world)
    assert check(history, planner).statistics.index_version == after.root.version
    assert check(history, planner, before.root.version).statistics.index_version == before.root.version


def test_pages_are_all_files_once_and_belong_to_one_plan() -> None:
    history = indexed(10, steps=20)
    planner = Planner(history.world)
    for stage in ("index", "log"):
        if stage == "log":
            for obj in list(history.world.objs.list(history.world.space.objs("main"), FILE_INDEX.id(""))):
                history.world.objs.delete(obj.space, obj.id)
            planner = Planner(history.world)
        version = history.head.latest
        found = []
        page = None
        while True:
            plan = planner.plan(history.head, page=page, limit=3)
            assert plan.version == version
            assert 0 < len(plan.files) <= 3
            found += [file.path for file in plan.files]
            page = plan.next_page
            if page is None:
                break
            if len(found) in (3, 6):  # later commits do not change a plan, nor does what is published
                history.step()
                history.publish()
        assert sorted(found) == sorted(history.states[version])
        first = planner.plan(history.head, limit=1)
        with pytest.raises(InvalidRequest, match="another plan"):
            planner.plan(history.head, of_day(1, 0, 9), page=first.next_page)
        with pytest.raises(InvalidRequest, match="another plan"):
            planner.plan(history.head, page="nonsense")


def test_a_page_of_an_index_that_is_gone_is_refused() -> None:
    history = indexed(11, steps=20)
    first = Planner(history.world).plan(history.head, limit=1)
    for obj in list(history.world.objs.list(history.world.space.objs("main"), FILE_INDEX.id(""))):
        history.world.objs.delete(obj.space, obj.id)
    with pytest.raises(InvalidRequest, match="another plan"):
        Planner(history.world).plan(history.head, page=first.next_page, limit=1)


def test_an_explained_plan_counts_what_each_part_excludes() -> None:
    history = indexed(12, steps=20)
    state = history.states[-1]
    plan = Planner(history.world).plan(history.head, of_day(1, 0, 20), explain=True, limit=1)
    statistics = plan.statistics
    assert statistics.total_files == len(state)
    assert statistics.total_bytes == sum(add["size"] for add in state.values())
    assert statistics.total_records == 3 * sum(add["stats"] is not None for add in state.values())
    days = sum(add["partitionValues"]["day"] != "1" for add in state.values())
    ids = sum((ids := history.ids(add)) is not None and ids[0] > 20 for add in state.values())
    assert list(statistics.dropped.values()) == [days, ids]
    unlimited = Planner(history.world).plan(history.head, of_day(1, 0, 20))
    assert (statistics.files, statistics.bytes) == (len(unlimited.files), sum(file.size for file in unlimited.files))


def test_statistics_are_shown_when_they_are_asked_for() -> None:
    history = indexed(13)
    planner = Planner(history.world)
    plan = planner.plan(history.head, stats=True)
    assert {file.path: file.stats for file in plan.files} == {
        path: add["stats"] for path, add in history.states[-1].items()
    }
    assert {file.stats for file in planner.plan(history.head).files} == {None}


def test_a_version_that_is_not_there_is_refused() -> None:
    history = indexed(14)
    with pytest.raises(NotFound):
        Planner(history.world).plan(history.head, version=history.head.latest + 1)
    with pytest.raises(InvalidRequest, match="version and timestamp"):
        Planner(history.world).plan(history.head, version=1, at_ms=1)


def test_a_moment_is_the_version_of_that_time() -> None:
    history = indexed(15)
    before = history.head.last_ict - 1
    plan = Planner(history.world).plan(history.head, at_ms=before)
    assert plan.version == history.head.latest - 1
    assert shown(plan) == expected(history.states[plan.version])


def test_light_work_keeps_the_index_up() -> None:
    history = History(16)
    maintainer = Maintainer(history.world, following=(upkeep(history),))
    for _ in range(5):
        history.step()
        history.publish()
        assert maintainer.maintain(history.id, history.head.floor).outcome in ("done", "nothing due")
    assert check(history, Planner(history.world)).statistics.index_version >= history.head.floor - SMALL.every
    assert all(root.version <= history.head.floor for root in roots(history))


def test_few_changes_rewrite_few_leaves() -> None:
    history = indexed(17, steps=40)
    sizes = Sizes(every=1, leaf_rows=4, run_rows=64, deltas=1, pending=1, rewrites=1)
    before = newest_root(history.world, history.head)
    assert before is not None
    history.publish()
    IndexUpkeep(history.world, sizes=sizes).keep_up(history.head)
    after = newest_root(history.world, history.head)
    assert after is not None and after.id != before.id
    kept = before.root.names & after.root.names
    assert len(kept) >= len(before.root.leaves) // 2
