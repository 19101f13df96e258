"""What was appended between two versions: every file that commits added, once, in pages that belong
to one question."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.fakes import delta
from tests.unit.planning.tables import History
from turnstile.planning import appends
from turnstile.planning.core.predicates import Predicate, TableColumns
from turnstile.planning.planner import Planner
from turnstile.store.core.errors import InvalidRequest, NotFound, UnsupportedTable
from turnstile.store.core.names import published_path


def above(low: int) -> Any:
    def predicate(columns: TableColumns) -> Predicate:
        return columns.find_column("id").compare(">=", low)

    return predicate


@pytest.fixture
def history() -> History:
    """Versions 2 to 4 add two files each, whose ids begin with 10 for each version."""
    history = History(1)
    for version in range(2, 5):
        stats = {
            "numRecords": 3,
            "minValues": {"id": version * 10},
            "maxValues": {"id": version * 10 + 5},
            "nullCount": {"id": 0},
        }
        files = [
            delta.add(f"f{version}{name}", stats=json.dumps(stats), partitionValues={"day": "1"}, size=1)
            for name in "ab"
        ]
        history._commit(files)
    assert history.head.latest == 4
    return history


def names(plan: Any) -> list[str]:
    return [file.path for file in plan.files]


def test_files_are_in_the_order_of_their_commits_and_of_the_span(history) -> None:
    planner = Planner(history.world)
    assert names(planner.plan_appends(history.head, 1, 4)) == ["f2a", "f2b", "f3a", "f3b", "f4a", "f4b"]
    assert names(planner.plan_appends(history.head, 2, 3)) == ["f3a", "f3b"]
    assert names(planner.plan_appends(history.head, 4, 4)) == []
    assert names(planner.plan_appends(history.head, 1, 4, above(36))) == ["f4a", "f4b"]
    history.publish()
    plan = planner.plan_appends(history.head, 1, 4, above(30), stats=True)
    assert names(plan) == ["f3a", "f3b", "f4a", "f4b"]
    assert (plan.version, plan.statistics.files, plan.statistics.tail_versions) == (4, 4, 3)
    assert json.loads(plan.files[0].stats)["minValues"] == {"id": 30}


def test_pages_are_all_files_once(history) -> None:
    planner = Planner(history.world)
    found = list[str]()
    page = None
    for _ in range(3):
        plan = planner.plan_appends(history.head, 1, 4, page=page, limit=2)
        found = [*found, *names(plan)]
        page = plan.next_page
    assert found == ["f2a", "f2b", "f3a", "f3b", "f4a", "f4b"]
    assert page is None


def test_a_page_belongs_to_its_question(history) -> None:
    planner = Planner(history.world)
    page = planner.plan_appends(history.head, 1, 4, limit=1).next_page
    assert page is not None
    for after, version, predicate in ((2, 4, None), (1, 3, None), (1, 4, above(0))):
        with pytest.raises(InvalidRequest, match="another question"):
            planner.plan_appends(history.head, after, version, predicate, page=page)
    with pytest.raises(InvalidRequest, match="page"):
        planner.plan_appends(history.head, 1, 4, page=page[:-1])


def test_commits_are_bounded_by_their_number(history, monkeypatch) -> None:
    monkeypatch.setattr(appends, "MAX_VERSIONS", 2)
    planner = Planner(history.world)
    assert len(names(planner.plan_appends(history.head, 2, 4))) == 4
    with pytest.raises(InvalidRequest, match="3 commits"):
        planner.plan_appends(history.head, 1, 4)


def test_what_is_no_append_is_refused_and_what_is_not_there_not_found(history) -> None:
    planner = Planner(history.world)
    history._commit([delta.remove("f2a")])
    with pytest.raises(UnsupportedTable, match="version 5 removes rows"):
        planner.plan_appends(history.head, 1, 5)
    with pytest.raises(NotFound):
        planner.plan_appends(history.head, 1, 6)
    history._commit(
        [
            {"remove": {**delta.remove("f2b")["remove"], "dataChange": False}},
            {"add": {**delta.add("g")["add"], "dataChange": False, "partitionValues": {"day": "1"}}},
        ]
    )
    assert names(planner.plan_appends(history.head, 5, 6)) == []


def test_a_commit_that_is_missing_is_named(history) -> None:
    history.publish()
    history.table.storage.delete(published_path(3))
    with pytest.raises(UnsupportedTable, match="version 3 is missing"):
        Planner(history.world).plan_appends(history.head, 2, 3)
