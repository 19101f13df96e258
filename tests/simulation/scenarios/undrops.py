"""The scenario of dropped tables that come back one at a time, beside drops, renames, resets,
clones and gc: a table comes back as it was when it was dropped, with its HEAD and its location, or
the request is refused and changes nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from msgspec.structs import replace

from tests.simulation.actors.catalog import NAMES
from tests.simulation.actors.catalog_history import (
    ICE,
    ICE_TABLES,
    CloneUser,
    IcebergUser,
    PastActor,
    Resets,
    TableNames,
)
from tests.simulation.auditors.catalogs import SeenHead
from tests.simulation.auditors.record import Violation, audits
from tests.simulation.engine.plans import HOUR, MINUTE, SECOND, Plan
from tests.simulation.engine.plans import KINDS as FAULTS
from tests.simulation.engine.processes import CATALOG, NAMESPACE
from tests.simulation.mistakes.catalog_history import Plant
from tests.simulation.mistakes.tables import swapped
from tests.simulation.scenarios.catalog_history import CatalogHistory
from tests.simulation.scenarios.scenario import Actor
from tests.support.catalog import undrop
from turnstile.catalog.core.entities import IcebergTable, Table, id_of
from turnstile.catalog.core.paths import Path, key_of
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.history.undrop import Undropper
from turnstile.gc.core import Grace

if TYPE_CHECKING:
    from tests.simulation.engine.state import State

UNDROP: Final = "turnstile.catalog.history.undrop."
_CLONES: Final = (*((to, name) for to in ("c0", "c1") for name in ICE_TABLES), (*NAMESPACE, "clone"))
_ICE: Final = tuple((*ICE, name) for name in ICE_TABLES)
_TABLES: Final = (*((*NAMESPACE, name) for name in NAMES), *_ICE, *_CLONES)


class Undrops(PastActor):
    """Drops tables of each kind, some of them with their files, renames a few, and brings tables
    back."""

    times = 30

    def act(self) -> None:
        there = [path for path in _TABLES if key_of(path) in self.state.trees.now[CATALOG].entries]
        gone = [path for path in _TABLES if path not in there]
        if there and self.rng.random() < (0.3 if gone else 0.9):
            self._drop(self.rng.choice(there))
            return
        path = self.rng.choice(gone if gone and self.rng.random() < 0.9 else _TABLES)
        to = path if self.rng.random() < 0.8 else self.rng.choice([one for one in _TABLES if one[:-1] == path[:-1]])
        recent = self.state.trees.now[CATALOG].row["seq"] - self.rng.randrange(12)
        at = AsOf(seq=max(recent, 0)) if self.rng.random() < 0.3 else None
        self.ask(lambda box: undrop(box.services, path, to, at))
        self.met("undropped at a moment" if at else "undropped")

    def _drop(self, path: Path) -> None:
        if path[:-1] == NAMESPACE:
            self.ask(lambda box: box.services.dropper.drop(CATALOG, NAMESPACE, path[-1]))
            return
        if path[:-1] == ICE and self.rng.random() < 0.3:
            other = self.rng.choice([one for one in _ICE if one != path])
            self.ask(lambda box: box.iceberg_tables.rename(CATALOG, path, other))
            self.met("iceberg renamed")
            return
        purge = self.rng.random() < 0.6
        self.ask(lambda box: box.iceberg_tables.drop(IcebergTable, CATALOG, path, purge=purge))
        self.met("iceberg dropped with its files" if purge else "iceberg dropped")


class UndropAuditor:
    """Listens to the trees' auditor: an undrop adds one table, as it was last, and nothing else."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._trees = state.trees
        self._last: dict[str, Table | IcebergTable] = {}
        state.trees.listeners.append(self._changed)

    @audits
    def _changed(self, head: SeenHead, before: SeenHead | None) -> None:
        if before is not None and head.commit.message.startswith("undrop "):
            self._undropped(head, before)
        for entry in head.entries.values():
            entity = self._trees.entity(head, entry.obj)
            if isinstance(entity, Table | IcebergTable):
                self._last[id_of(entity)] = entity

    def _undropped(self, head: SeenHead, before: SeenHead) -> None:
        added = {key: entry for key, entry in head.entries.items() if key not in before.entries}
        rest = {key: entry for key, entry in head.entries.items() if key in before.entries}
        if len(added) != 1 or rest != before.entries:
            raise Violation("I9", f"'{head.commit.message}' added {sorted(added)} and changed the rest")
        [entry] = added.values()
        entity = self._trees.entity(head, entry.obj)
        assert isinstance(entity, Table | IcebergTable)
        last = self._last[id_of(entity)]
        if replace(entity, name=last.name) != last:
            raise Violation("I9", f"'{head.commit.message}' brought back {entity}; it was {last} when it was dropped")
        if isinstance(entity, IcebergTable):
            self._iceberg(entity)

    def _iceberg(self, entity: IcebergTable) -> None:
        rows = self._state.refs.rows
        owner = rows.get(self._state.space.location(entity.location))
        if owner is None or owner.get("table_id") != entity.table_id:
            raise Violation("I10", f"{entity.location} of {entity.name}, which came back, belongs to {owner}")
        if (purged := rows.get(self._state.space.table(entity.table_id))) is not None:
            raise Violation("I10", f"{entity.name} came back and is still to be purged: {purged}")


