"""The scenario of tables that are registered before their version 0 is written: clients that name,
write, load, rename and drop them, and a collector that gives them up (I25)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.actors.catalog import prepare, version_zero
from tests.simulation.auditors.record import Violation
from tests.simulation.engine.plans import KINDS as FAULTS
from tests.simulation.engine.plans import SECOND, Plan
from tests.simulation.engine.ports import Process, SimStorages
from tests.simulation.engine.processes import CATALOG, NAMESPACE, TIGHT, CatalogSandbox, Client, world_of
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from tests.simulation.mistakes.tables import swapped
from tests.simulation.scenarios.scenario import Actor
from turnstile.catalog.awaited import Adoption, AwaitedDrops, Awaiting
from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.core.entities import External, Table, is_awaited
from turnstile.catalog.load import Loader
from turnstile.catalog.reader import CatalogReader, View
from turnstile.catalog.store import CatalogStore
from turnstile.delta.commits import Commits
from turnstile.delta.metadata import MetadataStore
from turnstile.gc.collector import Collector
from turnstile.gc.core import Grace
from turnstile.gc.kinds.staged import StagingTableScanner
from turnstile.rights.grants import OPERATOR
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.limits import Limits
from turnstile.store.core.writes import Clause, Erase, Present

NAMES: Final = ("a", "b")
GRACE: Final = Grace(staging_ms=3 * SECOND)


class _Sandbox(CatalogSandbox):
    def __init__(self, process: Process) -> None:
        super().__init__(process)
        world = world_of(process)
        reader = CatalogReader(world, CatalogStore(world, TIGHT))
        committer = Committer(world, reader, queued=False)
        metadata = MetadataStore(world.objs, world.space)
        self.awaiting = Awaiting(world, reader, committer)
        self.adoption = Adoption(world, committer, metadata, limits=Limits())
        self.loader = Loader(world, reader, metadata, Commits(world), adopt=self.adoption.adopt)


class Early:
    """A client that names tables before it writes them, some of them twice, and makes all other
    requests for such a table."""

    def __init__(
        self, state: State, name: str, rng: random.Random, staged: list[tuple[str, str]], dropped: set[str]
    ) -> None:
        self._state = state
        self._name = name
        self._rng = rng
        self._staged = staged
        self._dropped = dropped
        self._client = Client(state, name, _Sandbox)
        self._process = Process(state, name, client=True)

    def __call__(self) -> None:
        acts = (
            self._stage,
            self._name_one,
            self._name_one,
            self._write,
            self._load,
            self._load,
            self._rename,
            self._drop,
        )
        for _ in range(40):
            try:
                self._rng.choice(acts)()
            except (Crashed, TurnstileError) as error:
                self._state.auditor.seen[f"early {type(error).__name__}"] += 1
            self._state.scheduler.sleep(self._rng.choice((1, 50, SECOND)))

    def _stage(self) -> None:
        made = self._client.ask(
            lambda sandbox: sandbox.staging.create(CATALOG, NAMESPACE, f"s{self._rng.random()}", free_names=True)
        )
        self._staged.append((made.table_id, made.location))

    def _name_one(self) -> None:
        table_id, _ = self._rng.choice(self._staged or [("", "")])
        name = self._rng.choice(NAMES)
        if self._rng.random() < 0.3:
            self._client.ask(lambda sandbox: sandbox.registrar.register(CATALOG, NAMESPACE, name, table_id))
            return
        self._client.ask(
            lambda sandbox: sandbox.awaiting.register(
                CATALOG, NAMESPACE, name, table_id, about=External(), comment=None, principal=OPERATOR
            )
        )
        self._state.auditor.seen["early registered"] += 1

    def _write(self) -> None:
        table_id, location = self._rng.choice(self._staged or [("", "")])
        if location:
            raw = version_zero(self._state.scheduler.now, table_id)
            SimStorages(self._process).open(location).put_if_absent(f"_delta_log/{0:020d}.json", raw)

    def _load(self) -> None:
        name = self._rng.choice(NAMES)
        found = self._client.ask(lambda sandbox: sandbox.loader.find(CATALOG, NAMESPACE, name))
        self._state.auditor.seen[f"early {type(found).__name__}"] += 1

    def _rename(self) -> None:
        source, target = self._rng.sample(NAMES, 2)
        self._client.ask(lambda sandbox: sandbox.renamer.rename(CATALOG, NAMESPACE, source, target, external=True))

    def _drop(self) -> None:
        name = self._rng.choice(NAMES)
        table_id = self._client.ask(lambda sandbox: sandbox.reader.resolve(CATALOG, NAMESPACE, name).table_id)
        self._client.ask(lambda sandbox: AwaitedDrops(world_of(self._process), sandbox.awaiting._committer).drop(
            CATALOG, NAMESPACE, name, table_id
        ))  # fmt: skip
        self._dropped.add(table_id)
        self._state.auditor.seen["early dropped"] += 1


class Awaited:
    """Tables whose version 0 is awaited (I9, I10, I25)."""

    name = "awaited"
    grace = GRACE

    def plan(self, seed: int) -> Plan:
        """Two or three clients and a collector."""
        rng = random.Random(f"awaited/{seed}")
        return Plan(
            seed=seed,
            actors=(*(f"early-{n}" for n in range(rng.randint(2, 3))), "collector"),
            faults=tuple(
                kind for kind in FAULTS if kind != "jump" and rng.random() < 0.5
            ),  # who is given up is a matter of clocks
            rate=rng.choice((0.0, 0.02, 0.08)),
            steps=rng.choice((400, 800)),
            row_tracking=False,
            keep=rng.choice((3, 20)),
        )

    def limits(self, plan: Plan) -> AbstractContextManager[Any]:
        """None is made small."""
        return nullcontext()

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """A catalog with one namespace."""
        prepare(state)
        staged = list[tuple[str, str]]()
        dropped = set[str]()
        self._dropped = dropped
        for number, name in enumerate(plan.actors):
            rng = random.Random(f"{plan.seed}/{name}/{number}")
            if name == "collector":
                yield Actor(name, lambda rng=rng: _collect_again_and_again(state, rng))  # type: ignore[misc]
            else:
                yield Actor(name, Early(state, name, rng, staged, dropped), leads=True)

    def settle(self, state: State, plan: Plan) -> None:
        """Each name is loaded once more, and the collector has two turns; then every table is one
        or the other."""
        world = world_of(Process(state, "at rest", prone=False))
        sandbox = _Sandbox(Process(state, "at rest", prone=False))
        for name in NAMES:
            try:
                sandbox.loader.find(CATALOG, NAMESPACE, name)
            except TurnstileError:
                continue
        state.scheduler.now += 10 * SECOND
        for _ in range(2):
            Collector(world, GRACE, workers=1).collect(("staging",), dry_run=False)
        self._check(world)
        state.trees.at_rest()

    def _check(self, world: Any) -> None:
        reader = CatalogReader(world)
        view = View(reader.current(CATALOG), reader.store)
        named = dict[str, Table]()
        for name in NAMES:
            if view.tree.find((*NAMESPACE, name)) is None:
                continue
            table = view.table(NAMESPACE, name)
            if table.table_id in named:
                raise Violation("I9", f"{table.table_id} has two names")
            named[table.table_id] = table
        for table_id, table in named.items():
            row = world.refs.read(world.space.table(table_id))
            if is_awaited(table):
                raise Violation("I25", f"{table_id} is awaited although the collector gave it up")
            if row is None:
                raise Violation("I9", f"{table_id} has a name and no HEAD")
            if world.storages.open(table.location).stat(f"_delta_log/{0:020d}.json") is None:
                raise Violation("I25", f"{table_id} has a HEAD and no version 0")
        for table_id in self._dropped:
            if world.refs.read(world.space.table(table_id)) is not None:
                raise Violation("I25", f"{table_id} was adopted after it was dropped")


def _collect_again_and_again(state: State, rng: random.Random) -> None:
    state.collectors.append(state.scheduler.running)
    while True:
        state.scheduler.sleep(rng.choice((500, 2 * SECOND)))
        try:
            Collector(world_of(Process(state, "collector")), GRACE, workers=1).collect(("staging",), dry_run=False)
        except (Crashed, TurnstileError):
            continue


# -- planted mistakes -------------------------------------------------------------------------------------------------


def _names_are_kept() -> Any:
    """The collector removes the files of a table that it gives up, and not its name."""
    return patch.object(AwaitedDrops, "forget", lambda *_: None)


def _whatever_its_state(path: str) -> Callable[[], Any]:
    """A write that takes a staging table in any state."""
    return lambda: swapped(path, lambda _: lambda key: Erase(key, (Clause("there", "I25", "", Present(("state",))),)))


def _adopted_late() -> Any:
    """A table that was given up is adopted, and the collector does not look again before it removes
    files: each alone is caught by the other."""
    stack = ExitStack()
    stack.enter_context(_whatever_its_state("turnstile.catalog.awaited.adopt_staging")())
    stack.enter_context(patch.object(StagingTableScanner, "_require_unregistered", lambda *_: None))
    return stack


AWAITED_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "awaited: adopted after it was given up": (_adopted_late, "I10"),
    "awaited: registered under a second name": (_whatever_its_state("turnstile.catalog.create.use_staging"), "I9"),
    "awaited: given up, and named": (_names_are_kept, "I25"),
}
"""The planted mistake, and the invariant that it breaks."""
