"""Actors that change the catalog: create, rename and drop tables, and load them by name."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.simulation.engine.plans import DAY, HOUR, SECOND
from tests.simulation.engine.ports import Process, SimStorages
from tests.simulation.engine.processes import CATALOG, NAMESPACE, CatalogSandbox, Client
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from tests.support.fakes import delta
from turnstile.store.core.errors import (
    AlreadyExists,
    ErrorType,
    NotFound,
    OutcomeUnknown,
    StateConflict,
    StorageFault,
    Throttled,
    TurnstileError,
)

Retryable = (OutcomeUnknown, Throttled, StorageFault)
NAMES = ("t", "u", "v")
TABLE = "t"


def prepare(state: State) -> None:
    """A catalog with one namespace."""
    process = Process(state, "prepare", prone=False)
    process.free = True
    sandbox = CatalogSandbox(process)
    sandbox.catalogs.create(CATALOG)
    sandbox.namespaces.create(CATALOG, NAMESPACE)


def create(state: State, name: str, *features: str) -> str:
    """A registered table, made without faults; its uuid."""
    return create_from(state, name, lambda now, table_id: version_zero(now, table_id, *features))


def create_from(state: State, name: str, zero: Callable[[int, str], bytes]) -> str:
    """A registered table, made without faults; its uuid. ``zero``: returns its version 0, by the
    time and the uuid."""
    process = Process(state, "prepare", prone=False)
    process.free = True
    sandbox = CatalogSandbox(process)
    made = sandbox.staging.create(CATALOG, NAMESPACE, name)
    raw = zero(state.scheduler.now, made.table_id)
    SimStorages(process).open(made.location).put_if_absent(f"_delta_log/{0:020d}.json", raw)
    return sandbox.registrar.register(CATALOG, NAMESPACE, name, made.table_id).table_id


def version_zero(now: int, table_id: str, *features: str) -> bytes:
    return delta.version_zero(f"create {table_id}", now - 1000, *features, **{"io.unitycatalog.tableId": table_id})


class CatalogUser:
    """Creates, renames, loads and drops tables with names that other actors use, too."""

    def __init__(
        self, state: State, name: str, rng: random.Random, *, slow: bool = False, naps: tuple[int, ...] = ()
    ) -> None:
        self._state = state
        self._name = name
        self._rng = rng
        self._naps = naps or ((1, SECOND, HOUR, 2 * DAY) if slow else (1, 50, SECOND, 3 * SECOND))
        self._client = Client(state, name, CatalogSandbox)
        self._process = Process(state, name, client=True)

    def __call__(self) -> None:
        while True:
            try:
                self._rng.choice((self._create, self._create, self._rename, self._drop, self._load))()
            except (Crashed, AlreadyExists, NotFound, StateConflict):
                self._process.skew = 0
            self._state.scheduler.sleep(self._rng.choice(self._naps))

    def _create(self) -> None:
        name = self._rng.choice(NAMES[1:])
        made = self._ask(lambda sandbox: sandbox.staging.create(CATALOG, NAMESPACE, name))
        storage = SimStorages(self._process).open(made.location)
        raw = version_zero(self._state.scheduler.now, made.table_id)
        for _ in range(4):
            try:
                storage.put_if_absent(f"_delta_log/{0:020d}.json", raw)
                break
            except Retryable:
                continue
        else:
            return
        if self._rng.random() < 0.2:
            self._state.scheduler.sleep(self._rng.choice((HOUR, 2 * DAY)))
        answer = self._ask(lambda sandbox: sandbox.registrar.register(CATALOG, NAMESPACE, name, made.table_id))
        self._state.auditor.seen["registered again" if answer.replayed else "registered"] += 1
        self._state.auditor.told_registered(made.table_id)

    def _rename(self) -> None:
        one, other = self._rng.sample(NAMES, 2)
        self._ask(lambda sandbox: sandbox.renamer.rename(CATALOG, NAMESPACE, one, other))
        self._state.auditor.seen["renamed"] += 1

    def _drop(self) -> None:
        if self._rng.random() < 0.5:
            name = self._rng.choice(NAMES)
            self._ask(lambda sandbox: sandbox.dropper.drop(CATALOG, NAMESPACE, name))
            self._state.auditor.seen["dropped"] += 1

    def _load(self) -> None:
        name = self._rng.choice(NAMES)
        loaded = self._ask(lambda sandbox: sandbox.loader.load(CATALOG, NAMESPACE, name))
        self._state.auditor.seen["loaded"] += 1
        self._state.auditor.loaded(loaded.head, loaded.metadata)

    def _ask(self, question: Callable[[CatalogSandbox], Any]) -> Any:
        for _ in range(4):
            try:
                return self._client.ask(question)
            except Retryable:
                self._state.scheduler.sleep(self._rng.choice((100, SECOND, 40 * SECOND)))
            except TurnstileError as error:
                self._state.auditor.refused(error)
                raise
        raise StateConflict(ErrorType.CONCURRENT_CHANGE, "no answer")
