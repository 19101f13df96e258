"""The scenario of light work: a table whose files are replaced and published, two workers that
write its checkpoints, and an auditor of each checkpoint (I15)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

from msgspec.structs import replace

from tests.simulation.actors.catalog import TABLE, create, prepare
from tests.simulation.actors.light_work import Judge, Replacer, Worker, finish
from tests.simulation.engine.plans import Plan
from tests.simulation.engine.state import State
from tests.simulation.mistakes.tables import swapped
from tests.simulation.scenarios.scenario import Actor
from tests.simulation.scenarios.tables import Tables
from turnstile.delta.core.head import TableHead
from turnstile.delta.soundness.checkpoints import SIDECARS
from turnstile.maintenance.core import due, upkeep
from turnstile.maintenance.core.upkeep import Upkeep
from turnstile.maintenance.file_actions import Columns, Rows, Tally
from turnstile.maintenance.state import TableState
from turnstile.store.core.names import LOG, published_path


class LightWork(Tables):
    """Checkpoints of a table that changes (I15)."""

    name = "light-work"

    def plan(self, seed: int) -> Plan:
        """Replacers, and publishers."""
        rng = random.Random(seed)
        others = tuple(name for name in ("pump-1", "gc", "catalog-1") if rng.random() < 0.5)
        kinds = ("before", "lost", "late", "throttle", "crash", "crash after", "stall")
        return Plan(
            seed=seed,
            actors=("inline-1", "inline-2", *others, "sweeper"),
            faults=tuple(kind for kind in kinds if rng.random() < 0.6),
            rate=rng.choice((0.02, 0.08, 0.2)),
            steps=500,
            row_tracking=False,
            keep=rng.choice((0, 1)),
        )

    @contextmanager
    def _small(self, plan: Plan) -> Iterator[None]:
        rng = random.Random(f"{plan.seed}/light work")
        interval = rng.choice((1, 2, 3, 9))
        v2 = rng.random() < 0.3

        def asked(read: Callable[..., Upkeep]) -> Callable[..., Upkeep]:
            return lambda *given: replace(read(*given), v2=v2)

        with ExitStack() as stack:
            stack.enter_context(super().limits(plan))
            stack.enter_context(patch.object(upkeep, "INTERVAL", interval))
            stack.enter_context(patch.object(due, "COMPACTED", 3))
            stack.enter_context(patch.object(due, "STEP_BYTES", rng.choice((1, 1_500, 10**9))))
            stack.enter_context(swapped("turnstile.maintenance.work.upkeep_of", asked))
            yield

    def limits(self, plan: Plan) -> AbstractContextManager[Any]:
        """As of tables; and checkpoints of few versions."""
        return self._small(plan)

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """As of tables, with other writers; and two workers."""
        prepare(state)
        table = create(state, TABLE)
        head = TableHead.from_row(state.refs.rows[state.space.table(table)])
        zero = state.storages.open(head.location).read(published_path(0))
        assert zero is not None
        Judge(state, zero[0])
        for number, name in enumerate(plan.actors):
            if name.startswith("inline-"):
                rng = random.Random(f"{plan.seed}/{name}/{number}")
                yield Actor(name, Replacer(state, name, table, plan, rng), leads=True)
            else:
                yield self._actor(state, name, table, number, plan)
        for number in (1, 2):
            name = f"worker-{number}"
            self._worker = Worker(state, name, table, random.Random(f"{plan.seed}/{name}"))
            yield Actor(name, self._worker)

    def settle(self, state: State, plan: Plan) -> None:
        """As of tables; then due work is done."""
        super().settle(state, plan)
        finish(state, self._worker)


def _floor_is_latest() -> Any:
    """Every published version counts, also beyond the floor."""

    def wrong(read: Callable[..., TableHead]) -> Callable[..., TableHead]:
        return lambda *given: replace(head := read(*given), floor=head.latest)

    return swapped("turnstile.maintenance.work.read_head", wrong)


def _never_seen() -> Any:
    """No key is known again."""
    count = iter(range(10**9))
    return swapped("turnstile.maintenance.state.file_key", lambda _: lambda *_: next(count).to_bytes(16, "big"))


def _oldest_first() -> Any:
    """Of each key the oldest action since the checkpoint counts."""

    def chunks(self: TableState) -> Iterator[Rows | Columns]:
        seen: dict[bytes, int] = {}
        for version in range(self.start + 1, self.version + 1):
            yield from self._of_commit(version, seen)
        for name in self._checkpoint:
            yield from self._of_checkpoint(f"{LOG}{name}", seen, Tally())
        for name in self._sidecars:
            yield from self._of_checkpoint(f"{SIDECARS}{name}", seen, Tally())

    return patch.object(TableState, "chunks", chunks)


def _paths_only_once() -> Any:
    """A log compaction file has each commit's first action only."""
    return swapped(
        "turnstile.maintenance.compaction.actions_of_line", lambda real: lambda *given: (*real(*given)[:1], None)
    )


def _all_counted() -> Any:
    """A checksum counts tombstones, too."""
    return swapped(
        "turnstile.maintenance.checkpoint.checksum_of",
        lambda real: lambda *given, totals, **more: real(*given, totals=replace(totals, adds=totals.adds + 1), **more),
    )


LIGHT_WORK_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "light work: the floor is the latest version": (_floor_is_latest, "I15"),
    "light work: no key is known again": (_never_seen, "I15"),
    "light work: the oldest action counts": (_oldest_first, "I15"),
    "light work: a compaction forgets what was removed": (_paths_only_once, "I15"),
    "light work: a checksum counts a file too many": (_all_counted, "I15"),
}
"""The planted mistake, and the invariant that it breaks."""
