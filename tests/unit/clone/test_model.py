"""Random clones among other changes, resets, time and collections, against a dictionary (I9), with
nothing ever collected that a clone needs (I10)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.support.catalog import complete, create, fakes, fresh, head_of
from tests.support.clones import check_shown, clone, commit
from tests.support.examples import examples
from tests.support.faults import Crash, Faulty
from tests.support.gc import DAY
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.services import CatalogServices
from turnstile.gc.collector import Collector
from turnstile.gc.core import Grace
from turnstile.store.core.errors import (
    AlreadyExists,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    StateConflict,
    TurnstileError,
)
from turnstile.store.core.limits import SpillLimits
from turnstile.store.core.names import published_path

Path = tuple[str, ...]
spaces = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2).map(tuple)
tables = st.sampled_from(["t", "u"])
faults = st.one_of(
    st.just((0, "before")), st.tuples(st.integers(1, 7), st.sampled_from(["before", "after", "unsent", "lost"]))
)
TIGHT = SpillLimits(embedded=150, segment=300)
GRACE = Grace(history_ms=7 * DAY, dropped_ms=7 * DAY)


class Shown(msgspec.Struct, frozen=True):
    """A table of the model: its uuid, and for a clone the table and the version that it shows."""

    id: str
    source: str = ""
    version: int = 0


class CloneMachine(RuleBasedStateMachine):
    """The model: namespaces and tables by name, what both were at every number of the log, and when
    each version of a table was made."""

    def __init__(self) -> None:
        super().__init__()
        first = fresh(spill=TIGHT)
        self.world = fakes(first)
        self.boxes = [first, fresh(self.world, spill=TIGHT)]
        self.spaces: set[Path] = {("default",)}
        self.tables: dict[Path, Shown] = {}
        self.commit_times: dict[str, list[int]] = {}
        self.past: dict[int, tuple[set[Path], dict[Path, Shown]]] = {}
        self._remember()
        for path, name in ((("a",), "t"), (("a", "b"), "u")):
            self.create_namespace(path)
            self.create_table(path, name)

    def _remember(self) -> None:
        seq = fresh(self.world).reader.current("main").commit.seq
        self.past[seq] = (set(self.spaces), dict(self.tables))

    @rule(path=spaces)
    def create_namespace(self, path: Path) -> None:
        if path in self.spaces or any(path[:depth] in self.tables for depth in (1, 2)):
            return
        self.boxes[0].namespaces.create("main", path)
        self.spaces |= {path[:depth] for depth in range(1, len(path) + 1)}
        self._remember()

    @rule(path=spaces, name=tables)
    def create_table(self, path: Path, name: str) -> None:
        if path not in self.spaces or (*path, name) in self.tables:
            return
        id = create(self.boxes[0], name, ".".join(path))
        self.tables[*path, name] = Shown(id)
        self.commit_times[id] = [0]
        self._remember()

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        own = sorted(one.id for one in self.tables.values() if not one.source)
        if own:
            id = data.draw(st.sampled_from(own))
            before = self.world.clock.now
            commit(self.world, id)
            self.commit_times[id].append(before)
            self.world.clock.now += 50

    @rule(box=st.integers(0, 1), fault=faults, data=st.data())
    def clone(self, box: int, fault: tuple[int, str], data: st.DataObject) -> None:
        """Of something that is there, nearly always."""
        self._clone_some([*self.spaces, *self.tables, ("a", "t")], None, box, fault, data)

    @rule(box=st.integers(0, 1), fault=faults, data=st.data())
    def clone_the_past(self, box: int, fault: tuple[int, str], data: st.DataObject) -> None:
        """Of something that was there, nearly always."""
        seq = data.draw(st.sampled_from(sorted(self.past)[-8:]))
        self._clone_some([*self.past[seq][0], *self.past[seq][1], ("b", "u")], seq, box, fault, data)

    def _clone_some(
        self, named: list[Path], seq: int | None, box: int, fault: tuple[int, str], data: st.DataObject
    ) -> None:
        source = data.draw(st.sampled_from(sorted({*named})))
        table = source[-1] in ("t", "u")
        parents = sorted(self.spaces) if table else [(), *sorted(self.spaces)]
        places = [(*parent, name) for parent in parents for name in (("t", "u") if table else ("a", "b", "c"))]
        free = [to for to in places if self._refusal(source, to, self.past[max(self.past)]) is None and len(to) <= 3]
        to = data.draw(st.sampled_from([*free[:6], *places[:2]]))
        self._clone(source, to, box, fault, seq)

    def _clone(self, source: Path, to: Path, box: int, fault: tuple[int, str], seq: int | None) -> None:
        now = max(self.past)
        then = self.past[now if seq is None else seq]
        expected = self._refusal(source, to, then)
        moment = {} if seq is None else {"seq": seq}
        before = fresh(self.world).reader.current("main").commit.seq
        services = self.boxes[box]
        if fault[0]:
            services = fresh(Faulty(self.world, *fault).world, spill=TIGHT)  # type: ignore[arg-type]
        try:
            clone(services, ".".join(source), ".".join(to), **moment)
        except (Crash, OutcomeUnknown):
            pass
        except TurnstileError as refusal:
            lost = fault[0] and refusal.type in ("StorageFault", "TableNotActive")
            gone = seq is not None and refusal.type in ("NoSuchCatalogCommit", "CannotClone")
            foreseen = expected is not None and isinstance(refusal, expected)
            if not (lost or gone or foreseen) or fresh(self.world).reader.current("main").commit.seq != before:
                raise
            event(f"refused: {refusal.type}")
            return
        else:
            assert expected is None
        if fresh(self.world).reader.current("main").commit.seq == before:
            return  # it died before
        event("cloned" if seq is None else "cloned the past")
        self._cloned(source, to, then, seq)

    def _refusal(self, source: Path, to: Path, then: tuple[set[Path], dict[Path, Shown]]) -> type[Exception] | None:
        named = then[0] | set(then[1])
        there = self.spaces | set(self.tables)
        if source not in named:
            return NotFound
        if to[: len(source)] == source:
            return InvalidRequest
        if (len(to) > 1 or source in then[1]) and to[:-1] not in self.spaces:
            return NotFound
        return AlreadyExists if to in there else None

    def _cloned(self, source: Path, to: Path, then: tuple[set[Path], dict[Path, Shown]], seq: int | None) -> None:
        services = fresh(self.world)
        time = None if seq is None else services.history.tree("main", AsOf(seq=seq)).commit.at // 1000
        self.spaces |= {(*to, *one[len(source) :]) for one in then[0] if one[: len(source)] == source}
        for path, one in then[1].items():
            if path[: len(source)] != source:
                continue
            target = (*to, *path[len(source) :])
            id = services.reader.resolve("main", target[:-1], target[-1]).table_id
            version = one.version
            if not one.source:
                times = self.commit_times[one.id]
                version = max(at for at, when in enumerate(times) if time is None or at == 0 or when < time)
            self.tables[target] = Shown(id, one.source or one.id, version)
        self._remember()

    @rule(path=spaces, name=tables)
    def drop(self, path: Path, name: str) -> None:
        if (*path, name) in self.tables:
            self.boxes[1].dropper.drop("main", path, name)
            del self.tables[*path, name]
            self._remember()

    @rule(path=spaces)
    def drop_namespace(self, path: Path) -> None:
        if path not in self.spaces:
            return
        self.boxes[1].namespace_dropper.drop("main", path, cascade=True)
        self.spaces = {one for one in self.spaces if one[: len(path)] != path}
        self.tables = {one: table for one, table in self.tables.items() if one[: len(path)] != path}
        self._remember()

    @rule(data=st.data())
    def reset(self, data: st.DataObject) -> None:
        seq = data.draw(st.sampled_from(sorted(self.past)[-6:]))
        try:
            self.boxes[0].resetter.reset("main", AsOf(seq=seq))
        except (NotFound, StateConflict):  # beyond what is kept, or a table is being purged
            return
        event("reset")
        then = self.past[seq]
        self.spaces = set(then[0])
        self.tables = dict(then[1])
        self._remember()

    @rule(hours=st.integers(1, 100))
    def time_passes(self, hours: int) -> None:
        self.world.clock.now += hours * DAY // 24

    @rule()
    def collect(self) -> None:
        Collector(self.world, GRACE, workers=1).collect(dry_run=False)

    @invariant()
    def clones_show_what_they_showed(self) -> None:
        complete(self.world, past=False)
        for services in (*self.boxes, fresh(self.world)):
            ids = seen(services)
            assert ids == {path: one.id for path, one in self.tables.items()}
        for one in self.tables.values():
            if one.source:
                check_shown(self.world, one.id, one.version)
            else:
                assert head_of(self.world, one.id).latest == len(self.commit_times[one.id]) - 1
        live = {one.source for one in self.tables.values() if one.source}
        for id in live:
            head = head_of(self.world, id)
            storage = self.world.storages.open(head.location)
            assert storage.stat(published_path(0)) is not None


def seen(services: CatalogServices) -> dict[Path, str]:
    """Every table by name, as listed."""
    ids: dict[Path, str] = {}
    pending: list[Path] = [()]
    while pending:
        path = pending.pop()
        pending += [one.name for one in services.listings.namespaces("main", path).items]
        if path:
            ids |= {(*path, one.name): one.table_id for one in services.listings.tables("main", path).items}
    return ids


TestCloneModel = pytest.mark.slow(CloneMachine.TestCase)
TestCloneModel.settings = settings(max_examples=examples(30), stateful_step_count=25)
