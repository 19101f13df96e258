"""Servers that apply changes of one catalog in groups, and writers that bypass them."""

from __future__ import annotations

import random
from typing import Any, Final

from tests.simulation.actors.owners import Owner
from tests.simulation.auditors.change_groups import Asked, ChangeAuditor, Kind
from tests.simulation.auditors.owners import OwnerAuditor
from tests.simulation.engine.processes import CATALOG, TIGHT
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from turnstile.catalog.changes.commit import ChangeFunction, Committer
from turnstile.catalog.changes.waiting import ChangeQueue, Edit, WaitingChange
from turnstile.catalog.core.entities import Namespace
from turnstile.catalog.reader import CatalogReader, View
from turnstile.catalog.store import CatalogStore
from turnstile.coordination.core.rows import create_object
from turnstile.store.core.errors import (
    AlreadyExists,
    ErrorType,
    NotFound,
    OutcomeUnknown,
    StateConflict,
    StorageFault,
    Throttled,
)
from turnstile.store.ports import World

NAMES: Final = ("a", "b", "c")
SEATS: Final = 12
DEADLINE_MS: Final = 4_000
KINDS: Final[tuple[Kind, ...]] = ("create", "create", "drop", "drop", "ensure", "claim")


class Bypass(Owner):
    """Makes one change after the other, each alone."""

    times = 25

    def __init__(
        self, state: State, name: str, rng: random.Random, auditor: OwnerAuditor, changes: ChangeAuditor
    ) -> None:
        super().__init__(state, name, rng, auditor)
        self._changes = changes
        self._numbers = 0

    def start(self, world: World) -> None:
        self._world = world
        reader = CatalogReader(world, CatalogStore(world, TIGHT))
        self.committer = Committer(world, reader, pause=self.process.pause, deadline_ms=DEADLINE_MS, queued=False)

    def act(self) -> None:
        asked, change, handler = self.ask()
        try:
            tree = self.committer.commit(CATALOG, change, on_rejected=handler)
        except Crashed:
            raise
        except Exception as error:
            self.told(asked, error)
        else:
            self.told(asked, tree.commit.message == asked.id)

    def ask(self) -> tuple[Asked, ChangeFunction, Any]:
        """A requested change, with a mark that tells which row refused it."""
        self._numbers += 1
        id = f"{self.name} {self._numbers}"
        kind = self.rng.choice(KINDS)
        name = self.rng.choice(NAMES)
        seat = self._world.space.updateable(f"seat-{self.rng.randrange(SEATS)}")
        world = self._world

        def change(view: View) -> Edit | None:
            there = view.tree.find((name,)) is not None
            if there:
                view.entity(view.tree.namespace((name,)).obj)
            match kind:
                case "claim":
                    return Edit(id, writes=(create_object(seat, "seat", id, b"", world.clock.now_ms()),))
                case "drop":
                    if not there:
                        raise NotFound("namespace", name)
                    return Edit(id, remove=((name,),))
                case "create" if there:
                    raise AlreadyExists(name)
                case "ensure" if there:
                    return None
            return Edit(id, put={(name,): Namespace(name, id, 1)})

        def rejected(_rows: Any) -> None:
            raise StateConflict(ErrorType.LOCATION_OWNED, f"{seat} is taken")

        return self._changes.asked(id, kind, name), change, rejected

    def told(self, asked: Asked, outcome: Exception | bool) -> None:
        """The client hears an error; or whether its change made a commit."""
        self.met(f"change {asked.kind} {type(outcome).__name__ if isinstance(outcome, Exception) else outcome}")
        match outcome:
            case True:
                self._changes.acknowledged(asked)
            case False:
                self._changes.unchanged(asked)
            case AlreadyExists() | NotFound():
                fits = isinstance(outcome, NotFound) == (asked.kind == "drop") and asked.kind != "claim"
                if fits:
                    self._changes.refused(asked, by_row=False)
                else:
                    self._changes.refused_by_another(asked, outcome)
            case StateConflict() if outcome.type == "LocationOwned":
                if asked.kind == "claim":
                    self._changes.refused(asked, by_row=True)
                else:
                    self._changes.refused_by_another(asked, outcome)
            case StateConflict() | Throttled():
                self._changes.refused(asked, by_row=True)  # nothing was applied, and nothing will be
            case OutcomeUnknown() | StorageFault():
                pass
            case _:
                self._changes.refused_by_another(asked, outcome)


class GroupServer(Bypass):
    """Applies several changes at a time; more come while it is at it."""

    def start(self, world: World) -> None:
        super().start(world)
        self._reader = CatalogReader(world, CatalogStore(world, TIGHT))
        self.committer = Committer(world, self._reader, pause=self.process.pause, deadline_ms=DEADLINE_MS)

    def act(self) -> None:
        self._queue = ChangeQueue()
        self._waiting = list[tuple[Asked, WaitingChange]]()
        self._more = 4
        for _ in range(self.rng.randint(1, 5)):
            self._join()
        told = set[str]()
        while self._waiting:
            line = self._queue._lines[self._reader.key(CATALOG)]
            own = line.waiting[0]
            try:
                self.committer.lead(self._queue, CATALOG, own, line)
            finally:
                self._tell(told)
                own.settle(OutcomeUnknown("it ended"))
            self._queue._hand_over(self._reader.key(CATALOG), line)
            self._tell(told)

    def _tell(self, told: set[str]) -> None:
        """Returns outcomes to clients as soon as they are certain."""
        for asked, waiting in self._waiting:
            if waiting.is_settled and asked.id not in told:
                told.add(asked.id)
                try:
                    tree = waiting.outcome()
                except Exception as error:
                    self.told(asked, error)
                else:
                    self.told(asked, tree.commit.message == asked.id)
        self._waiting = [(asked, waiting) for asked, waiting in self._waiting if asked.id not in told]

    def _join(self) -> None:
        asked, change, handler = self.ask()

        def busy(view: View) -> Edit | None:
            if self._more and self.rng.random() < 0.3:
                self._more -= 1
                self._join()
            return change(view)

        waiting = self.committer.waiting(CATALOG, busy, None, handler)
        self._waiting.append((asked, waiting))
        self._queue._join(self._reader.key(CATALOG), waiting)
