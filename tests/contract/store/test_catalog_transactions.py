"""Transactions of a catalog on every store: racing ones are in the catalog and in the table, or in
neither (I3, I8, I9)."""

from __future__ import annotations

import uuid

from tests.support.fakes import delta
from tests.support.fakes.storage import FakeStorages
from tests.support.store.backends import REALM, Backend
from tests.support.store.transactions import Client, group, new_namespace
from tests.support.threads import together
from turnstile.adapters import RandomIds, SystemClock
from turnstile.catalog.catalogs import Catalogs
from turnstile.catalog.core.paths import path_of
from turnstile.catalog.services import CatalogServices, build
from turnstile.delta.core.head import TableHead, tail_by_version
from turnstile.delta.proposals import CommitRequest
from turnstile.store.core.errors import ErrorType, OutcomeUnknown, StateConflict, Throttled
from turnstile.store.core.names import published_path
from turnstile.store.core.rows import Space
from turnstile.store.ports import World

TURNS = 3
"""Transactions of each of eight writers."""


class Lake:
    """A catalog of its own with one Delta table, on a backend."""

    def __init__(self, backend: Backend) -> None:
        clock = SystemClock()
        self.world = World(
            backend.refs(), backend.objs(clock=clock), FakeStorages(clock), clock, RandomIds(), Space(REALM)
        )
        self.catalog = f"c{uuid.uuid4().hex[:12]}"
        services = self.services()
        Catalogs(self.world, services.reader, services.committer).create(self.catalog)
        services.namespaces.create(self.catalog, ("default",))
        staged = services.staging.create(self.catalog, ("default",), "t")
        content = delta.version_zero("zero", clock.now_ms() - 60_000)
        self.world.storages.open(staged.location).put_if_absent(published_path(0), content)
        self.table = services.registrar.register(self.catalog, ("default",), "t", staged.table_id).table_id

    def services(self) -> CatalogServices:
        """A sandbox that has seen nothing."""
        return build(self.world, lake_root=f"file:///lake-{REALM}")

    def head(self) -> TableHead:
        row = self.world.refs.read(self.world.space.table(self.table))
        assert row is not None
        return TableHead.from_row(row)

    def ticket(self, txn: str) -> CommitRequest:
        ict = max(self.world.clock.now_ms(), self.head().last_ict + 1)
        return CommitRequest(self.table, None, base=0, content=delta.append(txn, ict))


def test_i8_racing_transactions_are_in_the_catalog_and_in_the_table_or_in_neither(backend: Backend) -> None:
    lake = Lake(backend)

    def write(writer: int) -> list[str]:
        services = lake.services()
        applied = []
        client = Client(services, lake.catalog)
        for turn in range(TURNS):
            name = f"n{writer}-{turn}"
            request = group(lake.ticket(f"{writer}-{turn}"))
            while True:
                try:
                    client.commit([new_namespace(services, name)], request)
                except (Throttled, OutcomeUnknown):
                    continue
                except StateConflict as error:
                    if error.type != ErrorType.CONCURRENT_CHANGE:
                        raise
                    continue
                applied.append(request.id)
                break
        return applied

    applied = [id for mine in together(write) for id in mine]
    entries = [place.entry for place in tail_by_version(lake.head())]
    assert sorted(entry.group for entry in entries) == sorted(applied) and len(applied) == 8 * TURNS
    names = {path_of(key)[0] for key, _ in lake.services().reader.current(lake.catalog).subtree(())}
    assert names - {"default"} == {f"n{entry.txn}" for entry in entries}


def test_i3_i8_a_transaction_of_two_that_want_one_name_is_applied_once_and_again_is_a_replay(backend: Backend) -> None:
    lake = Lake(backend)

    def write(writer: int) -> bool | None:
        if writer > 1:
            return None
        services = lake.services()
        client = Client(services, lake.catalog)
        request = group(lake.ticket(f"w{writer}"))
        changes = [new_namespace(services, "wanted")]
        while True:
            try:
                client.commit(changes, request)
            except (Throttled, OutcomeUnknown):
                continue
            except StateConflict as error:
                if error.type == ErrorType.CONCURRENT_CHANGE:
                    continue
                return False
            assert Client(lake.services(), lake.catalog).commit(changes, request).replayed
            return True

    assert sorted(together(write)[:2]) == [False, True] and lake.head().latest == 1  # type: ignore[type-var]
