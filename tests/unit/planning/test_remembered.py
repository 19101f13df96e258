"""A process that planned a table does not ask for its newest root again while the one it remembers
serves, and believes it of no other history (I16)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.support.fakes import delta
from tests.unit.planning.tables import SMALL, History, metadata
from turnstile.planning import changes
from turnstile.planning import planner as module
from turnstile.planning.core.roots import FOLDER
from turnstile.planning.planner import Planner
from turnstile.planning.upkeep import IndexUpkeep, newest_root
from turnstile.store.core.errors import Throttled
from turnstile.store.core.names import published_path
from turnstile.store.ports import World


def table(seed: int, steps: int = 8) -> History:
    """A table with an index of its latest version."""
    history = History(seed)
    for _ in range(steps):
        history.step()
    keep_up(history)
    return history


def keep_up(history: History) -> None:
    history.publish()
    IndexUpkeep(history.world, sizes=SMALL).keep_up(history.head)


def asked(history: History, planner: Planner, **more: Any) -> tuple[int, int]:
    """Plans all files, compares them with the model, and returns the requests to objs and the
    version of the index."""
    before = len(history.world.objs.requests)
    plan = planner.plan(history.head, **more)
    assert {file.path for file in plan.files} == set(history.states[plan.version])
    return len(history.world.objs.requests) - before, plan.statistics.index_version


def test_the_newest_root_is_asked_for_once() -> None:
    history = table(1)
    planner = Planner(history.world)
    floor = history.head.floor
    assert asked(history, planner) == (1, floor)
    assert asked(history, planner) == (0, floor)
    history.step()
    history.step()
    assert asked(history, planner) == (0, floor)
    assert asked(history, planner, version=history.head.latest) == (0, floor)
    assert asked(history, Planner(history.world)) == (1, floor)


@pytest.mark.parametrize("further", [0, 1])
def test_a_root_that_is_too_far_behind_is_not_used_without_a_look(monkeypatch, further) -> None:
    monkeypatch.setattr(module, "NEAR", 2)
    history = table(2)
    planner = Planner(history.world)
    first = history.head.floor
    asked(history, planner)
    for _ in range(2 + further):
        history.step()
    keep_up(history)
    newest = newest_root(history.world, history.head)
    assert newest is not None and newest.root.version == history.head.latest
    assert asked(history, planner) == ((1, newest.root.version) if further else (0, first))


def test_a_version_that_was_planned_is_not_asked_for_again_however_far_behind_its_root_is(monkeypatch) -> None:
    monkeypatch.setattr(module, "NEAR", 2)
    history = table(3)
    floor = history.head.floor
    for _ in range(4):
        history.step()
    planner = Planner(history.world)
    assert asked(history, planner) == (1, floor)
    assert asked(history, planner) == (0, floor)
    history.step()
    assert asked(history, planner) == (1, floor)


def test_an_earlier_version_than_the_one_planned_last_has_its_own_root() -> None:
    history = table(4)
    first = history.head.floor
    for _ in range(3):
        history.step()
    keep_up(history)
    planner = Planner(history.world)
    asked(history, planner)
    requests, version = asked(history, planner, version=first)
    assert requests > 0 and version == first


def test_i16_a_head_that_does_not_show_the_version_that_was_planned_has_the_root_looked_at_again() -> None:
    """A restored HEAD may lead to another history with versions of the same numbers: their times
    differ."""
    history = table(5)
    planner = Planner(history.world)
    asked(history, planner)
    assert asked(history, planner)[0] == 0
    history.table.row["last_ict"] = history.head.last_ict + 1
    assert asked(history, planner)[0] == 1


def test_a_version_that_left_the_tail_is_asked_for_again() -> None:
    history = table(6)
    planner = Planner(history.world)
    asked(history, planner)
    for _ in range(6):
        history.step()
        history.publish()
    assert asked(history, planner)[0] == 1


def test_the_version_before_the_tail_is_known_to_the_head(monkeypatch) -> None:
    history = table(11)
    planner = Planner(history.world)
    asked(history, planner)
    first = history.head.floor
    for _ in range(3):
        history.step()
        history.publish()
    assert first == history.head.tail_from - 1
    assert asked(history, planner) == (0, first)


def test_i16_a_version_whose_time_the_head_does_not_know_confirms_nothing() -> None:
    history = table(12)
    first = history.head.floor
    for _ in range(6):
        history.step()
        history.publish()
    planner = Planner(history.world)
    assert asked(history, planner, version=first) == (1, first)
    assert asked(history, planner) == (1, first), "whether it is the same history was not seen"


def test_a_version_that_is_remembered_is_not_opened_again(monkeypatch) -> None:
    history = table(13)
    opened = list[int]()
    inner = Planner._open_root
    monkeypatch.setattr(Planner, "_open_root", lambda *args: opened.append(args[3]) or inner(*args))
    planner = Planner(history.world)
    for _ in range(3):
        asked(history, planner)
    assert opened == [history.head.latest]


def test_i16_a_remembered_root_whose_files_are_gone_gives_way_to_the_newest_one() -> None:
    history = table(7)
    planner = Planner(history.world, cache_bytes=1)  # leaves are read again with every plan
    first = newest_root(history.world, history.head)
    assert first is not None
    asked(history, planner)
    planned = history.head.latest
    for _ in range(3):
        history.step()
    keep_up(history)
    assert planned == history.head.tail_from - 1, "the HEAD does not show that it is the same history"
    newest = newest_root(history.world, history.head)
    assert newest is not None and newest.id != first.id
    for name in first.root.names - newest.root.names:
        history.table.storage.delete(f"{FOLDER}{name}")
    assert first.root.names - newest.root.names
    assert asked(history, planner) == (1, newest.root.version)
    assert asked(history, planner) == (0, newest.root.version)


class Meeting:
    """Table storage in which the read of a leaf and that of a commit each wait until the other one
    has begun."""

    def __init__(self, inner: Any, commit: str) -> None:
        self._inner = inner
        self._commit = commit
        self._met = threading.Barrier(2)
        self._came: set[str] = set()

    def open(self, location: str) -> Any:
        self._storage = self._inner.open(location)
        return self

    def read(self, path: str, *more: Any) -> Any:
        kind = "leaf" if path.startswith(FOLDER) else "commit" if path == self._commit else ""
        if kind and kind not in self._came:
            self._came.add(kind)
            self._met.wait(60)
        return self._storage.read(path, *more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


def test_leaves_are_read_at_once_with_the_commits_since() -> None:
    history = table(8)
    stored = newest_root(history.world, history.head)
    assert stored is not None and len(stored.root.leaves) > 0
    history.step()
    history.publish()
    world = history.world
    storages: Any = Meeting(world.storages, published_path(history.head.latest))
    slow = World(world.refs, world.objs, storages, world.clock, world.ids, world.space)
    plan = Planner(slow).plan(history.head)
    assert {file.path for file in plan.files} == set(history.states[plan.version])
    assert plan.statistics.index_version == stored.root.version


def test_a_predicate_on_a_column_that_the_index_does_not_have_reads_nothing_ahead() -> None:
    history = table(10)
    history._commit([metadata("note")])
    planner = Planner(history.world)
    plan = planner.plan(history.head, lambda columns: columns.find_column("note").is_null())
    assert {file.path for file in plan.files} == set(history.states[plan.version])
    assert plan.statistics.index_version >= 0


def test_more_changes_than_are_held_are_read_from_the_log_once_they_are_published(monkeypatch) -> None:
    history = table(14)
    for _ in range(4):
        history.step()
    monkeypatch.setattr(changes, "MAX_CHANGES", 0)
    with pytest.raises(Throttled, match="not published yet"):
        Planner(history.world).plan(history.head)
    history.publish()
    assert asked(history, Planner(history.world)) == (1, -1)


def test_a_protocol_that_changed_since_the_index_is_that_of_the_plan() -> None:
    history = table(15)
    wider = delta.protocol("deletionVectors", "timestampNtz")
    wider["protocol"]["readerFeatures"] = [*wider["protocol"]["readerFeatures"], "deletionVectors", "timestampNtz"]
    history._commit([wider])
    plan = Planner(history.world).plan(history.head)
    assert plan.statistics.index_version >= 0
    assert "timestampNtz" in plan.protocol["writerFeatures"]
