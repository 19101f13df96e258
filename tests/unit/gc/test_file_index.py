"""Roots and leaves of file indexes go when no root needs them, and not before (I10)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.delta_table import Killed, kill_at
from tests.unit.planning.tables import SMALL, History
from turnstile.gc.collector import Collector, Report
from turnstile.gc.core import HOUR_MS, Grace
from turnstile.gc.kinds import file_index
from turnstile.gc.scanner import Batch, GcContext, NotNow
from turnstile.planning.core.roots import FOLDER
from turnstile.planning.planner import Planner
from turnstile.planning.upkeep import IndexUpkeep
from turnstile.store.core.rows import FILE_INDEX
from turnstile.store.faults import no_faults
from turnstile.store.ports import Obj

GRACE = Grace()


@pytest.fixture
def history() -> History:
    """A table with roots of the last minutes."""
    table = History(21)
    for _ in range(10):
        table.step()
        table.publish()
        IndexUpkeep(table.world, sizes=SMALL).keep_up(table.head)
    return table


def collect(history: History, *, dry_run: bool = False) -> Report:
    return Collector(history.world, GRACE, workers=1).collect(("file-index",), dry_run=dry_run)


def wait(history: History, hours: float) -> None:
    history.world.clock.now += int(hours * HOUR_MS)


def leaves(history: History) -> set[str]:
    return {stat.path for stat in history.table.storage.list(FOLDER)}


def roots(history: History) -> list[Any]:
    return list(history.world.objs.list(history.world.space.objs("main"), FILE_INDEX.id(f"{history.id}/")))


def paths(history: History) -> tuple[set[str], int]:
    plan = Planner(history.world).plan(history.head)
    return {file.path for file in plan.files}, plan.statistics.index_version


def bring_forward(history: History) -> None:
    for _ in range(2):
        history.step()
    history.publish()
    IndexUpkeep(history.world, sizes=SMALL).keep_up(history.head)


def test_i10_what_a_kept_root_names_stays(history) -> None:
    before = leaves(history)
    wait(history, 200)
    collect(history)
    assert leaves(history) == before, "roots keep each other: none is newer"
    assert paths(history)[1] >= 0


def test_i10_roots_that_are_not_kept_go_after_the_grace_and_their_leaves_with_the_next_run(history) -> None:
    many = len(roots(history))
    before = leaves(history)
    wait(history, 26)
    bring_forward(history)
    collect(history)
    assert len(roots(history)) == many + 1, "within the grace"
    wait(history, 49)
    collect(history, dry_run=True)
    assert len(roots(history)) == many + 1, "a dry run"
    collect(history)
    kept = len(roots(history))
    assert kept < many
    collect(history)
    assert before - leaves(history)
    assert paths(history) == (set(history.states[-1]), roots_version(history))
    for version in range(1, history.head.latest + 1):
        assert {file.path for file in Planner(history.world).plan(history.head, version=version).files} == set(
            history.states[version]
        )


def roots_version(history: History) -> int:
    return int(roots(history)[-1].id.rpartition("/")[2].partition(".")[0])


def test_leaves_of_a_worker_that_died_go_after_the_grace(history) -> None:
    before = leaves(history)
    for _ in range(2):
        history.step()
    history.publish()
    with pytest.raises(Killed):
        IndexUpkeep(history.world, sizes=SMALL, faults=kill_at("index.leaves")).keep_up(history.head)
    orphans = leaves(history) - before
    assert orphans
    wait(history, 47)
    collect(history)
    assert orphans <= leaves(history)
    wait(history, 2)
    collect(history)
    assert leaves(history) == before


def test_leaves_of_a_table_without_a_root_go(history) -> None:
    for obj in roots(history):
        history.world.objs.delete(obj.space, obj.id)
    wait(history, 49)
    collect(history)
    assert leaves(history) == set()
    assert paths(history) == (set(history.states[-1]), -1)


def test_i10_a_clone_of_a_version_collects_nothing_of_its_source(history) -> None:
    row = {**history.table.row, "state": "pinned", "source": history.id, "table_id": OTHER}
    before = leaves(history)
    wanted = len(roots(history))
    wait(history, 200)
    assert list(scanner(history).scan(row, history.world.clock.now)) == []
    assert (leaves(history), len(roots(history))) == (before, wanted)


def test_files_that_one_run_looks_at_are_bounded(history, monkeypatch) -> None:
    orphans = {f"{FOLDER}-{at}.parquet" for at in range(3)}
    for path in orphans:
        history.table.put(path, b"x")
    monkeypatch.setattr(file_index, "FILES_MAX", 2)
    wait(history, 49)
    for left in (1, 0):
        collect(history)
        assert len(orphans & leaves(history)) == left


OTHER = "b0000000-0000-4000-8000-000000000001"


def scanner(history: History) -> file_index.FileIndexScanner:
    return file_index.FileIndexScanner(GcContext(history.world, GRACE, no_faults, 1, lambda: False))


def dropped(history: History) -> None:
    history.table.row["state"] = "dropped"


def gone(history: History) -> None:
    del history.world.refs.rows[history.table.key]


def with_an_unknown_root(history: History) -> None:
    id = FILE_INDEX.id(f"{history.id}/{0:020d}.other")
    space = history.world.space.objs("main")
    now_us = history.world.clock.now * 1000
    history.world.objs.put(Obj(space, id, FILE_INDEX.name, b"of a later release", now_us))


@pytest.mark.parametrize("happens", [dropped, gone, with_an_unknown_root])
def test_i10_leaves_stay_if_something_happens_between_the_scan_and_the_removal(history, happens) -> None:
    orphan = f"{FOLDER}orphan.parquet"
    history.table.put(orphan, b"x")
    wait(history, 49)
    scanned = scanner(history).scan(history.table.row, history.world.clock.now)
    (batch,) = [one for one in scanned if isinstance(one, Batch)]
    assert [item.id for item in batch.items] == [orphan]
    happens(history)
    with pytest.raises(NotNow):
        batch.remove()
    assert orphan in leaves(history)


def test_i10_no_leaf_goes_while_a_root_is_there_that_is_not_known_here(history) -> None:
    space = history.world.space.objs("main")
    id = FILE_INDEX.id(f"{history.id}/{0:020d}.other")
    history.world.objs.put(Obj(space, id, FILE_INDEX.name, b"of a later release", history.world.clock.now * 1000))
    history.table.put(f"{FOLDER}orphan.parquet", b"x")
    wait(history, 60)
    collect(history)
    assert f"{FOLDER}orphan.parquet" in leaves(history)


def test_roots_of_a_table_that_is_gone_go(history) -> None:
    history.table.row["state"] = "dropped"
    history.table.row["reason"] = "purged"
    history.table.row["changed_at"] = history.world.clock.now
    wait(history, 49)
    collect(history)
    assert roots(history) == []


def test_roots_of_a_table_that_can_come_back_stay(history) -> None:
    many = len(roots(history))
    history.table.row["state"] = "dropped"
    wait(history, 49)
    collect(history)
    assert len(roots(history)) == many
