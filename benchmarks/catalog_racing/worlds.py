"""Worlds to race in, each with a realm of its own on shared tables; and virtual time.

In virtual time threads run one at a time, always the one whose waiting ends first. Computing takes
no time; requests and pauses do. So a busy machine changes no figure.
"""

from __future__ import annotations

import heapq
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from benchmarks.catalog_racing.metering import Delay, Meter, MeteredObjs, MeteredRefs, at_once
from tests.support.store.backends import Backend
from turnstile.adapters.machine import RandomIds, SystemClock
from turnstile.adapters.opening import FileStorages
from turnstile.catalog import services as bootstrap
from turnstile.catalog.changes.waiting import ChangeQueue, Edit
from turnstile.catalog.core.entities import Entity, Namespace
from turnstile.catalog.core.paths import Path
from turnstile.catalog.services import build
from turnstile.store.core.rows import Space
from turnstile.store.ports import Clock, World
from turnstile.store.queue import Waiting

CATALOG: Final = "main"
_LAKE: Final = "file:///lake"
_REALMS = itertools.count()
_BEGAN_MS: Final = 1_770_000_000_000
T = TypeVar("T")


class Place(msgspec.Struct, frozen=True):
    """A catalog that another process can find: ``name`` and ``url`` of the backend, and its
    realm."""

    name: str
    url: str
    realm: str

    def world(self, meter: Meter | None = None) -> World:
        """A world of one's own on the catalog's tables."""
        return world_of(Backend(self.name, self.url), self.realm, meter)


def credentials() -> None:
    """What clients of AWS insist on; local servers take anything."""
    for name, value in (("ACCESS_KEY_ID", "test"), ("SECRET_ACCESS_KEY", "test"), ("DEFAULT_REGION", "us-east-1")):
        os.environ.setdefault(f"AWS_{name}", value)


def world_of(
    backend: Backend, realm: str, meter: Meter | None = None, *, delay: Delay = at_once, clock: Clock | None = None
) -> World:
    """Ports on ``backend``, metered if there is a meter."""
    sent = meter if backend.real else None  # the fake sends nothing; its calls are what is counted
    refs = backend.refs(sent, realm=realm)
    objs = backend.objs(sent)
    if meter is not None:
        named = not backend.real
        refs = MeteredRefs(refs, meter, delay=delay, named=named)
        objs = MeteredObjs(objs, meter, delay=delay, named=named)
    return World(refs, objs, FileStorages(None), clock or SystemClock(), RandomIds(), Space(realm))


def fresh_realm(backend: Backend, names: int = 0) -> str:
    """A realm with ``main``, in which ``names`` namespaces are there already: made in one
    change."""
    realm = f"race{next(_REALMS)}"
    world = world_of(backend, realm)
    bootstrap.ensure(world, lake_root=_LAKE)
    if names:
        there: dict[Path, Entity] = {
            (f"filler_{number:06d}",): Namespace(f"filler_{number:06d}", world.ids.uuid(), 1) for number in range(names)
        }
        build(world, lake_root=_LAKE).committer.commit(CATALOG, lambda _: Edit("fill", put=there))
    return realm


class VirtualTime:
    """A clock, a way to wait, and the threads that do; ``turnstile.store.ports.Clock`` as well."""

    def __init__(self) -> None:
        self._now = 0.0
        self._numbers = itertools.count()
        self._waiting: list[tuple[float, int, threading.Event]] = []

    def seconds(self) -> float:
        """Since the beginning."""
        return self._now

    def now_ms(self) -> int:
        return _BEGAN_MS + int(self._now * 1000)

    def sleep(self, seconds: float) -> None:
        """Let others run for so long."""
        event = threading.Event()
        self.wake(event, seconds)
        self.wait(event)

    def wake(self, event: threading.Event, seconds: float = 0.0) -> None:
        """Let the thread that waits for ``event`` go on after so long."""
        heapq.heappush(self._waiting, (self._now + seconds, next(self._numbers), event))

    def wait(self, event: threading.Event) -> None:
        """Let others run until another thread wakes ``event``."""
        self._next()
        event.wait()

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Results of ``tasks``, each of which starts now in a thread of its own."""
        results: dict[int, T] = {}
        failed: list[BaseException] = []

        def run_task(number: int, task: Callable[[], T], start: threading.Event) -> None:
            start.wait()
            try:
                results[number] = task()
            except BaseException as error:
                failed.append(error)
            finally:
                self._next()

        threads = []
        for number, task in enumerate(tasks):
            start = threading.Event()
            threads.append(threading.Thread(target=run_task, args=(number, task, start)))
            threads[-1].start()
            self.wake(start)
        self._next()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        return [results[number] for number in range(len(tasks))]

    def _next(self) -> None:
        if self._waiting:
            self._now, _, event = heapq.heappop(self._waiting)
            event.set()


class InVirtualTime:
    """How the requests of a ``store.queue`` wait in virtual time. Nobody's patience ends."""

    def __init__(self, time: VirtualTime, *rest: Any) -> None:
        super().__init__(*rest)
        self._time = time

    def _wait(self, waiting: Waiting[Any], seconds: float) -> bool:
        self._time.wait(waiting.turn)
        return True

    def _wake(self, waiting: Waiting[Any]) -> None:
        self._time.wake(waiting.turn)


class VirtualQueue(InVirtualTime, ChangeQueue):
    """``group_commit.ChangeQueue`` in virtual time."""
