"""The scenario of tables: writers commit to one of them while other actors publish, read, collect
and rename it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.actors.catalog import TABLE, CatalogUser, create, prepare
from tests.simulation.actors.maintenance import Engine, Gc, Reader, StreamPump, Sweeps, sweep
from tests.simulation.actors.writers import Crew, Reuser, Writer
from tests.simulation.auditors.catalogs import HISTORY
from tests.simulation.engine.plans import KINDS, RESENT, WRITERS, Plan, plan
from tests.simulation.engine.ports import Process
from tests.simulation.engine.state import State
from tests.simulation.mistakes.tables import swapped, without
from tests.simulation.scenarios.scenario import Actor
from turnstile.delta.core.writes import ratify as floor
from turnstile.delta.ratify import WaitingCommit
from turnstile.gc.core import Grace
from turnstile.store.core.errors import OutcomeUnknown, Throttled
from turnstile.store.core.names import staged_path

ALONE = {"pump": StreamPump, "sweeper": Sweeps, "gc": Gc, "catalog": CatalogUser}


class Tables:
    """One table and its HEAD (I1 to I7, I9 to I11)."""

    name = "tables"
    grace = Grace(history_ms=HISTORY)

    def plan(self, seed: int) -> Plan:
        """As ``plans`` draws it."""
        return plan(seed)

    def limits(self, plan: Plan) -> AbstractContextManager[Any]:
        """How many published entries stay in a tail."""
        return patch.object(floor, "KEEP_PUBLISHED", plan.keep)

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """A catalog with one table, and its actors."""
        prepare(state)
        table = create(state, TABLE, *(["rowTracking"] if plan.row_tracking else []))
        for number, name in enumerate(plan.actors):
            yield self._actor(state, name, table, number, plan)

    def settle(self, state: State, plan: Plan) -> None:
        """The sweeper has two turns. Then everything is published (I11)."""
        process = Process(state, "at rest", prone=False)
        for _ in range(2):
            sweep(state, process)
        state.auditor.at_rest()

    def _actor(self, state: State, name: str, table: str, number: int, plan: Plan) -> Actor:
        rng = random.Random(f"{plan.seed}/{name}/{number}")
        kind = name.split("-", maxsplit=1)[0]
        if kind in WRITERS:
            return Actor(name, Writer(state, name, table, plan, rng), leads=True)
        if kind == "crew":
            return Actor(name, Crew(state, name, table, plan, rng), leads=True)
        if kind == "reuser":
            return Actor(name, Reuser(state, name, table, plan, rng), leads=True)
        if kind in ALONE:
            return Actor(name, ALONE[kind](state, name, rng, slow=plan.slow))
        return Actor(name, {"reader": Reader, "engine": Engine}[kind](state, name, table, rng))


class LateCopies(Tables):
    """One table as in ``tables``; a few writers, most of them with tickets, which any version
    serves; and an actor that makes room now and then."""

    name = "late-copies"

    def plan(self, seed: int) -> Plan:
        """Few other faults: the scenario is about two copies of a write."""
        rng = random.Random(seed)
        writers = tuple(
            f"{kind}-{number}" for number, kind in enumerate(rng.choices(("ticket", "ticket", "inline", "staged"), k=3))
        )
        return Plan(
            seed=seed,
            actors=("ticket-9", *writers, "sweeper"),
            faults=(RESENT, RESENT, "throttle"),
            rate=rng.choice((0.1, 0.2, 0.3)),
            steps=200,
            row_tracking=False,
            keep=rng.choice((0, 1)),
        )


class Shared(Tables):
    """One table as in ``tables``; most commits wait in a process and share writes (I23)."""

    name = "shared-commits"

    def plan(self, seed: int) -> Plan:
        """One to three processes with commits that wait, now and then a writer beside them."""
        rng = random.Random(f"shared/{seed}")
        crowded = rng.random() < 0.3
        crews = tuple(f"crew-{number}" for number in range(rng.choice((1, 2, 2, 3))))
        others = tuple(
            name for name in ("inline-8", "ticket-9", "gc", "reader", "engine", "catalog") if rng.random() < 0.25
        )
        return Plan(
            seed=seed,
            actors=(*crews, *others, "pump", "sweeper"),
            faults=(RESENT, RESENT, "throttle")
            if crowded
            else tuple(kind for kind in (*KINDS, RESENT) if rng.random() < 0.5),
            rate=rng.choice((0.1, 0.2, 0.3) if crowded else (0.0, 0.02, 0.08, 0.2)),
            steps=rng.choice((150, 300)),
            row_tracking=rng.random() < 0.4,
            keep=rng.choice((0, 1, 3)),
            slow=rng.random() < 0.2,
        )


class ReusedStagedFiles(Tables):
    """One table as in ``tables``, written slowly by engines that use files again which were
    refused, while gc removes staged files."""

    name = "reused-staged-files"

    def plan(self, seed: int) -> Plan:
        """Two or three such engines, now and then another writer; gc and a publisher always, and
        readers."""
        rng = random.Random(seed)
        reusers = tuple(f"reuser-{number}" for number in range(rng.choice((2, 2, 3))))
        others = tuple(name for name in ("inline-8", "staged-9", "pump-1", "reader", "engine") if rng.random() < 0.2)
        return Plan(
            seed=seed,
            actors=(*reusers, *others, "sweeper", "gc"),
            faults=tuple(kind for kind in ("stall", "stall", "lost", "crash", "before") if rng.random() < 0.6),
            rate=rng.choice((0.02, 0.08, 0.2)),
            steps=300,
            row_tracking=False,
            keep=rng.choice((0, 1)),
            slow=True,
        )


def _any_name_at_any_version() -> Any:
    """A staged file is ratified as any proposed version."""
    return swapped("turnstile.delta.prepare.name_below", lambda _: lambda request: None)


@contextmanager
def _removal_looks_at_the_floor_alone() -> Iterator[None]:
    """As before issue 14: any name at any version, and a removal that does not look at the tail
    again."""

    def removes(self: Any, head: Any, storage: Any, items: Any) -> None:
        self._context.delete_files(storage, [staged_path(item.id.split("/", 1)[1]) for item in items])

    with (
        _any_name_at_any_version(),
        patch("turnstile.gc.kinds.staged.StagedFileScanner._remove", removes),
    ):
        yield


_SHARED: Final = "turnstile.delta.core.writes.shared._shared_change"


def _nothing_is_unknown() -> Any:
    """Whoever's group got no answer is told that nothing was applied."""

    def wrong(fail: Callable[..., Any]) -> Callable[..., Any]:
        def failed(self: WaitingCommit, error: Any) -> None:
            fail(self, Throttled("no answer") if isinstance(error, OutcomeUnknown) else error)

        return failed

    return patch.object(WaitingCommit, "fail", wrong(WaitingCommit.fail))


