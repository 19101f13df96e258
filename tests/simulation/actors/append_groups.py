"""Servers that apply appends to one Iceberg table in groups, and writers that bypass them."""

from __future__ import annotations

import random
from typing import Final

from tests.simulation.actors.owners import Owner
from tests.simulation.auditors.append_groups import AppendAuditor
from tests.simulation.auditors.owners import OwnerAuditor
from tests.simulation.auditors.record import Violation
from tests.simulation.engine.processes import CATALOG, LAKE, TIGHT
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from tests.support.iceberg.appends import append, change_of
from turnstile.catalog.services import build
from turnstile.iceberg.commits import Commits
from turnstile.iceberg.context import Context
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.requirements import CommitFailed
from turnstile.iceberg.core.schema import Field, Schema
from turnstile.iceberg.core.table_updates import TableChange
from turnstile.iceberg.files import MetadataFiles
from turnstile.iceberg.shared_appends import Alone, AppendGroup, WaitingAppend
from turnstile.iceberg.tables import CreateTable, LoadedTable, Tables
from turnstile.rights.grants import OPERATOR
from turnstile.store.core.errors import InvalidRequest, OutcomeUnknown, StateConflict, StorageFault, Throttled
from turnstile.store.core.limits import Limits
from turnstile.store.ports import World

TABLE: Final = ("ice", "t")
SCHEMA: Final = Schema(fields=(Field(id=1, name="id", type="long", required=True),))


def context_of(world: World, pause: object) -> Context:
    """The operations of one request."""
    services = build(world, lake_root=LAKE, limits=Limits(spill=TIGHT), pause=pause)  # type: ignore[arg-type]
    files = MetadataFiles(world.storages, world.ids)
    return Context(services, services.committer, files, OPERATOR, lambda: None)


def prepare_table(world: World) -> None:
    """The table, empty."""
    context = context_of(world, lambda _: None)
    context.catalog.namespaces.create(CATALOG, TABLE[:1])
    Tables(context).create(CATALOG, TABLE[:1], CreateTable(TABLE[1], SCHEMA))


class AppendWriter(Owner):
    """Appends one row after the other, each alone; its base is the table as it was at some time."""

    times = 12

    def __init__(
        self, state: State, name: str, rng: random.Random, auditor: OwnerAuditor, appends: AppendAuditor
    ) -> None:
        super().__init__(state, name, rng, auditor)
        self._appends = appends
        self._number = 0
        self._base: TableMetadata | None = None

    def start(self, world: World) -> None:
        self._context = context_of(world, self.process.pause)

    def act(self) -> None:
        id, since, change = self.ask()
        self.alone(id, since, change)

    def ask(self) -> tuple[int, int, TableChange]:
        """An append with its files; sometimes one that is refused."""
        self._number += 1
        now = self._appends.now
        assert now is not None
        if self._base is None or self.rng.random() < 0.5:
            self._base = now
        files = self.state.storages.files
        clock = self.state.scheduler
        id = 1_000 * (1 + int(self.name.rpartition("-")[2]) + 10 * self.name.startswith("server")) + self._number
        made = append(
            lambda path, raw: files.update({path: (raw, clock.now)}),
            self._content,
            self._base,
            id,
            clock.now,
        )
        change = change_of(TABLE, self._base, made)
        if self.rng.random() < 0.15:
            wrong = change_of(TABLE, self._base, made).requirements[0]
            change = TableChange(TABLE, (type(wrong)("0"),), change.updates)  # type: ignore[call-arg]
        return id, self._appends.asked(), change

    def _content(self, path: str) -> bytes:
        """The content of a file that metadata of the table name."""
        stored = self.state.storages.files.get(path)
        if stored is None:
            raise Violation("I9", f"metadata of the table lead to {path}, which does not exist")
        return bytes(stored[0])

    def alone(self, id: int, since: int, change: TableChange) -> None:
        try:
            loaded = Commits(self._context).commit(CATALOG, [change])[0]
        except Crashed:
            raise
        except Exception as error:
            self.told(id, since, error)
        else:
            self.told(id, since, loaded)

    def told(self, id: int, since: int, outcome: Exception | LoadedTable) -> None:
        """The client hears an error, or the table."""
        what = "table" if isinstance(outcome, LoadedTable) else type(outcome).__name__
        self.met(f"append {what}")
        match outcome:
            case LoadedTable():
                self._appends.acknowledged(id, since, outcome.metadata)
            case StorageFault() if not outcome.nothing_applied:
                pass
            case CommitFailed() | StateConflict() | Throttled() | InvalidRequest() | StorageFault():
                self._appends.refused(id)
            case OutcomeUnknown():
                pass
            case _:
                raise outcome


class AppendServer(AppendWriter):
    """Applies several appends at a time, as the leader of a line."""

    def act(self) -> None:
        asked = [self.ask() for _ in range(self.rng.randint(2, 5))]
        waiting = [WaitingAppend(self._context, change) for _, _, change in asked]
        AppendGroup(self._context, CATALOG, waiting).run()
        for (id, since, change), each in zip(asked, waiting, strict=True):
            try:
                outcome: Exception | LoadedTable = each.outcome()
            except Alone:
                self.met("append left its group")
                self.alone(id, since, change)
                continue
            except Exception as error:
                outcome = error
            else:
                self.met("append in a group")
            self.told(id, since, outcome)
