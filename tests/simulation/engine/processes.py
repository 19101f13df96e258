"""Server sandboxes and the way to them: a request runs in a process of its own, and its answer may
never come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Any, Final, Generic, Self, TypeVar
from unittest.mock import patch

from tests.simulation.engine.plans import MINUTE, SECOND
from tests.simulation.engine.ports import Process, SimObjs, SimRefs, SimStorages
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from turnstile.catalog import load
from turnstile.catalog.catalogs import Catalogs
from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.create import Registrar, Staging
from turnstile.catalog.drop import Dropper
from turnstile.catalog.load import Loader
from turnstile.catalog.locations import Zones
from turnstile.catalog.namespaces import Namespaces
from turnstile.catalog.reader import CatalogReader
from turnstile.catalog.rename import Renamer
from turnstile.catalog.store import CatalogStore
from turnstile.delta import commits, sweep
from turnstile.delta.commits import Commits
from turnstile.delta.identity import Outcomes
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.publish import Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.delta.transactions import cuts
from turnstile.gc import scanner as gc_files
from turnstile.planning import changes
from turnstile.store.core.errors import OutcomeUnknown, TurnstileError
from turnstile.store.core.limits import Limits, SpillLimits
from turnstile.store.ports import World

T = TypeVar("T")
TIMEOUT = 30 * SECOND
LIFE = 15 * MINUTE
"""How long a function may take, and a write of it be on its way."""
LAKE = "file:///lake"
CATALOG = "main"
NAMESPACE = ("default",)


class _OneByOne:
    """Stands in for ThreadPoolExecutor: a simulated process has one thread."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, function: Callable[..., T], *items: Any) -> list[T]:
        return [function(*item) for item in zip(*items, strict=True)]

    def submit(self, function: Callable[..., T], *args: Any, **more: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(function(*args, **more))
        except Exception as error:
            future.set_exception(error)
        return future

    def shutdown(self, *_: Any, **__: Any) -> None:
        pass


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Services work one step after the other, as the scheduler wants them; threads are back
    afterwards for the other tests of this process."""
    with ExitStack() as stack:
        for module in (commits, load, gc_files, changes, sweep, cuts):
            stack.enter_context(patch.object(module, "ThreadPoolExecutor", _OneByOne))
        yield


def world_of(process: Process) -> World:
    """A world whose every port call is a step of ``process``."""
    state = process.state
    return World(
        refs=SimRefs(process),
        objs=SimObjs(process),
        storages=SimStorages(process),
        clock=process,
        ids=state,
        space=state.space,
    )


class Sandbox:
    """A server process of the commit function, with the caches it fills over its life."""

    def __init__(self, process: Process, limits: Limits | None = None) -> None:
        world = world_of(process)
        self.ratifier = Ratifier(world, limits)
        self.commits = Commits(world)
        self.outcomes = Outcomes(world)


TIGHT: Final = SpillLimits(embedded=100, segment=250)
"""A catalog of a few tables spills its index, splits and joins segments."""


class CatalogSandbox:
    """A server process of the catalog function."""

    def __init__(self, process: Process) -> None:
        world = world_of(process)
        self.reader = CatalogReader(world, CatalogStore(world, TIGHT))
        committer = Committer(world, self.reader, queued=False)  # one thread, and it may stall for ever
        self.catalogs = Catalogs(world, self.reader, committer)
        self.namespaces = Namespaces(world, self.reader, committer)
        self.staging = Staging(world, self.reader, Zones(world), LAKE)
        self.registrar = Registrar(world, self.reader, committer, MetadataStore(world.objs, world.space), Limits())
        self.renamer = Renamer(world, self.reader, committer)
        self.dropper = Dropper(world, self.reader, committer, Publisher(world))
        self.loader = Loader(world, self.reader, MetadataStore(world.objs, world.space), Commits(world))


S = TypeVar("S")


class Client(Generic[S]):
    """One client's connection: requests go to its sandbox until that dies or is too busy to answer.

    Args:
        life: how long the function may take for one request (ms); None: for as long as it is held
            up.
    """

    def __init__(self, state: State, name: str, make: Callable[[Process], S], life: int | None = None) -> None:
        self.state = state
        self.name = name
        self._make = make
        self._life = life
        self._count = 0
        self._sandbox: S | None = None
        self._process: Process | None = None

    def ask(self, question: Callable[[S], T]) -> T:
        """The server's answer.

        Raises:
            OutcomeUnknown: the process died or did not answer in time; it may yet do its work.
        """
        scheduler = self.state.scheduler
        if self._sandbox is None:
            self._count += 1
            self._process = Process(self.state, f"{self.name}/{self._count}")
            self._sandbox = self._make(self._process)
        sandbox = self._sandbox
        box = []
        if self._life is not None and self._process is not None:
            self._process.ends = scheduler.now + self._life
        waiting = scheduler.running

        def serve() -> None:
            try:
                box.append((question(sandbox), None))
            except Crashed:
                box.append((None, OutcomeUnknown("the process died")))
            except TurnstileError as error:
                box.append((None, error))
            waiting.wake_ms = 0

        scheduler.add(f"{self.name}/{self._count}", serve)
        scheduler.sleep(TIMEOUT)
        if not box:
            self._sandbox = None
            raise OutcomeUnknown("no answer in time")
        answer, error = box[0]
        if isinstance(error, OutcomeUnknown) and "died" in error.message:
            self._sandbox = None
        if error is not None:
            raise error
        return answer  # type: ignore[return-value]
