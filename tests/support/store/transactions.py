"""Transactions of a catalog on a world, as the API commits them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from turnstile.catalog.changes.commit import CatalogChange
from turnstile.catalog.changes.composed import GroupChange
from turnstile.catalog.changes.idempotency import IdempotentCommitter
from turnstile.catalog.changes.transactions import Applied, CatalogTransactions, NotApplied, earlier
from turnstile.catalog.query.reads import CatalogRead, CatalogReads
from turnstile.catalog.services import CatalogServices
from turnstile.delta.proposals import CommitRequest, GroupRequest, ReadVersion
from turnstile.delta.ratify import Ratifier
from turnstile.delta.transactions.groups import GroupRatifier
from turnstile.rights.grants import OPERATOR
from turnstile.store.core.errors import ErrorType, StateConflict, TurnstileError


class Refused(StateConflict):
    """Nothing was applied."""

    def __init__(self, outcome: NotApplied) -> None:
        super().__init__(ErrorType.TRANSACTION_CONFLICT, "nothing was applied", outcome=repr(outcome))
        self.outcome = outcome


class Client:
    """Sends transactions to ``services``, as a sandbox of its own that has seen no table yet."""

    def __init__(self, services: CatalogServices, catalog: str = "main") -> None:
        self._services = services
        self._catalog = catalog
        world = services.world
        self._world = world
        self._groups = GroupRatifier(world, Ratifier(world))

    def commit(
        self, changes: Sequence[CatalogChange], group: GroupRequest, reads: CatalogReads | None = None
    ) -> Applied:
        """Raises Refused, and what a change or a commit raises that is no conflict."""
        world = self._world
        committer = IdempotentCommitter(
            world,
            self._services.reader,
            key=world.space.request(self._catalog, "client", group.id),
            asked=group.id,
            final=_final,
        )

        def first() -> Applied:
            members = [GroupChange(change, lambda _: None) for change in changes]
            outcome = CatalogTransactions(self._groups, committer).commit(self._catalog, group, members, reads)
            if isinstance(outcome, NotApplied):
                raise Refused(outcome)
            return outcome

        return committer.run(first, lambda seq: earlier(self._groups, group, seq))


def _final(error: TurnstileError) -> int:
    return 409 if isinstance(error, Refused) else 0


def group(*commits: CommitRequest, reads: Sequence[ReadVersion] = (), id: str = "") -> GroupRequest:
    return GroupRequest(id or str(uuid.uuid4()), commits, tuple(reads))


def read(services: CatalogServices, query: str, head: str = "") -> CatalogReads:
    """What a query leads to at a HEAD, by default the present one, as a read of a transaction."""
    head = head or services.reader.current("main").head
    return CatalogReads("main", [CatalogRead(query, head)], services.reader, services.as_of_reader)


def rename(services: CatalogServices, name: str, new: str) -> CatalogChange:
    return services.renamer.prepare("main", ("default",), name, new, ("default",), external=False)


def drop(services: CatalogServices, name: str) -> CatalogChange:
    return services.dropper.prepare("main", ("default",), name)


def create(services: CatalogServices, name: str, table_id: str, *namespace: str) -> CatalogChange:
    path = namespace or ("default",)
    return services.registrar.prepare("main", path, name, table_id, comment=None, principal=OPERATOR)


def new_namespace(services: CatalogServices, *path: str) -> CatalogChange:
    return services.namespaces.creation(path, comment=None, properties={}, owner="")
