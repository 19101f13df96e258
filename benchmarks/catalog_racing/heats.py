"""Races of writers as threads or as processes, which all start together, and the check of the
catalog's log (I9)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from time import perf_counter, sleep
from typing import Any, Literal

import msgspec

from benchmarks.catalog_racing.metering import Counts, Meter, Network
from benchmarks.catalog_racing.worlds import CATALOG, Place, VirtualQueue, VirtualTime, fresh_realm, world_of
from benchmarks.catalog_racing.writers import Kind, Writer, WriterReport
from tests.support.store.backends import Backend
from turnstile.catalog.changes.commit import DEADLINE_MS, Committer
from turnstile.catalog.changes.retry import STARVING
from turnstile.catalog.history.log import LogEntry
from turnstile.catalog.reader import CatalogReader
from turnstile.catalog.services import CatalogServices, build
from turnstile.catalog.store import CatalogStore
from turnstile.store.core.limits import Limits
from turnstile.store.ports import World

Mode = Literal["line", "no line", "sandboxes", "processes"]
"""How writers share: ``line`` and ``no line`` are threads of one process with one cache, which
stand in line or do not; ``sandboxes`` are threads that share nothing but the tables; ``processes``
are processes."""

_PATIENCE = 120  # seconds, for processes to start
_PAGE = 17  # commits; less than any log here has, so that every walk turns pages


Through = Callable[[World], World]
"""What a sandbox sees of a world: for tests, in which stores fail."""


def _as_it_is(world: World) -> World:
    return world


class Race(msgspec.Struct, frozen=True):
    """What is raced for: ``kinds`` of changes, one writer each, for ``seconds`` or ``commits``
    each.

    ``names`` are in the catalog before; ``starving`` and ``deadline_ms`` as the Committer has them
    (of 1 and more nobody asks for a turn).
    """

    mode: Mode
    kinds: tuple[Kind, ...]
    seconds: float = 0.0
    commits: int = 0
    names: int = 0
    starving: float = STARVING
    deadline_ms: int = DEADLINE_MS
    limits: Limits = Limits()

    def run(self, writer: Writer) -> WriterReport:
        return writer.commits(self.commits) if self.commits else writer.commits_for(self.seconds)


class Heat(msgspec.Struct):
    """A race that was run: the report of every writer, what it cost, and every violated property as
    a sentence."""

    race: Race
    realm: str
    reports: list[WriterReport]
    counts: Counts
    seconds: float
    violations: list[str]

    @property
    def commits(self) -> int:
        """Acknowledged commits."""
        return sum(len(report.acknowledged) for report in self.reports)

    @property
    def per_second(self) -> float:
        """Commits acknowledged a second, of the time in which everybody raced."""
        if self.race.commits:
            return self.commits / self.seconds
        within = sum(ended <= self.race.seconds for report in self.reports for ended in report.ended)
        return within / self.race.seconds

    def ms(self, part: float, kind: Kind | None = None) -> float:
        """The ``part`` quantile (1: the longest) of what a commit took, of writers of a kind."""
        chosen = zip(self.reports, self.race.kinds, strict=True)
        times = sorted(taken for report, of in chosen if kind in (None, of) for taken in report.ms)
        return times[min(len(times) - 1, int(len(times) * part))] if times else 0.0


def run(backend: Backend, race: Race, *, latency: float = 0.0, through: Through = _as_it_is) -> Heat:
    """Race in a fresh realm of ``backend``, and check what came of it.

    Args:
        latency: times that of ``Network``, in virtual time; 0 for the backend's own. The fake's
            threads only.
        through: what threads see of the world; processes see it as it is.
    """
    realm = fresh_realm(backend, race.names)
    began = perf_counter()
    if race.mode == "processes":
        reports, counts = _processes(backend, realm, race)
    elif latency:
        reports, counts = _virtually(backend, realm, race, latency)
    else:
        reports, counts = _threads(race, lambda meter: through(world_of(backend, realm, meter)))
    seconds = perf_counter() - began
    cold = build(world_of(backend, realm), lake_root="file:///lake", limits=race.limits)
    return Heat(race, realm, reports, counts, seconds, violations(cold, reports))


def _committer(world: World, race: Race, time: VirtualTime | None = None) -> Committer:
    reader = CatalogReader(world, CatalogStore(world, race.limits.spill))
    if time is not None:
        reader.store.queue = VirtualQueue(time)
    return Committer(
        world,
        reader,
        pause=time.sleep if time else sleep,
        deadline_ms=race.deadline_ms,
        queued=race.mode != "no line",
        starving=race.starving,
    )


def _virtually(backend: Backend, realm: str, race: Race, latency: float) -> tuple[list[WriterReport], Counts]:
    meter = Meter()
    time = VirtualTime()
    network = Network(latency, time.sleep)

    def sandbox() -> Committer:
        return _committer(world_of(backend, realm, meter, delay=network, clock=time), race, time)

    shared = sandbox()
    own = race.mode == "sandboxes"
    writers = [
        Writer(_name(number), sandbox() if own else shared, kind, meter, time.seconds)
        for number, kind in enumerate(race.kinds)
    ]
    return time.run([partial(race.run, writer) for writer in writers]), meter.counts


def _threads(race: Race, world: Callable[[Meter], World]) -> tuple[list[WriterReport], Counts]:
    meter = Meter()
    shared = _committer(world(meter), race)
    own = race.mode == "sandboxes"
    writers = [
        Writer(_name(number), _committer(world(meter), race) if own else shared, kind, meter)
        for number, kind in enumerate(race.kinds)
    ]
    together = threading.Barrier(len(writers))

    def run_writer(writer: Writer) -> WriterReport:
        together.wait()
        return race.run(writer)

    with ThreadPoolExecutor(len(writers)) as pool:
        return list(pool.map(run_writer, writers)), meter.counts


def _processes(backend: Backend, realm: str, race: Race) -> tuple[list[WriterReport], Counts]:
    assert backend.url is not None, "processes meet at a URL only"
    place = Place(backend.name, backend.url, realm)
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    together = context.Barrier(len(race.kinds))
    answers = context.Queue()
    racers = [
        context.Process(target=_process, args=(place, race, number, together, answers), daemon=True)
        for number in range(len(race.kinds))
    ]
    for racer in racers:
        racer.start()
    by_number: dict[int, WriterReport] = {}
    counts = Counts()
    for _ in racers:
        number, report, cost = answers.get(timeout=_PATIENCE + race.seconds)
        by_number[number] = report
        counts.add(cost)
    for racer in racers:
        racer.join()
    return [by_number[number] for number in range(len(racers))], counts


def _process(place: Place, race: Race, number: int, together: Any, answers: Any) -> None:
    """What one process does."""
    meter = Meter()
    world = place.world(meter)
    writer = Writer(_name(number), _committer(world, race), race.kinds[number], meter)
    world.refs.read(world.space.catalog("main"))  # the connection, and the client's first steps
    meter.start()
    together.wait(_PATIENCE)
    report = race.run(writer)
    answers.put((number, report, meter.counts))


def _name(number: int) -> str:
    return f"w{number:02d}"


def walked(services: CatalogServices, *, oldest_first: bool) -> list[LogEntry]:
    """The log, page by page."""
    entries: list[LogEntry] = []
    start = None
    while True:
        page = services.history.log(CATALOG, start=start, oldest_first=oldest_first, max_results=_PAGE)
        entries += page.commits
        start = page.next_seq
        if start is None:
            return entries


def by_parents(services: CatalogServices) -> list[str]:
    """HEADs from the newest to the first, each named by the one after it."""
    tree = services.reader.current(CATALOG)
    heads = [tree.head]
    commit = tree.commit
    while commit.parents:
        heads.append(commit.parents[0])
        parent = services.reader.store.find_commit(CATALOG, commit.parents[0])
        if parent is None:
            raise AssertionError(f"commit {heads[-1]} is named and missing")
        commit = parent
    return heads


def violations(services: CatalogServices, reports: Sequence[WriterReport]) -> list[str]:
    """What is wrong, as sentences; empty if the log is what was acknowledged to the writers.

    Args:
        services: of a sandbox that has seen nothing yet.
        reports: of every writer there was since the catalog was made.
    """
    up = walked(services, oldest_first=True)
    wrong = []
    if up != walked(services, oldest_first=False)[::-1]:
        wrong.append("the log reads differently from its newest commit on than from its oldest")
    if [entry.head for entry in up] != by_parents(services)[::-1]:
        wrong.append("the log is not the chain of parents")
    if [entry.seq for entry in up] != list(range(len(up))):
        wrong.append(f"the numbers of {len(up)} commits are not 0 to {len(up) - 1}")
    for report in reports:
        wrong += _of_writer(report, [commit.message for commit in up])
    return wrong


def _of_writer(report: WriterReport, messages: Sequence[str]) -> list[str]:
    landed = [int(message.split()[1]) for message in messages if message.startswith(f"{report.name} ")]
    times = Counter(landed)
    wrong = []
    if landed != sorted(landed):
        wrong.append(f"the commits of {report.name} are out of order: {landed}")
    wrong += [
        f"commit {number} of {report.name} is there {times[number]} times" for number in times if times[number] > 1
    ]
    wrong += [
        f"commit {number} of {report.name} was acknowledged and is lost"
        for number in report.acknowledged
        if not times[number]
    ]
    unheard = set(landed) - set(report.acknowledged) - report.unknown
    return wrong + [f"commit {number} of {report.name} is there and nobody was told" for number in sorted(unheard)]
