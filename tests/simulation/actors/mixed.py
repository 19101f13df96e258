"""An actor whose transactions change the catalog and commit to tables
(``catalog.changes.transactions``)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.simulation.actors.catalog import version_zero
from tests.simulation.actors.groups import EVERY, GroupWriter
from tests.simulation.actors.writers import Retryable
from tests.simulation.auditors.groups import GroupAuditor
from tests.simulation.engine.plans import HOUR, SECOND, Plan
from tests.simulation.engine.ports import Process, SimStorages
from tests.simulation.engine.processes import CATALOG, NAMESPACE, CatalogSandbox, Client, world_of
from tests.simulation.engine.state import State
from turnstile.api.http.idempotency import FINAL
from turnstile.api.http.responses import status_of
from turnstile.catalog.changes.commit import CatalogChange
from turnstile.catalog.changes.composed import GroupChange
from turnstile.catalog.changes.idempotency import IdempotentCommitter
from turnstile.catalog.changes.transactions import Applied, CatalogTransactions, NotApplied, earlier
from turnstile.delta.proposals import GroupRequest
from turnstile.delta.ratify import Ratifier
from turnstile.delta.transactions.groups import GroupRatifier
from turnstile.rights.grants import OPERATOR
from turnstile.store.core.errors import ErrorType, StateConflict, TurnstileError

PAUSES = (100, SECOND, 20 * SECOND, HOUR)
"""Shorter than a transaction is remembered."""


@dataclass(frozen=True)
class Request:
    """A transaction as its client sends it: commits, and by uuid the changes of other tables.
    Renames are (from, to)."""

    group: GroupRequest
    renames: dict[str, tuple[str, str]] = field(default_factory=dict)
    creates: dict[str, str] = field(default_factory=dict)
    drops: dict[str, str] = field(default_factory=dict)


class TransactionSandbox(CatalogSandbox):
    """A server process of the catalog function that decides transactions."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._world = world_of(process)
        self._groups = GroupRatifier(self._world, Ratifier(self._world))

    def commit(self, request: Request) -> Applied:
        """Raises the reason for refusing it."""
        world = self._world
        id = request.group.id
        committer = IdempotentCommitter(
            world, self.reader, key=world.space.request(CATALOG, "client", id), asked=id, final=_final
        )
        return committer.run(
            lambda: self._first(request, committer), lambda seq: earlier(self._groups, request.group, seq)
        )

    def _first(self, request: Request, committer: IdempotentCommitter) -> Applied:
        changes = [GroupChange(change, lambda _: None) for change in self._changes(request)]
        outcome = CatalogTransactions(self._groups, committer).commit(CATALOG, request.group, changes)
        if isinstance(outcome, NotApplied):
            raise StateConflict(ErrorType.TRANSACTION_CONFLICT, f"{outcome}")
        return outcome

    def _changes(self, request: Request) -> list[CatalogChange]:
        renames = [
            self.renamer.prepare(CATALOG, NAMESPACE, old, new, NAMESPACE, external=False)
            for old, new in request.renames.values()
        ]
        creates = [
            self.registrar.prepare(CATALOG, NAMESPACE, name, id, comment=None, principal=OPERATOR)
            for id, name in request.creates.items()
        ]
        return [
            *renames,
            *creates,
            *(self.dropper.prepare(CATALOG, NAMESPACE, name) for name in request.drops.values()),
        ]


def _final(error: TurnstileError) -> int:
    """As the API."""
    status = 0 if error.type == ErrorType.CONCURRENT_CHANGE else status_of(error)
    return status if status in FINAL else 0


class MixedWriter(GroupWriter):
    """Renames a table, or creates one of its own, or drops such a one, and commits to the others or
    has only read them."""

    def __init__(
        self, state: State, name: str, tables: Sequence[str], plan: Plan, *, rng: random.Random, auditor: GroupAuditor
    ) -> None:
        super().__init__(state, name, tables, plan, rng=rng, auditor=auditor)
        self._catalog = Client(state, name, TransactionSandbox)
        self._own: dict[str, str] = {}

    def _transaction(self, txn: str) -> None:
        for attempt in range(1, 13):
            tables = self._rng.sample(self._tables, self._rng.choice((2, 3)))
            tables.sort(key=lambda table: table != self._tables[0] and self._rng.random() < 0.7)  # many rename the same
            kinds = [self._rng.choice(EVERY) for _ in range(self._rng.choice((0, 1, 1, 2, 2)))][: len(tables) - 1]
            group = self._group(tables[1:], kinds, txn, f"a{attempt}")
            request = (
                None if group is None else self._with_changes(group, tables[0], f"{txn}.{attempt}".replace(".", "-"))
            )
            if request is not None and self._settle_request(request, txn, f"a{attempt}"):
                return

    def _with_changes(self, group: GroupRequest, table: str, unique: str) -> Request | None:
        """The transaction with its changes; None where a table could not be staged."""
        kind = self._rng.choice(("rename", "rename", "create", "drop") if self._own else ("rename", "create"))
        if kind == "rename":
            self._table = table
            old = self._load().name.rsplit(".", maxsplit=1)[-1]
            return Request(group, renames={table: (old, f"r-{unique}")})
        if kind == "drop":
            id = self._rng.choice(list(self._own))
            return Request(group, drops={id: self._own[id]})
        id = self._staged(f"c-{unique}")
        return None if id is None else Request(group, creates={id: f"c-{unique}"})

    def _staged(self, name: str) -> str | None:
        for _ in range(4):
            try:
                staged = self._catalog.ask(lambda sandbox: sandbox.staging.create(CATALOG, NAMESPACE, name))
                raw = version_zero(self._state.scheduler.now, staged.table_id)
                SimStorages(self._process).open(staged.location).put_if_absent(f"_delta_log/{0:020d}.json", raw)
            except Retryable:
                self._state.scheduler.sleep(SECOND)
            else:
                return staged.table_id
        return None

    def _settle_request(self, request: Request, txn: str, attempt: str) -> bool:
        """Sends the same transaction until its answer is final. True when it was applied."""
        auditor = self._state.auditor
        scheduler = self._state.scheduler
        group = request.group
        self._auditor.proposed(group, txn)
        self._auditor.changing(
            group, {id: new for id, (_, new) in request.renames.items()} | request.creates, request.drops
        )
        while True:
            try:
                answer = self._catalog.ask(lambda sandbox: sandbox.commit(request))
            except Retryable:
                scheduler.sleep(self._rng.choice(PAUSES))
                continue
            except TurnstileError as error:
                if error.type == ErrorType.CONCURRENT_CHANGE:
                    scheduler.sleep(self._rng.choice(PAUSES))
                    continue
                auditor.seen[f"transaction refused {error.type}"] += 1
                self._process.skew = 0
                self._told_never(group, txn, attempt, error.type)
                self._auditor.told_never(group)
                return False
            break
        auditor.seen[f"transaction {'replayed' if answer.replayed else 'applied'}"] += 1
        for commit, member in zip(group.commits, answer.commits, strict=True):
            auditor.told_ratified(commit.table_id, txn, member.version)
        for id in request.creates:
            auditor.told_registered(id)
        self._own = {id: name for id, name in (self._own | request.creates).items() if id not in request.drops}
        return True