CHANGERS: Final[dict[str, type[PastActor]]] = {"undrops": Undrops, "tables": TableNames, "iceberg": IcebergUser}
USERS: Final[dict[str, type[PastActor]]] = {"resets": Resets, "clones": CloneUser}
OTHERS: Final = {"gc-1": 0.95, "gc-2": 0.4, "resets": 0.3, "clones": 0.5}
"""All actors except the changers, and how often they take part."""


class Undropped(CatalogHistory):
    """Drops and undrops of one table at a time (I9, I10)."""

    name = "undrops"
    grace = Grace(history_ms=3 * HOUR, dropped_ms=10 * MINUTE, ended_ms=5 * HOUR)
    collects = (SECOND, MINUTE, 10 * MINUTE, HOUR)
    changers = CHANGERS
    users = USERS
    tables_fit = False

    def plan(self, seed: int) -> Plan:
        """One or two actors that undrop, one or two other changers, and some of the others."""
        rng = random.Random(f"undrops/{seed}")
        undrops = [f"undrops-{number}" for number in range(rng.randint(1, 2))]
        changers = [f"{rng.choice(('tables', 'iceberg'))}-{number}" for number in range(rng.randint(1, 2))]
        rest = [name for name, chance in OTHERS.items() if rng.random() < chance]
        return Plan(
            seed=seed,
            actors=(*undrops, *changers, *rest),
            faults=tuple(kind for kind in FAULTS if rng.random() < 0.5),
            rate=rng.choice((0.0, 0.01, 0.04)),
            steps=rng.choice((600, 1500)),
            row_tracking=False,
            slow=rng.random() < 0.7,
            keep=rng.choice((0, 2, 19)),
        )

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """As in the scenario of pasts, with an auditor of undrops."""
        UndropAuditor(state)
        yield from super().actors(state, plan)


# -- mistakes -----------------------------------------------------------------------------------------


def _edits_without(**forgotten: Any) -> Plant:
    """The undrop's edit lacks something."""
    return lambda: swapped(UNDROP + "Edit", lambda edit: lambda *args, **more: edit(*args, **{**more, **forgotten}))


def _looks_at_no_files() -> Any:
    """The HEAD and the files are not looked at before the change is made."""
    return patch.object(Undropper, "_require_files", lambda *_: None)


UNDROP_MISTAKES: dict[str, tuple[Plant, str]] = {
    "undrop: leaves the HEAD and the location": (_edits_without(writes=()), "I9"),
    "undrop: looks at no files": (_looks_at_no_files, "I3"),
    "undrop: a clone holds nothing": (lambda: swapped(UNDROP + "held_again", lambda _: lambda *_, room: []), "I10"),
    "undrop: an Iceberg clone holds nothing": (lambda: patch.object(Undropper, "_holds", lambda *_: []), "I10"),
}
"""The planted mistake, and the invariant that it breaks first most often. Races of a purge with an
undrop are too rare to be found here: tests/unit/history/test_undrop.py makes them happen."""
