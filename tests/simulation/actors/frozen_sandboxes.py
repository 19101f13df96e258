"""Actors for sandboxes that freeze: clients that send a change under a key until it is answered,
clients that go back to a named HEAD without its name, and the store's removal of expired rows."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.simulation.actors.catalog_history import PastActor, PastSandbox, Resets, SnapshotUser, Unanswered
from tests.simulation.auditors.catalog_history import COUNTED, COUNTER
from tests.simulation.engine.plans import HOUR, MINUTE, SECOND
from tests.simulation.engine.processes import CATALOG
from tests.simulation.engine.state import State
from turnstile.catalog.changes.idempotency import IdempotentCommitter
from turnstile.catalog.core.entities import NAMESPACE
from turnstile.catalog.core.merges import Merge
from turnstile.catalog.core.paths import path_of
from turnstile.catalog.history.core import AsOf
from turnstile.store.core.errors import StateConflict, Throttled


class Makers(PastActor):
    """Creates namespaces that no other actor creates, so that a thawed change can go on as if
    nothing had happened, and drops them."""

    times = 8

    def act(self) -> None:
        made = [path for key in self.state.trees.now[CATALOG].names(NAMESPACE) if (path := path_of(key))[0][0] == "m"]
        if made and self.rng.random() < 0.5:
            path = self.rng.choice(made)
            self.ask(lambda box: box.services.namespace_dropper.drop(CATALOG, path))
            return
        path = (f"m{self.rng.randrange(10**9)}",)
        self.ask(lambda box: box.services.namespaces.create(CATALOG, path), tries=1)
        self.met("made")


class KeyedCounter(PastActor):
    """Merges into a counter under a key, and sends the same again until there is an answer: it is
    applied once."""

    times = 8

    def act(self) -> None:
        number = self.auditor.begin_merge()
        merge = {COUNTER: Merge("add", 1 << number)}
        key = self.state.space.request(CATALOG, self.name, str(number))

        def question(box: PastSandbox) -> None:
            once = IdempotentCommitter(
                box.world, box.services.reader, key=key, asked="merge", final=lambda _: 0, pause=box.process.pause
            )
            by = box.services.committing_with(once)
            once.run(lambda: by.namespaces.update(CATALOG, COUNTED, merge=merge) and None, lambda _: None)

        for _ in range(4):
            try:
                self.send(question)
            except (*Unanswered, Throttled, StateConflict):
                self.state.scheduler.sleep(self.rng.choice((100, SECOND, 40 * SECOND)))
                continue
            self.met("merged with a key")
            self.auditor.told_merged(number)
            return


class LateResets(Resets):
    """Goes back to a named HEAD, but not by its name, or to a HEAD that is about to leave the kept
    history; often it is frozen with its swap in hand."""

    def act(self) -> None:
        to = _past(self) if self.rng.random() < 0.7 else None
        if to is None:
            super().act()
            return
        _held_up(self, lambda box: box.services.resetter.reset(CATALOG, to))
        self.met("reset to what may go")


class Renamer(SnapshotUser):
    """Gives a HEAD that has a name, or is about to leave the kept history, another one, and takes
    names away."""

    def act(self) -> None:
        to = _past(self) if self.rng.random() < 0.6 else None
        if to is None:
            super().act()
            return
        name = self.rng.choice(("autumn", "winter"))
        if self.rng.random() < 0.6:
            _held_up(self, lambda box: box.services.named_snapshots.create(CATALOG, name, of=to))
            self.met("another name")
        else:
            self.ask(lambda box: box.services.named_snapshots.drop(CATALOG, name))


def _past(actor: PastActor) -> AsOf | None:
    """A HEAD that is about to leave the kept history, or one that has a name, by its id or its
    number."""
    trees = actor.state.trees
    rng = actor.rng
    began = actor.state.scheduler.now - actor.state.grace.history_ms
    leaving = [one for one in trees.heads.values() if one.until and began < one.until < began + 90 * MINUTE]
    if leaving and rng.random() < 0.7:
        return AsOf(head=rng.choice([one for one in leaving if one.catalog == CATALOG] or [trees.now[CATALOG]]).id)
    named = trees.snapshots(trees.now[CATALOG])
    one = rng.choice(named) if named else None
    return one and rng.choice((AsOf(head=one.head), AsOf(seq=one.seq)))


def _held_up(actor: PastActor, question: Callable[[PastSandbox], object]) -> None:
    """Ask once; half of the time the sandbox is frozen when it swaps the HEAD."""
    frozen = actor.rng.random() < 0.5

    def asked(box: PastSandbox) -> None:
        key = box.world.space.catalog(CATALOG)
        box.process.freezes_at = (f"write {key}", f"transact {key}") if frozen else ()
        question(box)

    actor.ask(asked, tries=1)


class Expiry:
    """The store removes rows when their time is over."""

    def __init__(self, state: State, rng: random.Random) -> None:
        self._state = state
        self._rng = rng

    def __call__(self) -> None:
        refs = self._state.refs
        scheduler = self._state.scheduler
        while True:
            scheduler.sleep(self._rng.randrange(1, HOUR))
            for key in [
                key for key, row in refs.rows.items() if row.get("expires", scheduler.now) * 1000 < scheduler.now
            ]:
                self._state.auditor.seen["row expired"] += 1
                del refs.rows[key]
