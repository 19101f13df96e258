"""The scenario of changes that share a swap of their catalog's HEAD: servers that lead groups,
freeze, die and lose answers, and writers that bypass them (I21)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.actors.catalog import prepare
from tests.simulation.actors.change_groups import Bypass, GroupServer
from tests.simulation.auditors.change_groups import ChangeAuditor
from tests.simulation.auditors.owners import OwnerAuditor
from tests.simulation.engine.plans import KINDS as FAULTS
from tests.simulation.engine.plans import RESENT, Plan
from tests.simulation.engine.state import State
from tests.simulation.mistakes.tables import swapped, without
from tests.simulation.scenarios.scenario import Actor
from turnstile.catalog.changes.attempts import CommitAttempts
from turnstile.catalog.core.grouping import Completion, Judgement, Swap
from turnstile.gc.core import Grace


class ChangeGroups:
    """Group commit of a catalog's changes (I9, I21)."""

    name = "change-groups"
    grace = Grace()
    beside = "bypass"
    """Name of the writers that bypass the servers."""
    fault_share = 0.6
    """How likely a plan has a kind of fault."""
    rates: Sequence[float] = (0.0, 0.02, 0.08, 0.2)

    def plan(self, seed: int) -> Plan:
        """One or two servers, and up to two writers that bypass them."""
        rng = random.Random(f"{self.name}/{seed}")
        return Plan(
            seed=seed,
            actors=(
                *(f"server-{n}" for n in range(rng.randint(1, 2))),
                *(f"{self.beside}-{n}" for n in range(rng.randint(0, 2))),
            ),
            faults=tuple(kind for kind in (*FAULTS, RESENT) if rng.random() < self.fault_share),
            rate=rng.choice(self.rates),
            steps=rng.choice((300, 600)),
            row_tracking=False,
            keep=rng.choice((1, 3, 20)),
        )

    def limits(self, plan: Plan) -> AbstractContextManager[Any]:
        """How many HEADs the catalog's row remembers."""
        return patch("turnstile.catalog.core.rows.RECENT", plan.keep)

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """A catalog with one namespace."""
        prepare(state)
        owners = OwnerAuditor(state)
        changes = ChangeAuditor(state)
        for number, name in enumerate(plan.actors):
            rng = random.Random(f"{plan.seed}/{name}/{number}")
            kind = GroupServer if name.startswith("server") else Bypass
            yield Actor(name, kind(state, name, rng, owners, changes), leads=True)

    def settle(self, state: State, plan: Plan) -> None:
        """Every HEAD that must be whole is."""
        state.trees.at_rest()


_TELLING: Final = "turnstile.catalog.changes.group_commit.completion_of"


def _tells(wrong: Callable[[Callable[..., Completion]], Callable[..., Completion]]) -> Callable[[], Any]:
    return lambda: swapped(_TELLING, wrong)


def _refused_before_the_swap(right: Callable[..., Completion]) -> Callable[..., Completion]:
    """A refusal is told although the state that it came from never was the catalog's."""
    return lambda judgement, swap, *, real: (
        Completion.OUTCOME if judgement is Judgement.REFUSED else right(judgement, swap, real=real)
    )


def _unchanged_before_the_swap(right: Callable[..., Completion]) -> Callable[..., Completion]:
    """That nothing needs changing is told although the state that it came from never was the
    catalog's."""
    return lambda judgement, swap, *, real: (
        Completion.OUTCOME if judgement is Judgement.UNCHANGED else right(judgement, swap, real=real)
    )


def _acknowledged_when_lost(right: Callable[..., Completion]) -> Callable[..., Completion]:
    """A change is acknowledged although its swap was refused."""
    return lambda judgement, swap, *, real: (
        Completion.OUTCOME if (judgement, swap) == (Judgement.CHANGES, Swap.LOST) else right(judgement, swap, real=real)
    )


def _again_when_unknown(right: Callable[..., Completion]) -> Callable[..., Completion]:
    """A change is computed again although the outcome of its swap is unknown."""
    return lambda judgement, swap, *, real: (
        Completion.NOTHING if swap is Swap.UNKNOWN else right(judgement, swap, real=real)
    )


def _always_fresh() -> Any:
    """A row that is known from the last group counts for changes that came since."""
    from turnstile.catalog.changes.group_commit import GroupTurn

    judge = GroupTurn._judge

    def wrong(self: GroupTurn, group: Any, *more: Any) -> None:
        self._seen_by = set(group)
        judge(self, group, *more)

    return patch.object(GroupTurn, "_judge", wrong)


def _one_spoils_the_others() -> Any:
    """Rows that refuse one change of a group refuse all of them."""
    from turnstile.catalog.changes.group_commit import GroupTurn

    lost = GroupTurn._lose

    def wrong(self: GroupTurn, answer: Any, judged: Any) -> Swap:
        for each in judged:
            if answer.failed:
                try:
                    each.change.handle_rejection(answer.failed)
                except Exception as error:
                    each.change.settle(error)
        return lost(self, answer, judged)

    return patch.object(GroupTurn, "_lose", wrong)


def _never_landed() -> Any:
    """A swap that was applied, but not answered, is made again."""
    return patch.object(CommitAttempts, "_has_landed", lambda *_: False)


CHANGE_GROUP_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "group: refusals of what never was": (_tells(_refused_before_the_swap), "I21"),
    "group: nothing to do in what never was": (_tells(_unchanged_before_the_swap), "I21"),
    "group: acknowledged and lost": (_tells(_acknowledged_when_lost), "I21"),
    "group: again when unknown": (_tells(_again_when_unknown), "I21"),
    "group: an old row counts": (_always_fresh, "I21"),
    "group: one spoils the others": (_one_spoils_the_others, "I21"),
    "group: landed and made again": (_never_landed, "I10"),
    "group: swapped without 'same head'": (without("turnstile.catalog.changes.attempts.swap_head", "same head"), "I9"),
}
"""The planted mistake, and the invariant that it breaks."""
