"""Random catalog operations by two sandboxes with their own caches, against a dictionary (I9)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.support.catalog import complete, fakes, fresh, head_of, write_zero
from tests.support.examples import examples
from tests.support.faults import Crash, Faulty
from turnstile.catalog.history.dropped import DroppedTables
from turnstile.catalog.history.undrop import Undropper
from turnstile.catalog.services import CatalogServices
from turnstile.store.core.errors import (
    AlreadyExists,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    StateConflict,
    TurnstileError,
)
from turnstile.store.core.limits import SpillLimits

levels = st.sampled_from(["a", "A", "b", "c-d"])
namespaces = st.lists(levels, min_size=1, max_size=2).map(tuple)
faults = st.one_of(
    st.just((0, "before")), st.tuples(st.integers(1, 3), st.sampled_from(["before", "after", "unsent", "lost"]))
)
Path = tuple[str, ...]
TIGHT = SpillLimits(embedded=150, segment=300)
"""So that the index spills, splits and joins all the time."""


def folded(path: Path) -> Path:
    return tuple(level.lower() for level in path)


class CatalogMachine(RuleBasedStateMachine):
    """The model: namespaces and tables by folded name, with the spelling of their last level, and
    dropped uuids."""

    def __init__(self) -> None:
        super().__init__()
        first = fresh(spill=TIGHT)
        self.world = fakes(first)
        self.boxes = [first, fresh(self.world, spill=TIGHT)]
        self.spaces: dict[Path, str] = {("default",): "default"}
        self.tables: dict[Path, tuple[str, str]] = {}
        self.dropped: set[str] = set()
        self.drops: dict[Path, list[tuple[str, str]]] = {}
        self.staged: list[str] = []

    def _run(self, box: int, fault: tuple[int, str], call: object, expected: type[TurnstileError] | None) -> bool:
        """Run on a faulty sandbox; when it failed in between, again on a sound one. Whether it took
        effect."""
        at, how = fault
        before = set(self.world.refs.rows["test/catalog/main"]["recent"])
        faulty: Any = Faulty(self.world, at, how).world if at else None
        services = fresh(faulty, spill=TIGHT) if at else self.boxes[box]
        try:
            call(services)  # type: ignore[operator]
        except (Crash, OutcomeUnknown):
            landed = self.world.refs.rows["test/catalog/main"]["head"] not in before
            if expected is not None:
                assert not landed
                return False
            if landed:
                return True
            call(self.boxes[box])  # type: ignore[operator]
            return True
        except TurnstileError as refusal:
            if expected is None or not isinstance(refusal, expected):
                raise
            return False
        assert expected is None
        return True

    def _drop(self, path: Path) -> None:
        name, id = self.tables.pop(path)
        self.dropped.add(id)
        self.drops.setdefault(path, []).append((name, id))

    def _free(self, path: Path) -> type[TurnstileError] | None:
        path = folded(path)
        if path[:-1] and path[:-1] not in self.spaces:
            return NotFound
        return AlreadyExists if path in self.spaces or path in self.tables else None

    @rule(box=st.integers(0, 1), path=namespaces, fault=faults)
    def create_namespace(self, box: int, path: Path, fault: tuple[int, str]) -> None:
        expected: type[TurnstileError] | None = None
        if folded(path) in {**self.spaces, **self.tables}:
            expected = AlreadyExists
        if any(folded(path[:depth]) in self.tables for depth in range(1, len(path))):
            expected = NotFound
        if self._run(box, fault, lambda services: services.namespaces.create("main", path), expected):
            for depth in range(1, len(path) + 1):
                self.spaces.setdefault(folded(path[:depth]), path[depth - 1])

    @rule(box=st.integers(0, 1))
    def stage(self, box: int) -> None:
        created = self.boxes[box].staging.create("main", ("default",), f"staged{len(self.staged)}")
        write_zero(self.boxes[box], created.location)
        self.staged.append(created.table_id)

    @rule(box=st.integers(0, 1), path=namespaces, name=levels, fault=faults)
    def register(self, box: int, path: Path, name: str, fault: tuple[int, str]) -> None:
        if not self.staged:
            return
        id = self.staged[-1]
        call = lambda services: services.registrar.register("main", path, name, id)  # noqa: E731
        if self._run(box, fault, call, self._free((*path, name))):
            self.tables[folded((*path, name))] = (name, self.staged.pop())

    @rule(box=st.integers(0, 1), path=namespaces, name=levels, into=namespaces, new=levels, fault=faults)
    def rename(self, *, box: int, path: Path, name: str, into: Path, new: str, fault: tuple[int, str]) -> None:
        source = folded((*path, name))
        wanted = folded((*into, new))
        expected: type[TurnstileError] | None = None
        if source not in self.tables:
            expected = NotFound
        elif source != wanted:
            expected = self._free(wanted)
        call = lambda services: services.renamer.rename("main", path, name, new, into)  # noqa: E731
        if self._run(box, fault, call, expected):
            _, id = self.tables.pop(source)
            self.tables[wanted] = (new, id)

    @rule(box=st.integers(0, 1), path=namespaces, name=levels, fault=faults)
    def drop(self, box: int, path: Path, name: str, fault: tuple[int, str]) -> None:
        source = folded((*path, name))
        expected = None if source in self.tables else NotFound
        if self._run(box, fault, lambda services: services.dropper.drop("main", path, name), expected):
            self._drop(source)

    @rule(box=st.integers(0, 1), path=namespaces, name=levels, into=namespaces, new=levels, fault=faults)
    def undrop(self, *, box: int, path: Path, name: str, into: Path, new: str, fault: tuple[int, str]) -> None:
        """The newest drop of a name is taken back, under its name or another."""
        source = folded((*path, name))
        wanted = folded((*into, new))
        same = (*into, new) == (*path, name)
        expected = self._free(wanted) if self.drops.get(source) else NotFound

        def call(services: CatalogServices) -> Path:
            dropped = DroppedTables(services.world, services.reader, services.history, services.limits.history_ms)
            by = Undropper(
                services.world, services.reader, services.committer, dropped,
                rights=lambda *_: None, elsewhere=lambda: None,
            )  # fmt: skip
            return by.undrop("main", (*path, name), (*into, new))

        if self._run(box, fault, call, expected):
            spelled, id = self.drops[source].pop()
            self.dropped.remove(id)
            self.tables[wanted] = (spelled if same else new, id)

    @rule(box=st.integers(0, 1), path=namespaces, cascade=st.booleans(), fault=faults)
    def drop_namespace(self, box: int, path: Path, cascade: bool, fault: tuple[int, str]) -> None:
        root = folded(path)
        inside = [inner for inner in (*self.spaces, *self.tables) if inner[: len(root)] == root and inner != root]
        expected: type[TurnstileError] | None = None
        if root not in self.spaces:
            expected = NotFound
        elif inside and not cascade:
            expected = StateConflict
        call = lambda services: services.namespace_dropper.drop("main", path, cascade=cascade)  # noqa: E731
        if self._run(box, fault, call, expected):
            for inner in (*inside, root):
                self.spaces.pop(inner, None)
                if inner in self.tables:
                    self._drop(inner)

    @rule(box=st.integers(0, 1), path=namespaces, into=namespaces.map(lambda one: one[:-1]), new=levels, fault=faults)
    def move_namespace(self, *, box: int, path: Path, into: Path, new: str, fault: tuple[int, str]) -> None:
        source = folded(path)
        wanted = folded((*into, new))
        expected: type[TurnstileError] | None = None
        if wanted[: len(source)] == source != wanted:
            expected = InvalidRequest
        elif source not in self.spaces:
            expected = NotFound
        elif source != wanted:
            expected = self._free(wanted)
        call = lambda services: services.namespace_mover.rename("main", path, new, into)  # noqa: E731
        if self._run(box, fault, call, expected):
            for names in (self.spaces, self.tables):
                inside = [one for one in names if one[: len(source)] == source]
                moved = {wanted + one[len(source) :]: names.pop(one) for one in inside}  # type: ignore[attr-defined]
                names.update(moved)
            self.spaces[wanted] = new

    @invariant()
    def everybody_sees_the_model(self) -> None:
        complete(self.world)
        for services in self.boxes:
            self._seen(services)
        for id in self.dropped:
            assert head_of(self.world, id).state == "dropped"

    def _seen(self, services: CatalogServices) -> None:
        for path in self.spaces:
            listed_tables = [table.name for table in services.listings.tables("main", path).items]
            expected = [key for key in self.tables if key[:-1] == path]
            assert listed_tables == [self.tables[key][0] for key in sorted(expected)]
            listed = [namespace.name[-1] for namespace in services.listings.namespaces("main", path).items]
            assert listed == [self.spaces[key] for key in sorted(self.spaces) if key[:-1] == path]
        for path, (_, id) in self.tables.items():
            assert services.reader.resolve("main", path[:-1], path[-1]).table_id == id
        with suppress(NotFound):
            ghost = services.reader.resolve("main", ("a",), "b")
            assert ("a", "b") in self.tables
            assert ghost.table_id == self.tables["a", "b"][1]


CatalogMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=30)
TestCatalogModel = CatalogMachine.TestCase
