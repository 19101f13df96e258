"""The scenario of file indexes: a table whose files are replaced and published, workers that keep
its index up, and readers that plan scans of its versions and compare them with the ratified commits
(I16).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, Final
from unittest.mock import patch

from pyarrow import compute

from tests.simulation.actors.catalog import TABLE, create, prepare
from tests.simulation.actors.light_work import Replacer, Worker, finish, model
from tests.simulation.auditors.record import Violation
from tests.simulation.engine.plans import Plan
from tests.simulation.engine.ports import Process
from tests.simulation.engine.processes import world_of
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from tests.simulation.mistakes.tables import swapped
from tests.simulation.scenarios.light_work import LightWork
from tests.simulation.scenarios.scenario import Actor
from turnstile.delta.commits import read_head
from turnstile.delta.core.head import TableHead
from turnstile.maintenance.work import Maintainer
from turnstile.planning.changes import Changes
from turnstile.planning.core.roots import Sizes
from turnstile.planning.index import _Drain
from turnstile.planning.leaves import Leaf
from turnstile.planning.planner import Planner
from turnstile.planning.upkeep import IndexUpkeep
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.names import published_path

SMALL: Final = Sizes(every=1, leaf_rows=3, run_rows=6, deltas=2, pending=2, rewrites=1, readers=1)


class Keeper(Worker):
    """Light work with an index."""

    def work(self, process: Process) -> None:
        """One call."""
        world = world_of(process)
        done = Maintainer(world, following=(IndexUpkeep(world, sizes=SMALL),)).maintain(self._table)
        self._state.auditor.seen[f"index {done.outcome}"] += 1


class Reader(Worker):
    """Plans of a version, again and again, by a process that remembers leaves."""

    def __init__(self, state: State, name: str, table_id: str, rng: random.Random, zero: bytes) -> None:
        super().__init__(state, name, table_id, rng)
        self._zero = zero

    def work(self, process: Process) -> None:
        """Several plans."""
        world = world_of(process)
        planner = Planner(world, readers=1)
        for _ in range(3):
            self.plan(planner, read_head(world, self._table))

    def plan(self, planner: Planner, head: TableHead) -> None:
        """One plan. Raises Violation for one that differs from the ratified commits."""
        version = self._rng.choice((head.latest, head.latest, self._rng.randint(0, head.latest)))
        plan = planner.plan(head, version=version)
        history = self._state.auditor.tables[self._table]
        expected = model([self._zero, *(history.facts[at].content for at in range(history.first, version + 1))])[0]
        planned = {file.path: file.records for file in plan.files}
        if plan.version != version or len(plan.files) != len(planned) or planned != expected:
            raise Violation("I16", f"the plan of version {version} has {planned} instead of {expected}")
        self._state.auditor.seen["planned by index" if plan.statistics.index_version >= 0 else "planned by log"] += 1


class FileIndex(LightWork):
    """Plans of a table that changes (I16)."""

    name = "file-index"

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """As of light work; its workers keep the index up, and two readers ask."""
        prepare(state)
        table = create(state, TABLE)
        head = TableHead.from_row(state.refs.rows[state.space.table(table)])
        zero = state.storages.open(head.location).read(published_path(0))
        assert zero is not None
        for number, name in enumerate(plan.actors):
            if name.startswith("inline-"):
                rng = random.Random(f"{plan.seed}/{name}/{number}")
                yield Actor(name, Replacer(state, name, table, plan, rng), leads=True)
            else:
                yield self._actor(state, name, table, number, plan)
        for number in (1, 2):
            self._worker = Keeper(state, f"keeper-{number}", table, random.Random(f"{plan.seed}/keeper-{number}"))
            yield Actor(f"keeper-{number}", self._worker)
            rng = random.Random(f"{plan.seed}/reader-{number}")
            self._reader = Reader(state, f"reader-{number}", table, rng, zero[0])
            yield Actor(f"reader-{number}", self._reader)

    def settle(self, state: State, plan: Plan) -> None:
        """As of tables; then the index is brought up, and every version is planned."""
        super().settle(state, plan)
        finish(state, self._worker)
        try:
            self._reader.work(Process(state, "at rest", prone=False))
        except (Crashed, TurnstileError):  # the table is gone
            return


def _nothing_overrides() -> Any:
    """Rows that were removed since stay."""
    return patch.object(Leaf, "alive", lambda self, *_: compute.invert(self.table["removed"]).combine_chunks())


def _no_tail() -> Any:
    """Commits after the index are not applied."""
    return swapped("turnstile.planning.planner.changes_of", lambda _: lambda *_: Changes({}))


def _one_behind() -> Any:
    """An index is brought forward without the last commit."""
    return swapped(
        "turnstile.planning.index.changes_of",
        lambda real: lambda world, head, first, last, readers: real(world, head, first, last - 1, readers),
    )


def _removals_forgotten() -> Any:
    """Removed files of a leaf that is not rewritten are forgotten."""
    waiting = _Drain._waiting
    return patch.object(_Drain, "_waiting", lambda self, rows, _: waiting(self, rows, set()))


FILE_INDEX_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "index: nothing overrides a leaf": (_nothing_overrides, "I16"),
    "index: the tail is not applied": (_no_tail, "I16"),
    "index: one version behind what it says": (_one_behind, "I16"),
    "index: removals are forgotten": (_removals_forgotten, "I16"),
}
"""The planted mistake, and the invariant that it breaks."""
