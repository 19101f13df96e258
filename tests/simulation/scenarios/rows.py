"""The scenario of rows: requests with rows of one table, sent again and again, and records that are
delivered in batches, beside other writers (I26)."""

from __future__ import annotations

import io
import json
import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partialmethod
from typing import Any, Final
from unittest.mock import patch

import pyarrow.parquet as pq
from msgspec.structs import replace

from tests.simulation.actors.catalog import create_from
from tests.simulation.actors.rows import DELIVERED, REJECTED_EVERY, Deliverer, RowSender, is_shard
from tests.simulation.auditors.record import Violation
from tests.simulation.engine.plans import KINDS, Plan
from tests.simulation.engine.state import State
from tests.simulation.mistakes.tables import swapped
from tests.simulation.scenarios.scenario import Actor
from tests.simulation.scenarios.tables import Tables
from turnstile.catalog.create import REQUIRED_FEATURES
from turnstile.ingest import appends
from turnstile.ingest.core.identity import Identity
from turnstile.ingest.core.rejects import definition_to_be
from turnstile_rows.commits import version_zero


class Rows(Tables):
    """One table as in ``tables``, and one for rows that do not fit it; senders of rows, deliverers
    of batches, a publisher that evicts early, and now and then a writer that changes the
    metadata."""

    name = "rows"

    def plan(self, seed: int) -> Plan:
        """One to three senders, and up to two deliverers."""
        rng = random.Random(f"rows/{seed}")
        senders = tuple(f"rows-{number}" for number in range(rng.choice((1, 2, 3))))
        others = tuple(name for name in ("metadata-8", "ticket-9", "inline-7", "gc") if rng.random() < 0.3)
        deliverers = tuple(f"batches-{number}" for number in range(rng.choice((0, 1, 2))))
        return Plan(
            seed=seed,
            actors=(*senders, *deliverers, *others, "pump", "sweeper"),
            faults=tuple(kind for kind in KINDS if rng.random() < 0.5),
            rate=rng.choice((0.0, 0.02, 0.08, 0.2)),
            steps=rng.choice((150, 300)),
            row_tracking=rng.random() < 0.4,
            keep=rng.choice((0, 0, 1, 3)),
            slow=rng.random() < 0.3,
        )

    @contextmanager
    def limits(self, plan: Plan) -> Iterator[None]:
        """A large batch is several commits."""
        with super().limits(plan), patch.object(appends, "MEMBERS", 4):
            yield

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        yield from super().actors(state, plan)
        state.rejected_id = create_from(state, "t_rejected", _rejected_zero)

    def settle(self, state: State, plan: Plan) -> None:
        """Each row is in one version at most, and in the version that its sender was told. The rows
        of a shard are in their order. A row that does not fit is in the other table exactly if the
        row of its request is in this one."""
        super().settle(state, plan)
        rejected = _rejected_ids(state)
        for table_id, history in state.auditor.tables.items():
            if table_id == state.rejected_id:
                continue
            found = dict[int, int]()
            for version, fact in sorted(history.facts.items()):
                ids = _ids_in(state, history.location, fact.content)
                state.auditor.seen["rows together"] += len(ids) > 1
                for id in ids:
                    if id in found:
                        raise Violation("I26", f"row {id} is in versions {found[id]} and {version}")
                    found[id] = version
            due = sorted(id for id in found if id < DELIVERED and not id % REJECTED_EVERY)
            if rejected != due:
                raise Violation("I26", f"the rejected rows are of {rejected}, and those of {due} are due")
            delivered = [id for id in found if id >= DELIVERED]
            if is_shard(plan) and delivered != [DELIVERED + at for at in range(len(delivered))]:
                raise Violation("order", f"the rows of the shard are added as {delivered}")
            for text, version in state.rows_at.items():
                id = int(text.rpartition(".")[2]) if "." in text else None
                if id is not None and found.get(id) != version:
                    raise Violation("I26", f"{text} was told version {version}, and is in {found.get(id)}")

    def _actor(self, state: State, name: str, table: str, number: int, plan: Plan) -> Actor:
        kind = {"rows": RowSender, "batches": Deliverer}.get(name.partition("-")[0])
        if kind is None:
            return super()._actor(state, name, table, number, plan)
        rng = random.Random(f"{plan.seed}/{name}/{number}")
        return Actor(name, kind(state, name, table, plan, rng), leads=True)


