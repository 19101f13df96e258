"""The scenario of transactions over tables: groups of commits, single commits, cuts, and all
publishers and collectors."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.actors.catalog import create, prepare
from tests.simulation.actors.groups import CutReader, GroupWriter, JournalWriter, JudgedWriter, Recoverer, value_of
from tests.simulation.actors.maintenance import Engine, Gc, Reader, StreamPump, Sweeps
from tests.simulation.actors.mixed import MixedWriter
from tests.simulation.actors.writers import Writer
from tests.simulation.auditors.groups import GroupAuditor
from tests.simulation.engine.plans import KINDS, RESENT, WRITERS, Plan
from tests.simulation.engine.ports import SimRefs
from tests.simulation.engine.state import State
from tests.simulation.mistakes.tables import swapped, without
from tests.simulation.scenarios.scenario import Actor
from tests.simulation.scenarios.tables import Tables
from turnstile.catalog.changes.composed import Composition
from turnstile.delta.transactions.journal import Journal
from turnstile.store.core.writes import Append, Change, Check
from turnstile.store.ports import TRANSACT_MAX, AllAccepted, Rejected, SomeRejected

OTHERS: Final = {"pump": 0.8, "sweeper": 0.8, "reader": 0.3, "engine": 0.3, "gc": 0.5, "cut-1": 0.9, "cut-2": 0.4}
"""All actors except writers, and how often they take part."""

ALONE: Final = {"pump": StreamPump, "sweeper": Sweeps, "gc": Gc}
"""Actors that work with all tables."""


GROUP_WRITERS: Final = {"group": GroupWriter, "journal": JournalWriter, "judged": JudgedWriter}


class Groups(Tables):
    """Three tables, and transactions over them, some of which change the catalog (I1 to I11)."""

    name = "groups"
    part = TRANSACT_MAX
    """Tables that one conditional write changes."""

    def plan(self, seed: int) -> Plan:
        """Two or three actors that commit groups, now and then one that commits to a table alone,
        or changes the catalog with commits. Every third seed is as ``crowded`` is: temporary
        refusals, and copies of a transaction that arrive after them. In every fourth transactions
        are announced.
        """
        rng = random.Random(f"groups/{seed}")
        if seed % 4 == 1:
            return self._announced(seed, rng)
        if seed % 3 == 2:
            return Plan(
                seed=seed,
                actors=("group-0", "group-1", "group-2", "cut-1", "sweeper"),
                faults=(RESENT, RESENT, "throttle"),
                rate=rng.choice((0.1, 0.2, 0.3)),
                steps=200,
                row_tracking=False,
                keep=rng.choice((0, 1)),
            )
        writers = [f"group-{number}" for number in range(rng.choice((2, 2, 3)))]
        singles = [f"{rng.choice(WRITERS)}-{number}" for number in range(7, 9) if rng.random() < 0.4]
        rest = [name for name, chance in OTHERS.items() if rng.random() < chance]
        mixed = [f"mixed-{number}" for number in range(3, 5) if rng.random() < 0.7]
        return Plan(
            seed=seed,
            actors=(*writers, *singles, *rest, *mixed),
            faults=tuple(kind for kind in KINDS if rng.random() < 0.5),
            rate=rng.choice((0.0, 0.02, 0.08, 0.2)),
            steps=rng.choice((100, 200, 400)),
            row_tracking=False,
            keep=rng.choice((0, 1, 3)),
            slow=rng.random() < 0.3,
        )

    @staticmethod
    def _announced(seed: int, rng: random.Random) -> Plan:
        """Clients that announce their transactions and die, and others that finish and undo
        them."""
        writers = [f"journal-{number}" for number in range(rng.choice((1, 2, 2)))]
        others = [name for name, chance in OTHERS.items() if rng.random() < chance]
        others += [f"recoverer-{number}" for number in range(rng.choice((1, 2)))]
        if rng.random() < 0.5:
            writers.append(f"{rng.choice(WRITERS)}-7")
        return Plan(
            seed=seed,
            actors=(*writers, *others),
            faults=tuple(kind for kind in KINDS if rng.random() < 0.5),
            rate=rng.choice((0.0, 0.02, 0.08, 0.2)),
            steps=rng.choice((150, 300, 500)),
            row_tracking=False,
            keep=rng.choice((0, 1, 3)),
            slow=rng.random() < 0.3,
        )

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """A catalog with three tables, and their actors."""
        prepare(state)
        tables = [create(state, name) for name in ("t", "u", "v")]
        auditor = GroupAuditor(state, value_of)
        for number, name in enumerate(plan.actors):
            rng = random.Random(f"{plan.seed}/{name}/{number}")
            kind = name.split("-", maxsplit=1)[0]
            if kind == "mixed":
                yield Actor(name, MixedWriter(state, name, tables, plan, rng=rng, auditor=auditor), leads=True)
            elif kind in GROUP_WRITERS:
                writer = GROUP_WRITERS[kind](state, name, tables, plan, rng=rng, auditor=auditor, part=self.part)
                yield Actor(name, writer, leads=True)
            elif kind == "recoverer":
                yield Actor(name, Recoverer(state, name, rng, auditor))
            elif kind in WRITERS:
                yield Actor(name, Writer(state, name, rng.choice(tables), plan, rng), leads=True)
            elif kind == "cut":
                yield Actor(name, CutReader(state, name, tables, rng, auditor))
            elif kind in ALONE:
                yield Actor(name, ALONE[kind](state, name, rng, slow=plan.slow))
            else:
                yield Actor(name, {"reader": Reader, "engine": Engine}[kind](state, name, rng.choice(tables), rng))


# -- planted mistakes -------------------------------------------------------------------------------------------------


def _one_after_the_other() -> Any:
    """The parts of a group are written one by one; the first that is refused ends it."""
    together = SimRefs.transact

    def transact(self: SimRefs, writes: Any, token: str) -> Any:
        if not all("/table/" in write.key for write in writes):  # a change of the catalog
            return together(self, writes, token)
        for position, write in enumerate(writes):
            if isinstance(write, Check):
                continue
            answer = self.write(write)
            if isinstance(answer, Rejected):
                return SomeRejected({position: answer.row}, answer.uncertain)
        return AllAccepted()

    return patch.object(SimRefs, "transact", transact)


def _reads_are_not_checked() -> Any:
    return swapped(
        "turnstile.delta.transactions.group_reads.unchanged_check",
        lambda _: lambda key, version, slack=0: Check(key, ()),
    )


def _every_refusal_is_final() -> Any:
    return swapped("turnstile.delta.transactions.groups.excludes_earlier", lambda _: lambda answer, is_named: True)


def _state_not_looked_at() -> Any:
    """A group is ratified without a look at its entry."""
    return without("turnstile.delta.transactions.journal.rows.commit_entry", "undecided")()


def _entry_left_out() -> Any:
    """A group is ratified without its entry, which is settled afterwards."""

    def wrong(commit: Any) -> Any:
        def alone(self: Journal, group: Any, obj: str) -> Any:
            return self._groups.commit(group)

        return alone

    return patch.object(Journal, "_commit", wrong(Journal._commit))


@contextmanager
def _cut_row_by_row() -> Iterator[None]:
    def cut(self: SimRefs, keys: Any) -> Any:
        rows = {key: self.read(key) for key in keys}
        return {key: row for key, row in rows.items() if row is not None}

    with patch.object(SimRefs, "read_cut", cut):
        yield


def _commits_apart_from_the_changes() -> Any:
    """A transaction's commits are written to the logs of tables after the catalog is changed."""
    together = SimRefs.transact

    def transact(self: SimRefs, writes: Any, token: str) -> Any:
        commits = [write for write in writes if _is_commit(write)]
        others = [write for write in writes if not _is_commit(write)]
        if not commits or not any("/catalog/" in write.key for write in others):
            return together(self, writes, token)
        answer = together(self, others, token)
        if isinstance(answer, AllAccepted):
            for write in commits:
                self.write(write)
        return answer

    return patch.object(SimRefs, "transact", transact)


