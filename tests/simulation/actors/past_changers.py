"""Actors that change a catalog's tree: names, a counter, Iceberg tables, and another catalog that comes and goes."""

from __future__ import annotations

from typing import Final

from tests.simulation.actors.catalog import NAMES as TABLES
from tests.simulation.actors.past_sandbox import PastActor, PastSandbox, Unanswered
from tests.simulation.auditors.pasts import COUNTED, COUNTER, TOGETHER
from tests.simulation.engine.processes import CATALOG, NAMESPACE
from turnstile.iceberg.tables import CreateTable
from turnstile.catalog.core.merges import Merge
from turnstile.iceberg.commits import TableChange
from turnstile.iceberg.core.schema import Field, Schema
from turnstile.iceberg.core.updates import SetProperties
from turnstile.store.core.errors import AlreadyExists, NotFound, StateConflict, TurnstileError

SIDE: Final = "side"
ICE: Final = ("ice",)
ICE_TABLES: Final = ("i", "j")
_NAMES: Final = tuple((f"n{number}",) for number in range(6))


class Names(PastActor):
    """Creates, describes and drops namespaces whose names others want, too."""

    times = 8

    def act(self) -> None:
        path, comment = self.rng.choice(_NAMES), f"{self.name} {self.rng.random()}"
        match self.rng.choice(("create", "describe", "describe", "drop")):
            case "create":
                self.ask(lambda box: box.services.namespaces.create(CATALOG, path, comment=comment))
            case "describe":
                self.ask(lambda box: box.services.namespaces.update(CATALOG, path, comment=comment))
            case _:
                self.ask(lambda box: box.services.namespace_dropper.drop(CATALOG, path))


class TableNames(PastActor):
    """Renames and drops Delta tables; a reset brings them back as long as gc has not begun to purge them."""

    times = 8

    def act(self) -> None:
        one, other = self.rng.sample(TABLES, 2)
        if self.rng.random() < 0.5:
            self.ask(lambda box: box.services.dropper.drop(CATALOG, NAMESPACE, one))
        else:
            self.ask(lambda box: box.services.renamer.rename(CATALOG, NAMESPACE, one, other))


class Counter(PastActor):
    """Merges into a counter; what was sent once is never sent again, since it may have been applied."""

    times = 8

    def act(self) -> None:
        number = self.auditor.begin_merge()
        merge = {COUNTER: Merge("add", 1 << number)}
        try:
            self.send(lambda box: box.services.namespaces.update(CATALOG, COUNTED, merge=merge))
        except Unanswered:
            self.met("merge unanswered")
        except TurnstileError as error:
            self.auditor.told_not_merged(number, error.type)
            raise
        else:
            self.met("merged")
            self.auditor.told_merged(number)


class IcebergUser(PastActor):
    """Commits to two Iceberg tables at once, and to one alone."""

    times = 6

    def act(self) -> None:
        value = f"{self.name} {self.rng.random()}"
        names = ICE_TABLES if self.rng.random() < 0.7 else (self.rng.choice(ICE_TABLES),)
        update = SetProperties(updates={TOGETHER if len(names) > 1 else "alone": value})
        changes = [TableChange((*ICE, name), (), (update,)) for name in names]
        self.ask(lambda box: box.iceberg.commit(CATALOG, changes))
        self.met(f"iceberg {len(names)}")


class Side(PastActor):
    """Creates a catalog, fills it, drops it, and creates it again under the same name."""

    def act(self) -> None:
        name = (f"s{self.rng.randrange(3)}",)
        question = self.rng.choice((self._create, self._fill, self._fill, self._drop))
        try:
            self.ask(lambda box: question(box, name))
        except (AlreadyExists, NotFound, StateConflict):
            return

    def _create(self, box: PastSandbox, _: tuple[str, ...]) -> None:
        box.services.catalogs.create(SIDE)

    def _fill(self, box: PastSandbox, name: tuple[str, ...]) -> None:
        box.services.namespaces.create(SIDE, name)

    def _drop(self, box: PastSandbox, _: tuple[str, ...]) -> None:
        box.services.catalogs.drop(SIDE, force=self.rng.random() < 0.5)


def fill(box: PastSandbox) -> None:
    """What every run begins with: some names, the counter, and the Iceberg tables."""
    for path in (*_NAMES[:4], COUNTED, ICE):
        box.services.namespaces.create(CATALOG, path)
    schema = Schema(fields=(Field(id=1, name="id", type="long", required=True),))
    for name in ICE_TABLES:
        box.iceberg_tables.create(CATALOG, ICE, CreateTable(name=name, schema=schema))
