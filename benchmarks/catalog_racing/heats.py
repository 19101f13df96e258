"""Writers as threads or as processes: all start together, and what they were told and what it cost is gathered."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from time import perf_counter, sleep
from typing import Any, Literal

import msgspec

from benchmarks.catalog_racing.audit import violations
from benchmarks.catalog_racing.metering import Counts, Meter, Network
from benchmarks.catalog_racing.places import Place, fresh_realm, world_of
from benchmarks.catalog_racing.virtual import VirtualLine, VirtualTime
from benchmarks.catalog_racing.writers import Kind, Told, Writer
from tests.support.store.backends import Backend
from turnstile.catalog.commit import DEADLINE_MS, Committer
from turnstile.catalog.reader import CatalogReader
from turnstile.catalog.retry import STARVING
from turnstile.catalog.services import build
from turnstile.catalog.store import CatalogStore
from turnstile.store.core.limits import Limits
from turnstile.store.ports import World

Mode = Literal["line", "no line", "sandboxes", "processes"]
"""How writers share: ``line`` and ``no line`` are threads of one process with one cache, which stand in line or do not;
``sandboxes`` are threads that share nothing but the tables; ``processes`` are processes."""

_PATIENCE = 120  # seconds, for processes to start


Through = Callable[[World], World]
"""What a sandbox sees of a world: for tests, in which stores fail."""


def _as_it_is(world: World) -> World:
    return world


class Race(msgspec.Struct, frozen=True):
    """What is raced for: ``kinds`` of changes, one writer each, for ``seconds`` or ``commits`` each.

    ``names`` are in the catalog before; ``starving`` and ``deadline_ms`` as the Committer has them (of 1 and more nobody
    asks for a turn).
    """

    mode: Mode
    kinds: tuple[Kind, ...]
    seconds: float = 0.0
    commits: int = 0
    names: int = 0
    starving: float = STARVING
    deadline_ms: int = DEADLINE_MS
    limits: Limits = Limits()

    def run(self, writer: Writer) -> Told:
        return writer.commits(self.commits) if self.commits else writer.commits_for(self.seconds)


class Heat(msgspec.Struct):
    """A race that was run: what every writer was told, what it cost, and every violated property as a sentence."""

    race: Race
    realm: str
    told: list[Told]
    counts: Counts
    seconds: float
    violations: list[str]

    @property
    def commits(self) -> int:
        """Acknowledged commits."""
        return sum(len(one.acknowledged) for one in self.told)

    @property
    def per_second(self) -> float:
        """Commits acknowledged a second, of the time in which everybody raced."""
        if self.race.commits:
            return self.commits / self.seconds
        within = sum(ended <= self.race.seconds for one in self.told for ended in one.ended)
        return within / self.race.seconds

    def ms(self, part: float, kind: Kind | None = None) -> float:
        """The ``part`` quantile (1: the longest) of what a commit took, of writers of a kind."""
        chosen = zip(self.told, self.race.kinds, strict=True)
        times = sorted(taken for one, of in chosen if kind in (None, of) for taken in one.ms)
        return times[min(len(times) - 1, int(len(times) * part))] if times else 0.0


def run(backend: Backend, race: Race, *, latency: float = 0.0, through: Through = _as_it_is) -> Heat:
    """Race in a fresh realm of ``backend``, and check what came of it.

    Args:
        latency: times that of ``Network``, in virtual time; 0 for the backend's own. The fake's threads only.
        through: what threads see of the world; processes see it as it is.
    """
    realm = fresh_realm(backend, race.names)
    began = perf_counter()
    if race.mode == "processes":
        told, counts = _processes(backend, realm, race)
    elif latency:
        told, counts = _virtually(backend, realm, race, latency)
    else:
        told, counts = _threads(race, lambda meter: through(world_of(backend, realm, meter)))
    seconds = perf_counter() - began
    cold = build(world_of(backend, realm), lake_root="file:///lake", limits=race.limits)
    return Heat(race, realm, told, counts, seconds, violations(cold, told))


def _committer(world: World, race: Race, time: VirtualTime | None = None) -> Committer:
    reader = CatalogReader(world, CatalogStore(world, race.limits.spill))
    if time is not None:
        reader.store.line = VirtualLine(time)
    return Committer(
        world,
        reader,
        pause=time.sleep if time else sleep,
        deadline_ms=race.deadline_ms,
        in_line=race.mode != "no line",
        starving=race.starving,
    )


def _virtually(backend: Backend, realm: str, race: Race, latency: float) -> tuple[list[Told], Counts]:
    meter, time = Meter(), VirtualTime()
    network = Network(latency, time.sleep)

    def sandbox() -> Committer:
        return _committer(world_of(backend, realm, meter, delay=network, clock=time), race, time)

    shared, own = sandbox(), race.mode == "sandboxes"
    writers = [
        Writer(_name(number), sandbox() if own else shared, kind, meter, time.seconds)
        for number, kind in enumerate(race.kinds)
    ]
    return time.run([partial(race.run, writer) for writer in writers]), meter.counts


def _threads(race: Race, world: Callable[[Meter], World]) -> tuple[list[Told], Counts]:
    meter = Meter()
    shared = _committer(world(meter), race)
    own = race.mode == "sandboxes"
    writers = [
        Writer(_name(number), _committer(world(meter), race) if own else shared, kind, meter)
        for number, kind in enumerate(race.kinds)
    ]
    together = threading.Barrier(len(writers))

    def one(writer: Writer) -> Told:
        together.wait()
        return race.run(writer)

    with ThreadPoolExecutor(len(writers)) as pool:
        return list(pool.map(one, writers)), meter.counts


def _processes(backend: Backend, realm: str, race: Race) -> tuple[list[Told], Counts]:
    assert backend.url is not None, "processes meet at a URL only"
    place, context = Place(backend.name, backend.url, realm), get_context("forkserver")
    context.set_forkserver_preload([__name__])
    together, answers = context.Barrier(len(race.kinds)), context.Queue()
    racers = [
        context.Process(target=_process, args=(place, race, number, together, answers), daemon=True)
        for number in range(len(race.kinds))
    ]
    for racer in racers:
        racer.start()
    found: dict[int, Told] = {}
    counts = Counts()
    for _ in racers:
        number, told, cost = answers.get(timeout=_PATIENCE + race.seconds)
        found[number] = told
        counts.add(cost)
    for racer in racers:
        racer.join()
    return [found[number] for number in range(len(racers))], counts


def _process(place: Place, race: Race, number: int, together: Any, answers: Any) -> None:
    """What one process does."""
    meter = Meter()
    world = place.world(meter)
    writer = Writer(_name(number), _committer(world, race), race.kinds[number], meter)
    world.refs.read(world.space.catalog("main"))  # the connection, and the client's first steps
    meter.start()
    together.wait(_PATIENCE)
    told = race.run(writer)
    answers.put((number, told, meter.counts))


def _name(number: int) -> str:
    return f"w{number:02d}"
