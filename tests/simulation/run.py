"""One run: a world, actors and faults, all drawn from one seed; then the faults stop and the invariants must hold."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace

from tests.simulation.auditor import Violation
from tests.simulation.catalog_actors import TABLE, CatalogUser, create, prepare
from tests.simulation.faults import KINDS as FAULTS
from tests.simulation.faults import Faults
from tests.simulation.others import Engine, Gc, Reader, StreamPump, Sweeps, sweep
from tests.simulation.ports import Process
from tests.simulation.scheduler import Scheduler
from tests.simulation.state import State
from tests.simulation.writers import KINDS, Writer

START = 1_770_000_000_000


ALONE = {"pump": StreamPump, "sweeper": Sweeps, "gc": Gc, "catalog": CatalogUser}


@dataclass(frozen=True)
class Plan:
    """What happens in a run; drawn from the seed, reduced by the shrinker."""

    seed: int
    actors: tuple[str, ...]
    faults: tuple[str, ...]
    rate: float
    steps: int
    row_tracking: bool
    skip: frozenset[int] = frozenset()
    transactions: int = 4

    def __str__(self) -> str:
        told = f"seed {self.seed}, {self.steps} steps, actors {', '.join(self.actors)}"
        return told + f", faults {', '.join(self.faults) or 'none'} at {self.rate}, without {sorted(self.skip)}"


def plan(seed: int) -> Plan:
    """The plan of a seed."""
    rng = random.Random(seed)
    writers = [f"{rng.choice(KINDS)}-{number}" for number in range(rng.randint(2, 4))]
    rest = [name for name, chance in (("reader", 0.5), ("engine", 0.4), ("pump-2", 0.5), ("gc", 0.6), ("catalog-1", 0.25), ("catalog-2", 0.15)) if rng.random() < chance]
    faults = tuple(kind for kind in FAULTS if rng.random() < 0.6)
    return Plan(
        seed=seed,
        actors=(*writers, "pump-1", "sweeper", *rest),
        faults=faults,
        rate=rng.choice((0.0, 0.02, 0.08, 0.2)),
        steps=rng.choice((60, 150, 300)),
        row_tracking=rng.random() < 0.4,
    )


class Failed(AssertionError):
    """An invariant broke; carries the plan and the trace."""

    def __init__(self, plan: Plan, trace: list[str], cause: BaseException) -> None:
        super().__init__(f"{cause}\n{plan}\n" + "\n".join(trace[-60:]))
        self.plan, self.trace, self.cause = plan, trace, cause


@dataclass(frozen=True)
class Ran:
    """Figures of a run."""

    steps: int
    ratified: int
    faults: int
    published: int
    seen: Counter[str]


def actor(state: State, name: str, table: str, number: int, plan: Plan):  # type: ignore[no-untyped-def]
    """The body of an actor."""
    rng = random.Random(f"{plan.seed}/{name}/{number}")
    kind = name.split("-")[0]
    if kind in KINDS:
        return Writer(state, name, kind, table, plan.transactions, rng)
    if kind in ALONE:
        return ALONE[kind](state, name, rng)
    return {"reader": Reader, "engine": Engine}[kind](state, name, table, rng)


def run(plan: Plan, *, tracing: bool = False) -> Ran:
    """Carry out a plan.

    Raises:
        Failed: an invariant does not hold.
    """
    scheduler = Scheduler(random.Random(f"{plan.seed}/order"), START, plan.steps, tracing=tracing)
    faults = Faults(random.Random(f"{plan.seed}/faults"), plan.rate, plan.faults, plan.skip)
    state = State(scheduler, faults)
    prepare(state)
    table = create(state, TABLE, *(["rowTracking"] if plan.row_tracking else []))
    for number, name in enumerate(plan.actors):
        body = actor(state, name, table, number, plan)
        scheduler.add(name, body, leads=isinstance(body, Writer))
    try:
        scheduler.run()
        _settle(state, plan)
    except Exception as cause:
        raise Failed(plan, scheduler.trace, cause) from cause
    histories = state.auditor.tables.values()
    return Ran(
        scheduler.steps,
        sum(len(history.facts) for history in histories),
        len(faults.drawn),
        sum(len(history.published_at) for history in histories),
        state.auditor.seen + Counter(f"fault {kind}" for _, kind in faults.drawn),
    )


def _settle(state: State, plan: Plan) -> None:
    """Faults stop; what is on its way arrives; the sweeper has two turns. Then everything is published (I11)."""
    state.deliver(everything=True)
    after = Scheduler(random.Random(plan.seed), state.scheduler.now, 10**9, tracing=state.scheduler.tracing)
    after.trace = state.scheduler.trace
    state.scheduler, state.faults.on = after, False
    process = Process(state, "at rest", prone=False)
    after.add("at rest", lambda: [sweep(state, process) for _ in range(2)])
    after.run()
    state.auditor.at_rest()


def shrunk(plan: Plan, fails, budget: int = 400) -> Plan:  # type: ignore[no-untyped-def]
    """A smaller plan that still fails: fewer actors, faults and steps, greedily."""
    tried = 0
    smaller = True
    while smaller and tried < budget:
        smaller = False
        for candidate in _smaller(plan):
            tried += 1
            if tried >= budget:
                break
            if fails(candidate):
                plan, smaller = candidate, True
                break
    return plan


def _smaller(plan: Plan):  # type: ignore[no-untyped-def]
    for name in plan.actors:
        yield replace(plan, actors=tuple(one for one in plan.actors if one != name))
    for kind in plan.faults:
        yield replace(plan, faults=tuple(one for one in plan.faults if one != kind))
    for steps in (plan.steps // 2, plan.steps * 3 // 4, plan.steps - 10, plan.steps - 1):
        if 0 < steps < plan.steps:
            yield replace(plan, steps=steps)
    if plan.transactions > 1:
        yield replace(plan, transactions=plan.transactions - 1)
    for number in range(1, 40):
        if number not in plan.skip and plan.faults:
            yield replace(plan, skip=plan.skip | {number})


def explain(seed: int) -> str:
    """Run a failing seed again, smaller, and tell what happened."""

    def fails(candidate: Plan) -> bool:
        try:
            run(candidate)
        except Failed:
            return True
        return False

    small = shrunk(plan(seed), fails)
    try:
        run(small, tracing=True)
    except Failed as failed:
        return str(failed)
    return f"seed {seed} does not fail"


__all__ = ["Failed", "Plan", "Ran", "Violation", "explain", "plan", "run"]
