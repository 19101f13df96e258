"""The scenario of vacuums: one table that is written, cloned, named in snapshots, held by readers
and brought back by resets, while vacuums remove unpinned files. The files of a version are not
simulated: a version that a vacuum does not leave is gone (I10).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.actors.catalog import TABLE, create, prepare
from tests.simulation.actors.catalog_history import (
    BUSY,
    CloneUser,
    Names,
    PastActor,
    PastSandbox,
    Resets,
    SnapshotUser,
    fill,
)
from tests.simulation.auditors.catalog_history import PastAuditor
from tests.simulation.auditors.catalogs import SeenHead
from tests.simulation.auditors.record import Violation, audits
from tests.simulation.engine.plans import HOUR, MINUTE, SECOND, Plan
from tests.simulation.engine.ports import Process
from tests.simulation.engine.processes import CATALOG, NAMESPACE
from tests.simulation.engine.state import State
from tests.simulation.mistakes.tables import swapped, without
from tests.simulation.scenarios.scenario import Actor
from tests.support.fakes import delta
from turnstile.catalog.core.location_rows import Location
from turnstile.catalog.history.core import ALL, AsOf, NamedSnapshot
from turnstile.delta.core.head import TableHead
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.ratify import Ratifier
from turnstile.gc.core import Grace
from turnstile.maintenance.core.pins import Marks
from turnstile.maintenance.holds import Holds
from turnstile.maintenance.pins import Pins

WEEK: Final = (MINUTE, 20 * MINUTE, HOUR, 2 * HOUR)


def holds_in(box: PastSandbox) -> Holds:
    history_ms = box.process.state.grace.history_ms
    return Holds(box.world, Pins(box.world, box.services.reader, box.services.metadata, history_ms=history_ms))


class PinAuditor:
    """Removed versions of the table, and the recorded or informed holders of versions."""

    def __init__(self, state: State, table_id: str) -> None:
        self._state = state
        self._id = table_id
        self._key = state.space.table(table_id)
        self.removed: set[int] = set()
        self._since: list[tuple[int, int]] = []  # version, when it became the latest by its timestamp
        state.watchers.setdefault("location", []).append(self._held)
        state.watchers.setdefault("table", []).append(self._ratified)
        state.trees.listeners.append(self._named)
        self._ratified(None, state.refs.rows[self._key])

    def remove(self, marks: Marks, latest: int) -> None:
        """A vacuum with these marks removes everything else."""
        gone = {version for version in range(latest) if not marks.readable(version)} - self.removed
        self._state.auditor.seen["vacuum" if gone else "vacuum of nothing"] += 1
        self.removed |= gone
        self.check()

    def check(self) -> None:
        """Every holder of a version still has it."""
        self._check_moments()
        self._check_location()
        self._named(self._state.trees.now[CATALOG], None)

    @audits
    def _check_moments(self) -> None:
        created = self._state.refs.rows[self._key]["created"]
        began = max(self._state.scheduler.now - self._state.grace.history_ms, created)
        for (version, _), (_, replaced) in zip(self._since, self._since[1:], strict=False):
            if replaced > began and version in self.removed:
                raise Violation("I10", f"version {version} was the latest until {replaced}, which is a kept moment")

    @audits
    def _ratified(self, _: Any, row: Any) -> None:
        if row is None or row["key"] != self._key:
            return
        if not self._since or row["latest"] > self._since[-1][0]:
            self._since.append((row["latest"], row["last_ict"]))

    def _held(self, _: Any, row: Any) -> None:
        if row is not None and row.get("table_id") == self._id:
            self._check_location()

    @audits
    def _check_location(self) -> None:
        rows = self._state.refs.rows
        now = self._state.scheduler.now
        row = next(
            (row for row in rows.values() if row["kind"] == "location" and row.get("table_id") == self._id), None
        )
        if row is None:
            return
        owner = Location.from_row(row)
        for clone in owner.clones:
            version = TableHead.from_row(rows[self._state.space.table(clone)]).latest
            if version in self.removed:
                raise Violation("I10", f"clone {clone} shows version {version}, which a vacuum removed")
        for reader in owner.readers:
            last = reader.last if reader.last >= 0 else self._since[-1][0]
            if now < reader.until and any(version in self.removed for version in range(reader.first, last + 1)):
                raise Violation("I10", f"{reader.holder} holds version {reader.first}, which a vacuum removed")

    @audits
    def _named(self, head: SeenHead, _: SeenHead | None) -> None:
        for key, entry in head.entries.items():
            if not ALL[0] <= key < ALL[1]:
                continue
            snapshot = self._state.trees.entity(head, entry.obj)
            if not isinstance(snapshot, NamedSnapshot):
                continue
            version = snapshot.versions.get(self._id)
            if version is None and not snapshot.versions:
                version = max((v for v, ict in self._since if ict <= snapshot.at // 1000), default=0)
            if version is not None and version in self.removed:
                raise Violation("I10", f"snapshot {snapshot.name} shows version {version}, which a vacuum removed")


class _OfTable(PastActor):
    table_id = ""
    pins: PinAuditor

    @property
    def latest(self) -> int:
        return int(self.state.refs.rows[self.state.space.table(self.table_id)]["latest"])


class Appender(_OfTable):
    """Appends, a few versions an hour."""

    times = 40

    def act(self) -> None:
        def append(box: PastSandbox) -> Any:
            version = self.latest + 1
            content = delta.append(f"{self.name}-{version}-{self.rng.random()}", box.world.clock.now_ms())
            return Ratifier(box.world).commit(CommitRequest(self.table_id, version, content=content))

        self.ask(append)


class Vacuums(_OfTable):
    """Announces, waits, and removes. It may die in between."""

    def act(self) -> None:
        retention = self.rng.choice((0, HOUR))
        plan = self.ask(lambda box: holds_in(box).announce(self.table_id, retention))
        self.state.scheduler.sleep(self.rng.choice((1, SECOND, 10 * MINUTE, HOUR)))
        if self.rng.random() < 0.9:
            self.pins.remove(plan.marks, plan.latest)


class Readers(_OfTable):
    """Registers for old and new versions, and releases them, several times in a row: while a vacuum
    reads its pins."""

    def act(self) -> None:
        for _ in range(8):
            self._one()
            self.state.scheduler.sleep(self.rng.choice((1, 10, 50)))

    def _one(self) -> None:
        holder = self.rng.choice(("a", "b"))
        if self.rng.random() < 0.3:
            self.ask(lambda box: holds_in(box).release(self.table_id, holder, self.name))
            return
        first = self.rng.randint(max(0, self.latest - 8), self.latest)
        last = self.rng.choice((None, first))
        ttl = self.rng.choice((MINUTE, HOUR, 20 * HOUR))
        self.ask(lambda box: holds_in(box).hold(self.table_id, holder, self.name, first=first, last=last, ttl_ms=ttl))
        self.met("held")


class TableClones(CloneUser):
    """Clones of the table alone, of now, of the past and of snapshots."""

    def act(self) -> None:
        if self.rng.random() < 0.4:
            self._drop(("none",))
            return
        before = self.state.scheduler.now - int(self.state.grace.history_ms * (1.4 + self.rng.random()))
        of = self.rng.choice((None, AsOf(time=self.ago), AsOf(time=before), AsOf(snapshot="spring")))
        self.ask(lambda box: box.cloner.clone(CATALOG, (*NAMESPACE, TABLE), (*NAMESPACE, "clone"), of))
        self.met("cloned the past" if of else "cloned")


OTHERS: Final[dict[str, type[PastActor]]] = {
    "snapshots": SnapshotUser, "clones": TableClones, "resets": Resets, "reader": Readers, "names": Names
}  # fmt: skip


class Vacuumed:
    """One table, and all holders of its versions."""

    name = "vacuums"
    grace = Grace(history_ms=3 * HOUR)
    names_pause: tuple[int, ...] = BUSY

    def plan(self, seed: int) -> Plan:
        rng = random.Random(f"vacuums/{seed}")
        others = [name for name in OTHERS if rng.random() < 0.7]
        kinds = ("before", "lost", "late", "throttle", "crash", "crash after", "stall")
        return Plan(
            seed=seed,
            actors=("appender-1", "vacuum-1", *(("vacuum-2",) if rng.random() < 0.5 else ()), *others),
            faults=tuple(kind for kind in kinds if rng.random() < 0.5),
            rate=rng.choice((0.0, 0.01, 0.05)),
            steps=rng.choice((200, 400)),
            row_tracking=False,
        )

    def limits(self, plan: Plan) -> AbstractContextManager[Any]:
        return nullcontext()

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        auditor = PastAuditor(state)
        auditor.patient = False  # readers and marks overtake each other without a change of the catalog
        prepare(state)
        table = create(state, TABLE)
        process = Process(state, "prepare", prone=False)
        process.free = True
        fill(PastSandbox(process))
        pins = self.auditor(state, table, plan)
        kinds = self.kinds()
        for number, name in enumerate(plan.actors):
            rng = random.Random(f"{plan.seed}/{name}/{number}")
            kind = name.split("-", maxsplit=1)[0]
            if kind not in kinds:
                yield self.other(state, name, table, rng)
                continue
            actor = kinds[kind](state, name, rng, auditor, self.names_pause if kind == "names" else WEEK)
            actor.grid = 20 * MINUTE  # so that they meet
            if isinstance(actor, _OfTable):
                actor.table_id = table
                actor.pins = pins
            yield Actor(name, actor, leads=kind == "appender")

    def auditor(self, state: State, table: str, plan: Plan) -> PinAuditor:
        """An auditor of removals."""
        return PinAuditor(state, table)

    def kinds(self) -> dict[str, type[PastActor]]:
        """The kinds of actors with a sandbox, by the names that they begin with."""
        return {"appender": Appender, "vacuum": Vacuums, **OTHERS}

    def other(self, state: State, name: str, table: str, rng: random.Random) -> Actor:
        """An actor of another kind."""
        raise KeyError(name)

    def settle(self, state: State, plan: Plan) -> None:
        """Nothing is due at the end."""


# -- what is planted ---------------------------------------------------------------------------------------------------


def forgets(method: str) -> Callable[[], Any]:
    """A kind of pins is forgotten."""
    return lambda: patch.object(Pins, method, lambda *_: iter(()))


VACUUM_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "pins: clones are forgotten": (forgets("_clones"), "I10"),
    "pins: moments are forgotten": (forgets("_moments"), "I10"),
    "pins: snapshots are forgotten": (
        lambda: swapped("turnstile.maintenance.pins.snapshots_with", lambda _: lambda *_: iter(())),
        "I10",
    ),
    "pins: readers are forgotten": (
        lambda: swapped("turnstile.maintenance.pins.live", lambda _: lambda *_: iter(())),
        "I10",
    ),
    "mark: without 'same marks'": (without("turnstile.maintenance.holds.mark", "same marks"), "I10"),
    "reader: without 'same marks'": (without("turnstile.maintenance.holds.set_readers", "same marks"), "I10"),
    "reader: holds what is gone": (
        lambda: swapped("turnstile.maintenance.core.pins.whole", lambda _: lambda *_: True),
        "I10",
    ),
    "clone: without 'same marks'": (without("turnstile.catalog.clone.cloner.hold", "same marks"), "I10"),
    "clone: shows what is gone": (
        lambda: swapped("turnstile.catalog.clone.cloner.check_readable", lambda _: lambda *_: None),
        "I10",
    ),
    "marks: become wider again": (
        lambda: swapped("turnstile.maintenance.holds.marks_in", lambda _: lambda *_: Marks()),
        "I10",
    ),
}
"""The planted mistake, and the invariant that it breaks. The clause ``same clones`` is not among
it: every version that may be cloned has another pin when the clone appears, as long as the row is
read after the tree; the clause holds without that thought.
"""