def _is_commit(write: Any) -> bool:
    return isinstance(write, Change) and any(isinstance(action, Append) for action in write.actions)


def _transactions_are_forgotten() -> Any:
    """The row that remembers one is written under a key of its own each time."""
    numbers = count()
    return swapped(
        "turnstile.catalog.changes.idempotency.request_row",
        lambda build: lambda key, *args, **more: build(f"{key}-{next(numbers)}", *args, **more),
    )


def _changes_are_computed_once() -> Any:
    """An edit is kept when the catalog's HEAD has moved."""
    compute = Composition.apply

    def apply(self: Any, view: Any) -> Any:
        if not hasattr(self, "kept"):
            self.kept = compute(self, view)
        return self.kept

    return patch.object(Composition, "apply", apply)


GROUP_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "group: one part after the other": (_one_after_the_other, "I8"),
    "group: reads are not checked": (_reads_are_not_checked, "I8"),
    "group: slack has no bound": (
        without("turnstile.delta.transactions.group_reads.unchanged_check", "within slack"),
        "I8",
    ),
    "group: every refusal is final": (_every_refusal_is_final, "I3"),
    "journal: an aborted group is ratified": (_state_not_looked_at, "I3"),
    "journal: abort of what is committed": (
        without("turnstile.delta.transactions.journal.rows.abort_entry", "undecided"),
        "I3",
    ),
    "journal: a group without its entry": (_entry_left_out, "I8"),
    "cut: row by row": (_cut_row_by_row, "I8"),
    "transaction: commits apart from the changes": (_commits_apart_from_the_changes, "I8"),
    "transaction: forgotten": (_transactions_are_forgotten, "I3"),
    "transaction: changes are computed once": (_changes_are_computed_once, "I9"),
}
"""The planted mistake, and the invariant that it breaks."""
