"""Actors that publish, read and tidy up."""

from __future__ import annotations

import random
from functools import partial

from tests.simulation.auditors.catalogs import HISTORY
from tests.simulation.engine.plans import DAY, HOUR, SECOND
from tests.simulation.engine.ports import Process, SimStorages
from tests.simulation.engine.processes import Client, Sandbox, world_of
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from turnstile.delta.attention import AttentionRow
from turnstile.delta.commits import Listing
from turnstile.delta.publish import Publisher
from turnstile.delta.sweep import Sweeper, publish_hinted
from turnstile.gc.collector import Collector
from turnstile.gc.core import Grace, Place
from turnstile.store.core.errors import NotFound, OutcomeUnknown, StateConflict, StorageFault, Throttled, TurnstileError
from turnstile.store.core.names import published_path, staged_path
from turnstile.store.ports import World

Retryable = (OutcomeUnknown, Throttled, StorageFault, StateConflict)
FOR_EVER = 10**15


class StreamPump:
    """The publisher function behind the stream. Records of the stream are lost, late, doubled and
    out of order."""

    def __init__(self, state: State, name: str, rng: random.Random, *, slow: bool = False) -> None:
        self._state = state
        self._name = name
        self._rng = rng
        self._slow = slow

    def __call__(self) -> None:
        publisher = None
        self._state.pumps.append(self._state.scheduler.running)
        while True:
            self._state.scheduler.sleep(self._rng.choice((5, 30, 200, 3 * SECOND)) if self._state.stream else FOR_EVER)
            record = self._record()
            if record is None:
                continue
            try:
                publisher = publisher or Publisher(world_of(Process(self._state, self._name)))
                publisher.publish(record)
            except Crashed:
                publisher = None
            except TurnstileError:
                continue

    def _record(self) -> str | None:
        stream = self._state.stream
        rng = self._rng
        if not stream:
            return None
        at = int(rng.random() * min(3, len(stream)))
        if rng.random() < 0.2:
            return stream[at]  # delivered again later
        record = stream.pop(at)
        return None if rng.random() < 0.1 else record


class NotingPump(StreamPump):
    """The publisher function behind a stream that loses no record: it notes tables that it could
    not publish for the sweeper, and if a note fails the batch is sent again."""

    def __call__(self) -> None:
        world = None
        self._state.pumps.append(self._state.scheduler.running)
        while True:
            self._state.scheduler.sleep(self._rng.choice((5, 30, 200, 3 * SECOND)) if self._state.stream else FOR_EVER)
            if not self._state.stream:
                continue
            stream = self._state.stream
            record = self._rng.choice(stream)
            seen = stream.count(record)  # a batch stays in the stream until it is done; what comes meanwhile is another
            try:
                world = world or world_of(Process(self._state, self._name))
                publish_and_note(world, record)
            except Crashed:
                world = None
            except TurnstileError:
                continue
            else:
                for _ in range(min(seen, stream.count(record))):
                    stream.remove(record)


def publish_and_note(world: World, table_id: str) -> None:
    """The publisher function's handling of a record."""
    done = publish_hinted(world, Publisher(world), [table_id], until_ms=FOR_EVER, each_ms=FOR_EVER, workers=1)
    notes = done.tables_to_revisit(world.ids.uuid()[:8])
    if notes:
        AttentionRow(world).note(notes)


class PartSweeps:
    """The scheduled sweeper where the rows it looks at are bounded; here it finds none but by notes
    and full passes."""

    def __init__(self, state: State, name: str, rng: random.Random, *, slow: bool = False) -> None:
        self._state = state
        self._name = name
        self._rng = rng

    def __call__(self) -> None:
        while True:
            self._state.scheduler.sleep(self._rng.choice((SECOND, 20 * SECOND, 60 * SECOND)))
            try:
                sweep_noted(world_of(Process(self._state, self._name)))
            except (Crashed, TurnstileError):
                continue


def sweep_noted(world: World) -> None:
    """A sweep of a part without rows."""
    sweeper = Sweeper(world, Publisher(world))
    sweeper.looked_to("\x7f")
    sweeper.sweep_part(until_ms=FOR_EVER, each_ms=FOR_EVER, rows_max=1, workers=1)


