"""The scenario of upgrades: as ``tables``, with two tables, of which newer code takes one further
now and then while all that is simulated is older code, which must leave that row alone (I22)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from tests.simulation.actors.catalog import create, prepare
from tests.simulation.auditors.record import Violation
from tests.simulation.engine.plans import SECOND, Plan
from tests.simulation.engine.state import State
from tests.simulation.mistakes.tables import swapped
from tests.simulation.scenarios.scenario import Actor
from tests.simulation.scenarios.tables import Tables
from turnstile.store.core.errors import NewerFormat
from turnstile.store.core.rows import format_of
from turnstile.store.core.writes import KNOWN


class Newer:
    """The newer release: raises the format of a HEAD and adds something to it, a few times in a
    run; later the code that is simulated knows that format, as if it had been upgraded as well."""

    def __init__(self, state: State, tables: list[str], rng: random.Random) -> None:
        self._state = state
        self._tables = tables
        self._rng = rng
        self.raised: dict[str, dict[str, Any]] = {}  # by key: the rows that only newer code may change

    def __call__(self) -> None:
        for _ in range(self._rng.choice((2, 5, 12))):
            self._state.scheduler.sleep(self._rng.choice((50, 300, 2 * SECOND)))
            key = self._state.row(self._rng.choice(self._tables))["key"]
            if key in self.raised:
                self.known(key)
            else:
                self._raise(key)

    def _raise(self, key: str) -> None:
        rows = self._state.refs.rows
        self.raised[key] = rows[key] = rows[key] | {"format": KNOWN + 1, "added": "by newer code"}
        self._state.auditor.seen["a format was raised"] += 1

    def known(self, key: str) -> None:
        """All code knows the format now: it is no obstacle any more, and added members are still
        there."""
        row = self._state.refs.rows[key]
        if row != self.raised.pop(key):
            raise Violation("I22", f"older code has changed a row of a newer format: {row}")
        self._state.refs.rows[key] = {name: value for name, value in row.items() if name != "format"}

    def changed(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        """Watches the changes of the older code."""
        if before is not None and format_of(before) > KNOWN:
            raise Violation("I22", f"older code has changed a row of a newer format to {after}")
        if before is not None and after is not None and before.get("added") != after.get("added"):
            raise Violation("I22", f"older code has dropped what newer code added: {after}")


class Upgrades(Tables):
    """Two tables, and an actor that raises the formats of their HEADs."""

    name = "upgrades"

    def plan(self, seed: int) -> Plan:
        """As of ``tables``, with an actor that raises formats and without the one that renames the
        table."""
        drawn = super().plan(seed)
        actors = [name for name in drawn.actors if not name.startswith(("catalog", "gc"))]
        return replace(drawn, actors=(*actors, *(() if "sweeper" in actors else ("sweeper",))))

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """A catalog with two tables; every second writer works on the other one."""
        prepare(state)
        features = ["rowTracking"] if plan.row_tracking else []
        tables = [create(state, f"t{number}", *features) for number in range(2)]
        self._newer = Newer(state, tables, random.Random(f"{plan.seed}/newer"))
        state.watchers.setdefault("table", []).append(self._newer.changed)
        yield Actor("newer", self._newer)
        for number, name in enumerate(plan.actors):
            yield self._noting(state, self._actor(state, name, tables[number % 2], number, plan))

    def settle(self, state: State, plan: Plan) -> None:
        """Everything is upgraded, and goes on."""
        for key in list(self._newer.raised):
            self._newer.known(key)
        super().settle(state, plan)

    def _noting(self, state: State, actor: Actor) -> Actor:
        def body() -> Any:
            try:
                return actor.body()
            except NewerFormat:  # of who gives up at the first refusal: a reader, an engine
                state.auditor.seen["an actor gave up"] += 1
                return None

        return replace(actor, body=body)


def _writes_without_the_format() -> Any:
    return swapped("turnstile.store.core.evaluate.clauses_of", lambda _: lambda write: write.clauses)


def _commits_without_the_format() -> Any:
    """Commits alone do not look at the format: a process that knows the table sends them without
    reading its HEAD."""

    def own(clauses_of: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def blind(write: Any) -> Any:
            is_commit = any(clause.name == "new identity" for clause in write.clauses)
            return write.clauses if is_commit else clauses_of(write)

        return blind

    return swapped("turnstile.store.core.evaluate.clauses_of", own)


UPGRADE_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "format: no write looks at it": (_writes_without_the_format, "I22"),
    "format: commits do not look at it": (_commits_without_the_format, "I22"),
}
"""The planted mistake, and the invariant that it breaks."""
