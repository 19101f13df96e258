"""The scenario of rows: requests with rows of one table, sent again and again, beside other writers
(I26)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.actors.rows import RowSender
from tests.simulation.engine.plans import KINDS, Plan
from tests.simulation.engine.state import State
from tests.simulation.mistakes.tables import swapped
from tests.simulation.scenarios.scenario import Actor
from tests.simulation.scenarios.tables import Tables
from turnstile.delta.commits import read_head
from turnstile.delta.core.head import TableHead
from turnstile.ingest.appends import RowAppender


class Rows(Tables):
    """One table as in ``tables``; senders of rows, a publisher that evicts early, and now and then
    a writer that changes the metadata."""

    name = "rows"

    def plan(self, seed: int) -> Plan:
        """Two or three senders."""
        rng = random.Random(f"rows/{seed}")
        senders = tuple(f"rows-{number}" for number in range(rng.choice((1, 2, 3))))
        others = tuple(name for name in ("metadata-8", "ticket-9", "inline-7", "gc") if rng.random() < 0.3)
        return Plan(
            seed=seed,
            actors=(*senders, *others, "pump", "sweeper"),
            faults=tuple(kind for kind in KINDS if rng.random() < 0.5),
            rate=rng.choice((0.0, 0.02, 0.08, 0.2)),
            steps=rng.choice((150, 300)),
            row_tracking=rng.random() < 0.4,
            keep=rng.choice((0, 0, 1, 3)),
            slow=rng.random() < 0.3,
        )

    def _actor(self, state: State, name: str, table: str, number: int, plan: Plan) -> Actor:
        if not name.startswith("rows-"):
            return super()._actor(state, name, table, number, plan)
        rng = random.Random(f"{plan.seed}/{name}/{number}")
        return Actor(name, RowSender(state, name, table, plan, rng), leads=True)


# -- planted mistakes -------------------------------------------------------------------------------------------------


def _tail_alone() -> Any:
    """A request is looked for in the tail alone, as if the index were empty."""

    def recalling(_: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, catalog, table_id, identities: None

    return swapped("turnstile.ingest.appends.IdentityIndex.recall", recalling)


def _later_base() -> Any:
    """The base of the append is a HEAD that is read after the look for the identity."""
    propose = RowAppender._propose

    def with_later_base(self: RowAppender, head: TableHead, *more: Any) -> Any:
        return propose(self, read_head(self._world, head.table_id), *more)

    return patch.object(RowAppender, "_propose", with_later_base)


ROWS_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "rows: only the tail is looked at": (_tail_alone, "I3"),
    "rows: the base is read after the look": (_later_base, "I3"),
}
"""The planted mistake, and the invariant that it breaks: a second version of one transaction."""
