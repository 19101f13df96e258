"""Plans that take long: begun once, fetched once, bounded, and forgotten when they are cancelled.
No test waits for a time to pass."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from turnstile.iceberg.scans import plan_runs
from turnstile.iceberg.scans.plan_runs import PlanRuns
from turnstile.store.core.errors import InvalidRequest, Throttled


class Plan:
    """A plan that goes on until it is let go."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.goes = threading.Event()
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        self.began.set()
        assert self.goes.wait(60)
        return self.calls


@pytest.fixture
def plan() -> Iterator[Plan]:
    made = Plan()
    yield made
    made.goes.set()


def finished(runs: PlanRuns[int], plan_id: str, plan: Plan) -> int | None:
    """The result of a plan that was let go."""
    plan.goes.set()
    runs._runs[plan_id].exception(60)
    return runs.result(plan_id, plan)


def test_a_short_plan_is_answered_at_once_and_nothing_is_kept() -> None:
    runs = PlanRuns[int](wait_s=60)
    assert runs.result("p", lambda: 7) == 7
    assert runs.result("p", lambda: 8) == 8


def test_a_long_plan_is_begun_once_and_its_result_is_fetched_once(plan: Plan) -> None:
    runs = PlanRuns[int](wait_s=0)
    assert runs.result("p", plan) is None
    assert plan.began.wait(60)
    assert runs.result("p", plan) is None
    assert finished(runs, "p", plan) == 1
    assert runs.result("p", lambda: 9) in (None, 9), "it is planned again"


def test_an_error_of_a_plan_is_raised_to_its_fetcher_and_forgotten(plan: Plan) -> None:
    def wrong() -> int:
        plan()
        raise InvalidRequest("no such column", field="filter", remedy="name one")

    runs = PlanRuns[int](wait_s=0)
    assert runs.result("p", wrong) is None
    plan.goes.set()
    runs._runs["p"].exception(60)
    with pytest.raises(InvalidRequest):
        runs.result("p", wrong)
    assert "p" not in runs._runs


def test_a_plan_that_times_out_by_itself_is_no_plan_under_way() -> None:
    def late() -> int:
        raise TimeoutError("the storage does not answer")

    runs = PlanRuns[int](wait_s=60)
    with pytest.raises(TimeoutError):
        runs.result("p", late)
    assert "p" not in runs._runs


def test_so_many_are_under_way_at_once(plan: Plan) -> None:
    runs = PlanRuns[int](wait_s=0, running=2)
    assert runs.result("a", plan) is None
    assert runs.result("b", plan) is None
    with pytest.raises(Throttled):
        runs.result("c", plan)
    assert runs.result("a", plan) is None, "those that are under way may be asked for"
    plan.goes.set()
    for id in "ab":
        runs._runs[id].exception(60)
    runs.result("c", plan)  # there is room again


def test_a_cancelled_plan_is_forgotten_and_others_stay(plan: Plan) -> None:
    runs = PlanRuns[int](wait_s=0)
    assert runs.result("a", plan) is None
    assert runs.result("b", plan) is None
    runs.cancel("a")
    runs.cancel("nobody's")
    assert list(runs._runs) == ["b"]


def test_a_plan_that_is_cancelled_before_it_begins_never_does(plan: Plan) -> None:
    runs = PlanRuns[int](wait_s=0, running=1)
    later = Plan()
    later.goes.set()
    assert runs.result("a", plan) is None
    assert plan.began.wait(60)
    runs.cancel("a")  # it goes on, and keeps the only thread
    assert runs.result("b", later) is None
    runs.cancel("b")
    assert runs.result("c", lambda: 5) is None
    last = runs._runs["c"]
    plan.goes.set()
    assert last.result(60) == 5
    assert later.calls == 0


def test_results_that_are_not_fetched_are_bounded(monkeypatch, plan: Plan) -> None:
    monkeypatch.setattr(plan_runs, "KEPT", 2)
    runs = PlanRuns[int](wait_s=0, running=10)
    for id in "abcd":
        assert runs.result(id, plan) is None
    plan.goes.set()
    for run in list(runs._runs.values()):
        run.exception(60)
    runs.result("e", plan)
    assert set("ab").isdisjoint(runs._runs)
    assert {"d"} <= set(runs._runs)