def _a_lost_answer_is_a_refusal() -> Any:
    """A lost write is decided again, and answered by the row."""
    return patch.object(WaitingCommit, "lost", property(lambda self: False, lambda self, value: None), create=True)


SHARED_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "shared: without 'next'": (without(_SHARED, "next", "same timestamp", "same rows"), "I1"),
    "shared: without 'new identity'": (without(_SHARED, "next", "same timestamp", "new identity", "remembered"), "I3"),
    "shared: without 'active'": (without(_SHARED, "active"), "I10"),
    "shared: nothing is unknown": (_nothing_is_unknown, "I3"),
    "shared: without 'same metadata' and 'same epoch'": (
        without(_SHARED, "next", "same timestamp", "same rows", "same metadata", "same epoch"),
        "I2",
    ),
    "shared: a lost answer is a refusal": (_a_lost_answer_is_a_refusal, "I3"),
}
"""The planted mistake, and the invariant that it breaks."""


REUSED_FILE_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "staged: any name at any version": (_any_name_at_any_version, "I10"),
    "staged: a removal that looks at no tail": (_removal_looks_at_the_floor_alone, "I10"),
}
"""The planted mistake, and the invariant that it breaks."""


LATE_COPY_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "uncertain forgotten": (
        lambda: swapped("tests.simulation.engine.ports._uncertain", lambda _: lambda answer: answer),
        "I3",
    ),
    "every refusal is final": (
        lambda: swapped("turnstile.delta.ratify.excludes_earlier", lambda _: lambda answer, is_named: True),
        "I3",
    ),
}
"""The planted mistake, and the invariant that it breaks."""
