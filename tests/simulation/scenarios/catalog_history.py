"""The scenario of catalogs with a past: changes, snapshots, resets, listings and gc, over half a
day."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Final
from unittest.mock import PropertyMock, patch

from tests.simulation.actors.catalog import TABLE, CatalogUser, create, prepare
from tests.simulation.actors.catalog_history import (
    BUSY,
    QUIET,
    CloneUser,
    Counter,
    IcebergUser,
    Janitor,
    Lister,
    Names,
    PastActor,
    PastSandbox,
    Resets,
    Side,
    SnapshotUser,
    TableNames,
    Traveller,
    fill,
)
from tests.simulation.actors.maintenance import sweep
from tests.simulation.actors.writers import Writer
from tests.simulation.auditors.catalog_history import CloneAuditor, PastAuditor
from tests.simulation.auditors.owners import TaskAuditor
from tests.simulation.engine.plans import HOUR, MINUTE, Plan
from tests.simulation.engine.plans import KINDS as FAULTS
from tests.simulation.engine.ports import Process
from tests.simulation.engine.state import State
from tests.simulation.scenarios.scenario import Actor
from turnstile.catalog.changes.retry import Backoff
from turnstile.catalog.core import rows as catalog_rows
from turnstile.gc.core import Grace

CHANGERS: Final[dict[str, type[PastActor]]] = {
    "names": Names,
    "counter": Counter,
    "iceberg": IcebergUser,
    "tables": TableNames,
}
USERS: Final[dict[str, type[PastActor]]] = {
    "snapshots": SnapshotUser,
    "resets": Resets,
    "lister": Lister,
    "traveller": Traveller,
    "side": Side,
    "clones": CloneUser,
}
OTHERS: Final = {
    "gc-1": 0.95,
    "gc-2": 0.5,
    "snapshots": 0.4,
    "resets": 0.5,
    "lister": 0.5,
    "traveller": 0.4,
    "side": 0.4,
    "clones": 0.3,
    "catalog-1": 0.4,
    "inline-1": 0.15,
}
"""All actors except the changers, and how often they take part."""
_KEEP: Final = (0, 2, 19)
"""How many HEADs before the present one a catalog's row remembers."""


def _hurried(init: Callable[..., None]) -> Callable[..., None]:
    """Changes give up after a few attempts, and after an answer that was lost."""
    return lambda self, *args, deadline_ms, **more: init(self, *args, deadline_ms=deadline_ms // 100, **more)


def begin(state: State) -> None:
    """Fills the catalog with names, the counter and the Iceberg tables, without faults."""
    process = Process(state, "prepare", prone=False)
    process.free = True
    fill(PastSandbox(process))


class CatalogHistory:
    """One catalog and its past (I8 to I10).

    Attributes:
        changers, users: actors by the first word of their names.
        busy, quiet: how long they pause.
        janitor: collects garbage; ``collects``: how long it pauses.
        times: how much changers do; None for as much as always.
        grid: as ``PastActor`` has it.
        tables_fit: as ``PastAuditor`` has it.
    """

    name = "catalog-history"
    grace = Grace(history_ms=3 * HOUR, dropped_ms=2 * HOUR, ended_ms=5 * HOUR)
    changers = CHANGERS
    users = USERS
    janitor = Janitor
    busy = BUSY
    quiet = QUIET
    collects: tuple[int, ...] = (5 * MINUTE, 20 * MINUTE, HOUR, 3 * HOUR)
    times: int | None = None
    grid = 0
    tables_fit = True

    def plan(self, seed: int) -> Plan:
        """Two or three changers, and some of the others."""
        rng = random.Random(f"pasts/{seed}")
        changers = [f"{rng.choice(list(CHANGERS))}-{number}" for number in range(rng.randint(2, 3))]
        rest = [name for name, chance in OTHERS.items() if rng.random() < chance]
        return Plan(
            seed=seed,
            actors=(*changers, *rest),
            faults=tuple(kind for kind in FAULTS if rng.random() < 0.6),
            rate=rng.choice((0.0, 0.01, 0.04, 0.1)),
            steps=rng.choice((200, 400, 800)),
            row_tracking=False,
            slow=rng.random() < 0.7,
            keep=rng.choice(_KEEP),
        )

    def limits(self, plan: Plan) -> AbstractContextManager[Any]:
        """How many HEADs a catalog's row remembers. Sometimes every change that lost asks to go
        first, sometimes changes have little time."""
        stack = ExitStack()
        stack.enter_context(patch.object(catalog_rows, "RECENT", plan.keep + 1))
        if plan.keep == _KEEP[0]:
            stack.enter_context(patch.object(Backoff, "starving", PropertyMock(return_value=True)))
        if plan.keep == _KEEP[1]:
            stack.enter_context(patch.object(Backoff, "__init__", _hurried(Backoff.__init__)))
        return stack

    def patient(self, plan: Plan) -> bool:
        """Whether changes have as much time as in earnest."""
        return plan.keep != _KEEP[1]

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """A catalog with names, a counter, a Delta table and two Iceberg tables."""
        auditor = PastAuditor(state)
        auditor.patient = self.patient(plan)
        auditor.tables_fit = self.tables_fit
        TaskAuditor(state)
        CloneAuditor(state, auditor)
        prepare(state)
        table = create(state, TABLE)
        begin(state)
        yield from self.planned(state, plan, auditor, table)

    def planned(self, state: State, plan: Plan, auditor: PastAuditor, table: str = "") -> Iterator[Actor]:
        """Yields the actors that the plan names; ``table``: the Delta table that writers commit
        to."""
        naps = self.quiet if plan.slow else self.busy
        for number, name in enumerate(plan.actors):
            rng = random.Random(f"{plan.seed}/{name}/{number}")
            kind = name.split("-", maxsplit=1)[0]
            if kind in self.changers:
                changer = self.changers[kind](state, name, rng, auditor, naps)
                changer.times = self.times or changer.times
                changer.grid = self.grid
                yield Actor(name, changer, leads=True)
            elif kind in self.users:
                user = self.users[kind](state, name, rng, auditor, naps)
                user.grid = self.grid
                yield Actor(name, user)
            elif kind == "gc":
                yield Actor(name, self.janitor(state, name, rng, self.collects))
            elif kind == "catalog":
                yield Actor(name, CatalogUser(state, name, rng, naps=naps))
            else:
                yield Actor(name, Writer(state, name, table, plan, rng))

    def settle(self, state: State, plan: Plan) -> None:
        """The sweeper has two turns; every kept HEAD is whole."""
        process = Process(state, "at rest", prone=False)
        for _ in range(2):
            sweep(state, process)
        state.auditor.at_rest()
        state.trees.at_rest()
