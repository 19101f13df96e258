"""One run: a world, actors and faults, all drawn from one seed; then the faults stop and the
invariants must hold."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.histories.check import Operation
from tests.simulation.auditors.record import Violation
from tests.simulation.engine.plans import Faults, Plan, plan, shrunk
from tests.simulation.engine.processes import one_thread_each
from tests.simulation.engine.scheduler import Scheduler
from tests.simulation.engine.state import State
from tests.simulation.engine.stores import STORES, Store, TrueTime
from tests.simulation.scenarios.scenario import Scenario
from tests.simulation.scenarios.tables import Tables

__all__ = ["Failed", "Plan", "Ran", "Violation", "explain", "on_one_cpu", "plan", "run", "shrunk"]

START = 1_770_000_000_000
TABLES = Tables()


class Failed(AssertionError):
    """An invariant broke; carries the plan and the trace."""

    def __init__(self, plan: Plan, trace: list[str], cause: BaseException) -> None:
        super().__init__(f"{cause}\n{plan}\n" + "\n".join(trace[-60:]))
        self.plan = plan
        self.trace = trace
        self.cause = cause


@dataclass(frozen=True)
class Ran:
    """Figures of a run."""

    steps: int
    ratified: int
    faults: int
    published: int
    seen: Counter[str]
    trace: list[str]
    operations: list[Operation]


def run(plan: Plan, scenario: Scenario = TABLES, *, tracing: bool = False, store: str = "fake") -> Ran:
    """Carry out a plan; ``store`` is one of ``STORES``.

    Raises:
        Failed: an invariant does not hold.
    """
    scheduler = Scheduler(random.Random(f"{plan.seed}/order"), START, plan.steps, tracing=tracing)
    clock = TrueTime(scheduler)
    with one_thread_each(), STORES[store](clock) as tables:
        return _run(plan, scenario, clock, tables)


def _run(plan: Plan, scenario: Scenario, clock: TrueTime, store: Store) -> Ran:
    scheduler = clock.scheduler
    faults = Faults(random.Random(f"{plan.seed}/faults"), plan.rate, plan.faults, plan.skip)
    state = State(scheduler, faults, store, scenario.grace)
    try:
        with scenario.limits(plan):
            for actor in scenario.actors(state, plan):
                scheduler.add(actor.name, actor.body, leads=actor.leads)
            scheduler.run()
            _settle(scenario, state, plan, clock)
    except Exception as cause:
        raise Failed(plan, scheduler.trace, cause) from cause
    histories = state.auditor.tables.values()
    return Ran(
        scheduler.steps,
        sum(len(history.facts) for history in histories),
        len(faults.drawn),
        sum(len(history.published_at) for history in histories),
        state.auditor.seen + Counter(f"fault {kind}" for _, kind in faults.drawn),
        scheduler.trace,
        state.operations,
    )


def _settle(scenario: Scenario, state: State, plan: Plan, clock: TrueTime) -> None:
    """Faults stop, and messages on their way arrive. Then everything comes to rest."""
    state.deliver(everything=True)
    after = Scheduler(random.Random(plan.seed), state.scheduler.now, 10**9, tracing=state.scheduler.tracing)
    after.trace = state.scheduler.trace
    state.scheduler = after
    clock.scheduler = after
    state.faults.on = False
    after.add("at rest", lambda: scenario.settle(state, plan))
    after.run()


@contextmanager
def on_one_cpu() -> Iterator[None]:
    """Handing the baton on is ten times faster while all threads share one CPU."""
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if before:
        os.sched_setaffinity(0, {sorted(before)[os.getpid() % len(before)]})
    try:
        yield
    finally:
        if before:
            os.sched_setaffinity(0, before)


def explain(seed: int, scenario: Scenario = TABLES, store: str = "fake") -> str:
    """Runs a failing seed again, smaller, and returns its trace."""

    def fails(candidate: Plan) -> bool:
        try:
            run(candidate, scenario, store=store)
        except Failed:
            return True
        return False

    small = shrunk(scenario.plan(seed), fails)
    try:
        run(small, scenario, tracing=True, store=store)
    except Failed as failed:
        return str(failed)
    return f"seed {seed} does not fail"


def run_seeds(start: int, seeds: int, scenario: Scenario = TABLES, store: str = "fake") -> Counter[str]:
    """Every invariant holds at every step of every seed; a failure is shown as a small trace.
    Returns the rare events that the runs met."""
    seen: Counter[str] = Counter()
    with on_one_cpu():
        for seed in range(start, start + seeds):
            try:
                seen += run(scenario.plan(seed), scenario, store=store).seen
            except Failed:
                pytest.fail(explain(seed, scenario, store), pytrace=False)
    return seen


def first_failure(
    plant: Callable[[], Any], seeds: int, scenario: Scenario = TABLES, *, likely: int = 0, store: str = "fake"
) -> Failed | None:
    """The first seed that finds the planted mistake; ``likely`` is tried before the others, because
    it once did.

    Raises:
        TypeError: the planted mistake does not fit the product any more, so that it fails by itself
            and breaks no invariant.
    """
    misfit: Failed | None = None
    with plant(), on_one_cpu():
        for seed in (likely, *range(seeds)):
            try:
                run(scenario.plan(seed), scenario, store=store)
            except Failed as failed:
                if isinstance(failed.cause, Violation):
                    return failed
                misfit = failed
    if misfit is not None:
        raise TypeError(f"what is planted does not fit the product: {misfit.cause}") from misfit
    return None