class Sweeps:
    """The scheduled sweeper."""

    def __init__(self, state: State, name: str, rng: random.Random, *, slow: bool = False) -> None:
        self._state = state
        self._name = name
        self._rng = rng
        self._slow = slow

    def __call__(self) -> None:
        while True:
            self._state.scheduler.sleep(self._rng.choice((60 * SECOND, HOUR)) * (15 if self._slow else 1))
            try:
                sweep(self._state, Process(self._state, self._name))
            except (Crashed, TurnstileError):
                continue


def sweep(state: State, process: Process) -> None:
    """One pass of the sweeper in ``process``."""
    world = world_of(process)
    Sweeper(world, Publisher(world)).sweep(until_ms=FOR_EVER, each_ms=FOR_EVER, workers=1)


class Gc:
    """The scheduled collector; every second run is one over a part of the rows."""

    def __init__(self, state: State, name: str, rng: random.Random, *, slow: bool = False) -> None:
        self._state = state
        self._name = name
        self._rng = rng
        self._slow = slow
        self._place = Place()
        self._runs = 0

    def __call__(self) -> None:
        self._state.collectors.append(self._state.scheduler.running)
        while True:
            self._state.scheduler.sleep(self._rng.choice((HOUR, 9 * HOUR, 26 * HOUR, 2 * DAY)))
            try:
                world = world_of(Process(self._state, self._name))
                collector = Collector(world, Grace(history_ms=HISTORY), workers=1)
                is_dry = self._rng.random() < 0.1
                self._runs += 1
                if is_dry or self._runs % 2:
                    collector.collect(dry_run=is_dry)
                else:
                    _, self._place = collector.go_round(self._place, until_ms=FOR_EVER)
            except (Crashed, TurnstileError):
                continue


def _listed(table_id: str, sandbox: Sandbox, *, content: bool) -> Listing:
    return sandbox.commits.of_present_head(table_id, content=content)


class Reader:
    """Lists a table again and again and reads the files of the names."""

    def __init__(self, state: State, name: str, table_id: str, rng: random.Random) -> None:
        self._state = state
        self._table = table_id
        self._rng = rng
        self._client = Client(state, name, Sandbox)
        self._process = Process(state, name, client=True)

    def __call__(self) -> None:
        auditor = self._state.auditor
        scheduler = self._state.scheduler
        while True:
            scheduler.sleep(self._rng.choice((10, SECOND, 30 * SECOND)))
            history = auditor.tables[self._table]
            least = history.shown
            content = self._rng.random() < 0.3
            try:
                listing = self._client.ask(partial(_listed, self._table, content=content))
            except NotFound:
                return
            except Retryable:
                continue
            auditor.shown(self._table, listing.head, least)
            storage = SimStorages(self._process).open(listing.head.location)
            for place in listing.places:
                try:
                    raw = listing.contents.get(place.version) or self._file(storage, place.name, place.version)
                except (StorageFault, Throttled):
                    continue
                except Crashed:
                    break
                auditor.read_bytes(self._table, place.version, raw)

    def _file(self, storage: object, name: str, version: int) -> bytes:
        return read_commit(storage, name, version)


def read_commit(storage, name: str, version: int) -> bytes:  # type: ignore[no-untyped-def]
    """A commit as an engine reads it: by its staged name, or published by now."""
    found = storage.read(staged_path(name)) or storage.read(published_path(version))
    assert found is not None, f"I6: neither {name} nor the published version {version} can be read"
    return bytes(found[0])


class Engine:
    """An engine that publishes by itself, as Delta Spark does after its commits."""

    def __init__(self, state: State, name: str, table_id: str, rng: random.Random) -> None:
        self._state = state
        self._table = table_id
        self._rng = rng
        self._client = Client(state, name, Sandbox)
        self._process = Process(state, name, client=True)

    def __call__(self) -> None:
        while True:
            self._state.scheduler.sleep(self._rng.choice((100, SECOND, 10 * SECOND, DAY)))
            try:
                listing = self._client.ask(lambda sandbox: sandbox.commits.of_present_head(self._table))
                storage = SimStorages(self._process).open(listing.head.location)
                for place in listing.places:
                    if not place.published:
                        storage.put_if_absent(
                            published_path(place.version), read_commit(storage, place.name, place.version)
                        )
            except NotFound:
                return
            except (*Retryable, Crashed):
                continue