def _rejected_zero(now: int, table_id: str) -> bytes:
    """Version 0 of the table of rejected rows."""
    properties = {"delta.enableInCommitTimestamps": "true", "io.unitycatalog.tableId": table_id}
    definition = definition_to_be(REQUIRED_FEATURES, properties)
    return version_zero(f"create {table_id}", now - 1000, table_id, definition, None).encode()


def _rejected_ids(state: State) -> list[int]:
    """The ids in the rejected rows that were ratified, in order."""
    history = state.auditor.tables[state.rejected_id]
    texts = [text for fact in history.facts.values() for text in _values(state, history.location, fact.content, "row")]
    return sorted(int(text.removeprefix('{"id":"').removesuffix('"}x')) for text in texts)


def _ids_in(state: State, location: str, content: bytes) -> list[int]:
    """The ids of the rows in the files of a commit, if a sender wrote it."""
    return _values(state, location, content, "id")


def _values(state: State, location: str, content: bytes, column: str) -> list[Any]:
    """The values of a column in the files of a commit, if a sender wrote it."""
    actions = [json.loads(line) for line in content.splitlines()]
    paths = [action["add"]["path"] for action in actions if "add" in action]
    files = (state.storages.files.get(f"{location}/{path}") for path in paths if path.startswith("part-"))
    return [value for file in files if file for value in pq.read_table(io.BytesIO(file[0]))[column].to_pylist()]


# -- planted mistakes -------------------------------------------------------------------------------------------------


def _unremembered() -> Any:
    """The commit does not write the rows of its requests."""

    def committing(commit: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, group: commit(self, replace(group, rows=()))

    return swapped("turnstile.ingest.writing.GroupRatifier.commit", committing)


def _remembered_afterwards() -> Any:
    """The rows of the requests are written after the commit, and not with it."""

    def committing(commit: Callable[..., Any]) -> Callable[..., Any]:
        def in_two_steps(self: Any, group: Any) -> Any:
            answer = commit(self, replace(group, rows=()))
            for row in group.rows:
                self._world.refs.write(row)
            return answer

        return in_two_steps

    return swapped("turnstile.ingest.writing.GroupRatifier.commit", committing)


def _in_two_commits() -> Any:
    """The rows that do not fit are added by a commit of their own, before that of the others."""

    def committing(commit: Callable[..., Any]) -> Callable[..., Any]:
        def in_two_steps(self: Any, group: Any) -> Any:
            for other in group.commits[1:]:
                commit(self, replace(group, id=str(uuid.uuid4()), commits=(other,), rows=()))
            return commit(self, replace(group, commits=group.commits[:1]))

        return in_two_steps

    return swapped("turnstile.ingest.writing.GroupRatifier.commit", committing)


def _looked_for_and_then_written() -> Any:
    """The rows of requests are written whether or not they are there."""
    return swapped(
        "turnstile.ingest.turns.remembering_row",
        lambda make: lambda *given, **more: replace(make(*given, **more), clauses=()),
    )


def _going_on() -> Any:
    """A batch goes on after a commit that failed."""

    def running(run: Callable[..., Any]) -> Callable[..., Any]:
        def each(tools: Any, batch: Any, most: int, until_ms: int) -> None:
            for at in range(0, len(batch), most):
                run(tools, batch[at : at + most], most, until_ms)

        return each

    return swapped("turnstile.ingest.appends.run_batch", running)


def _always_new() -> Any:
    """Records of a batch are not looked for, and not remembered."""
    return swapped("turnstile.ingest.appends.RowAppender.append_many", lambda append: partialmethod(_anew, append))


def _anew(self: Any, append: Callable[..., Any], catalog: str, requests: Any, until_ms: int) -> Any:
    return append(self, catalog, [replace(one, identity=Identity()) for one in requests], until_ms)


ROWS_MISTAKES: Final[dict[str, Callable[[], Any]]] = {
    "rows: requests are not remembered": _unremembered,
    "rows: requests are remembered after the commit": _remembered_afterwards,
    "rows: rejected rows have a commit of their own": _in_two_commits,
    "rows: a remembered request is written again": _looked_for_and_then_written,
    "rows: the records of a batch have no identity": _always_new,
}
"""The planted mistakes; each breaks I26."""

ORDER_MISTAKES: Final[dict[str, Callable[[], Any]]] = {"rows: a batch goes on after a failure": _going_on}
"""Those that break the order of a shard."""
