"""A catalog and a branch of it are written side by side, and the branch is updated, promoted or
dropped by processes that die, or lose answers, at any write (I28). The catalog shows all changes of
the branch or none, keeps its own, and no acknowledged commit of the branch is lost. After an update
the branch shows one state of the catalog's tables, with its own changes."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from tests.support.catalog import LAKE, fakes, fresh, head_of
from tests.support.catalog import create as create_table
from tests.support.fakes import delta
from tests.support.fakes.world import FakeWorld
from tests.support.faults import CRASHES, LOSSES, Crash, Faulty, before_write, stop_races
from turnstile.api.services import Services
from turnstile.api.settings import Settings
from turnstile.branches import comparison, update
from turnstile.branches.commits import Span
from turnstile.branches.promotion import Promoter
from turnstile.branches.promotion_rights import PromotionRights
from turnstile.branches.update import Updater
from turnstile.catalog.core.entities import Table
from turnstile.catalog.core.rows import swap_head
from turnstile.delta.core import undecided
from turnstile.delta.core.decide import Ratified, Refused
from turnstile.delta.core.undecided import OPEN_MS
from turnstile.delta.log.files import read_commit
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.transactions import groups
from turnstile.delta.transactions.groups import GroupRatifier
from turnstile.delta.undecided import settle_one
from turnstile.maintenance.state import open_state
from turnstile.rights.grants import OPERATOR
from turnstile.store.core.errors import ErrorType, NotFound, OutcomeUnknown, StateConflict, StorageFault, TurnstileError
from turnstile.store.core.writes import Change
from turnstile.store.ports import TRANSACT_MAX, World

SEEDS = [pytest.param(seed, marks=pytest.mark.slow if seed >= 8 else ()) for seed in range(100)]
TABLES = ("a", "b", "c")
BRANCH = "main@dev"


class Lake:
    """The catalog and its branch, with the files that each table has to have."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        catalog = fresh()
        self.world: FakeWorld = fakes(catalog)
        self.ids = {name: create_table(catalog, name) for name in TABLES}
        self.main: dict[str, set[str]] = {name: set() for name in TABLES}
        self.dev: dict[str, set[str]] | None = None
        self.base: dict[str, set[str]] = {}
        self.path_in_base: dict[str, str] = {}
        self.promoted = 0
        self.updated = 0
        self.past: dict[str, list[set[str]]] = {name: [] for name in TABLES}
        self.prepared = 0
        self.renamed = 0
        self.names: dict[str, dict[str, str]] = {"main": {name: name for name in TABLES}}
        for name in TABLES:
            self.append("main", name)
            self.append("main", name)

    def services(self, world: World | None = None) -> Services:
        """A process, which may have ports that fail."""
        return Services(cast("Any", world or self.world), Settings(lake_root=LAKE))

    # -- reading ------------------------------------------------------------------------------------------------------

    def table_id(self, catalog: str, name: str, services: Services) -> str:
        return services.open_reader.resolve(catalog, ("default",), self.names[catalog][name]).table_id

    def files(self, catalog: str, name: str) -> set[str]:
        """The files of a table, by their names."""
        services = self.services()
        table_id = self.table_id(catalog, name, services)
        settle_one(self.world, head_of(self.world, table_id), lambda _s: None)
        services.publisher.publish(table_id)
        head = head_of(self.world, table_id)
        assert head.floor == head.latest, "everything ratified can be published"
        state = open_state(self.world.storages.open(head.location), head.floor)
        return {file.path.rpartition("/")[2] for file in state.files()}

    def check(self) -> None:
        assert {name: self.files("main", name) for name in TABLES} == self.main
        if self.dev is not None:
            assert {name: self.files(BRANCH, name) for name in TABLES} == self.dev

    # -- writing ------------------------------------------------------------------------------------------------------

    def commit(self, catalog: str, name: str, *actions: dict[str, Any], blind: bool) -> bool:
        """Returns whether it was ratified; only a promotion in progress refuses it."""
        services = self.services()
        table_id = self.table_id(catalog, name, services)
        head = settle_one(self.world, head_of(self.world, table_id))
        stamp = max(self.world.clock.now_ms(), head.last_ict + 1)
        operation = "WRITE" if blind else "DELETE"
        info = delta.info(f"{catalog}-{name}-{stamp}", stamp, operation, isBlindAppend=blind)
        content = delta.lines(info, *actions)
        request = CommitRequest(table_id, head.latest + 1, base=head.latest, content=content)
        answer = services.ratifier.commit(request)
        assert isinstance(answer, Ratified) or (
            isinstance(answer, Refused) and bool(head.undecided) and answer.kind == ErrorType.CONCURRENT_CHANGE
        )
        return isinstance(answer, Ratified)

    def shown(self, catalog: str) -> dict[str, set[str]]:
        return self.main if catalog == "main" else cast("dict[str, set[str]]", self.dev)

    def append(self, catalog: str, name: str) -> None:
        file = f"f{self.world.clock.now_ms()}"
        if self.commit(catalog, name, delta.add(file), blind=True):
            self.shown(catalog)[name].add(file)
            self.past[name].append(set(self.main[name]))

    def delete(self, catalog: str, name: str) -> None:
        """Deletes a file; on the branch one that its base had."""
        there = self.shown(catalog)[name] & (self.base[name] if catalog == BRANCH else self.main[name])
        if there:
            file = self.random.choice(sorted(there))
            path = f"../../{self.path_in_base[file]}" if catalog == BRANCH else self.paths()[file]
            if self.commit(catalog, name, delta.remove(path), blind=False):
                self.shown(catalog)[name].discard(file)

    def paths(self) -> dict[str, str]:
        """The paths of the catalog's files by their names: those that a branch wrote are in its
        folder."""
        found = {}
        for table_id in self.ids.values():
            head = head_of(self.world, table_id)
            self.services().publisher.publish(table_id)
            state = open_state(self.world.storages.open(head.location), head_of(self.world, table_id).floor)
            found |= {file.path.rpartition("/")[2]: file.path for file in state.files()}
        return found

    # -- branches -----------------------------------------------------------------------------------------------------

    def faulty(self) -> Services:
        how = self.random.choice((*CRASHES, *LOSSES))
        return self.services(Faulty(self.world, self.random.randint(1, 14), how).world)

    def has_branch(self) -> bool:
        try:
            self.services().open_catalog.branches.get("main", "dev")
        except NotFound:
            assert f"test/catalog/{BRANCH}" not in self.world.refs.rows, "name and row go together"
            return False
        return True

    def branch(self) -> None:
        with contextlib.suppress(Crash, OutcomeUnknown, StorageFault):
            self.faulty().open_catalog.branches.create("main", "dev")
        if self.has_branch():
            self.dev = {name: set(files) for name, files in self.main.items()}
            self.base = {name: set(files) for name, files in self.main.items()}
            self.path_in_base = self.paths()
            self.names[BRANCH] = dict(self.names["main"])

    def rename(self, name: str) -> None:
        """Renames a table of the branch, perhaps to the name that it has in the catalog."""
        names = self.names[BRANCH]
        new = self.random.choice((self.names["main"][name], f"{name}{self.world.clock.now_ms()}"))
        self.services().open_catalog.renamer.rename(BRANCH, ("default",), names[name], new)
        names[name] = new

    def has_rename(self, name: str) -> bool:
        return self.names[BRANCH][name] != self.names["main"][name]

    def race(self, *catalogs: str) -> None:
        """Others append while the next writes are made."""
        raced = self.random.choice(catalogs)
        name = self.random.choice(TABLES)

        def append() -> None:
            with contextlib.suppress(NotFound):  # a promotion with a lost answer has ended the branch
                self.append(raced, name)

        for _ in range(self.random.choice((0, 0, 1, 2))):
            before_write(self.world, self.random.randint(1, 8), append)

    def update(self) -> None:
        """Updates the branch, and may promote some of its tables by the same write."""
        assert self.dev is not None
        before = self.services().open_catalog.branches.get("main", "dev")
        services = self.faulty() if self.random.random() < 0.6 else self.services()
        self.past = {name: [set(files)] for name, files in self.main.items()}
        changed = [name for name in TABLES if self.dev[name] != self.base[name] and not self.has_rename(name)]
        some = self.random.sample(changed, self.random.randint(0, len(changed)))
        self.race("main", *([] if some else [BRANCH]))
        refused = ""
        try:
            ratifier = GroupRatifier(services.world, services.ratifier, part=self.random.choice((TRANSACT_MAX, 5)))
            if some:
                names = [f"default.{self.names[BRANCH][name]}" for name in some]
                Promoter(services.open_catalog, ratifier, PromotionRights(OPERATOR)).promote(
                    "main", "dev", tables=names
                )
            else:
                Updater(services.open_catalog, ratifier).update("main", "dev")
        except (Crash, OutcomeUnknown, StorageFault):
            pass
        except StateConflict as error:
            refused = error.type
        finally:
            stop_races(self.world)
        self.world.clock.now += self.random.choice((0, OPEN_MS + 1))
        conflicts = self._conflicts()
        assert conflicts or refused != ErrorType.BRANCH_CONFLICT
        if self.services().open_catalog.branches.get("main", "dev") == before:
            return
        self.updated += 1
        for name in TABLES:
            gone = self.base[name] - self.dev[name]
            new = self.dev[name] - self.base[name]
            if name in some:
                self.past[name] = [(state - gone) | new for state in self.past[name]]
                self.main[name] = (self.main[name] - gone) | new
            shown = self.files(BRANCH, name)
            bases = [state for state in self.past[name] if (state - gone) | new == shown]
            assert bases, "the branch shows a state of the catalog during the update, with its own changes"
            self.dev[name] = shown
            self.base[name] = bases[-1]
        self.path_in_base = self.paths()
        self._check_base()

    def _check_base(self) -> None:
        """Tables with a log of their own have the version of the base's moment."""
        reader = self.services().open_reader
        at_ms = self.services().open_catalog.branches.get("main", "dev").at // 1000
        for name, id in self.ids.items():
            own = self.names[BRANCH][name]
            reader.resolve(BRANCH, ("default",), own)
            tree = reader.current(BRANCH)
            entity = reader.store.entity(BRANCH, tree.table(("default",), own).obj)
            assert isinstance(entity, Table)
            assert entity.origin is not None
            storage = self.world.storages.open(head_of(self.world, id).location)
            latest = head_of(self.world, id).latest
            moments = {version: read_commit(storage, version).info for version in range(1, latest + 1)}
            shown = [version for version, info in moments.items() if info["inCommitTimestamp"] <= at_ms]
            assert entity.origin.base_version == max(shown)

    def promote(self) -> None:
        assert self.dev is not None
        own = [self.table_id(BRANCH, name, self.services()) for name in TABLES]
        for _ in range(self.random.choice((0, 1, 3))):  # not published yet
            self.append(self.random.choice(("main", BRANCH)), self.random.choice(TABLES))
        services = self.faulty() if self.random.random() < 0.6 else self.services()
        self.race("main", BRANCH)
        published = self.random.choice([*own, *self.ids.values()])
        before_write(self.world, self.random.randint(1, 8), lambda: self.services().publisher.publish(published))
        refused = ""
        try:
            part = self.random.choice((TRANSACT_MAX, 5))
            ratifier = GroupRatifier(services.world, services.ratifier, part=part)
            Promoter(services.open_catalog, ratifier, PromotionRights(OPERATOR)).promote("main", "dev")
        except (Crash, OutcomeUnknown, StorageFault):
            pass
        except StateConflict as error:
            refused = error.type
        finally:
            stop_races(self.world)
        self.prepared += any("/group/" in key for key in self.world.refs.rows)
        self.world.clock.now += self.random.choice((0, OPEN_MS + 1))
        conflicts = self._conflicts()
        assert conflicts or refused != ErrorType.BRANCH_CONFLICT
        if self.has_branch():
            return
        assert not conflicts
        ended = [settle_one(self.world, head_of(self.world, table_id)) for table_id in own]
        assert {head.state for head in ended} == {"dropped"}, "no commit of the branch comes after its promotion"
        for name in TABLES:
            gone = self.base[name] - self.dev[name]
            self.main[name] = (self.main[name] - gone) | (self.dev[name] - self.base[name])
            self.renamed += self.has_rename(name)
        self.names["main"] = self.names.pop(BRANCH)
        for name, id in self.ids.items():
            assert settle_one(self.world, head_of(self.world, id)).name == f"main.default.{self.names['main'][name]}"
        self._end()
        self.promoted += 1

    def drop(self) -> None:
        with contextlib.suppress(Crash, OutcomeUnknown, StorageFault, StateConflict):
            self.faulty().open_catalog.branches.drop("main", "dev")
        if not self.has_branch():
            self._end()
        else:  # tables that are gone already
            self.world.clock.now += OPEN_MS + 1  # a group of a process that died is over by then
            services = self.services()
            services.open_catalog.branches.drop("main", "dev")
            self._end()

    def _end(self) -> None:
        self.dev = None
        self.base = {}

    def _conflicts(self) -> bool:
        """Whether the catalog and the branch cannot be put together."""
        assert self.dev is not None
        for name in TABLES:
            mine = self.base[name] - self.dev[name]
            theirs = self.base[name] - self.main[name]
            if mine & theirs:
                return True
            if mine and self.main[name] - self.base[name]:
                return True
        return False

    def step(self) -> None:
        name = self.random.choice(TABLES)
        choices: list[Any] = [lambda: self.append("main", name), lambda: self.delete("main", name)]
        if self.dev is None:
            choices += [self.branch] * 2
        else:
            choices += [lambda: self.append(BRANCH, name), lambda: self.delete(BRANCH, name)]
            choices += [lambda: self.rename(name)]
            choices += [*[self.promote] * 4, *[self.update] * 3, self.drop] if self.random.random() < 0.5 else []
        self.random.choice(choices)()


@pytest.mark.parametrize("seed", SEEDS)
def test_i28_a_branch_is_promoted_as_a_whole_or_not_at_all_wherever_a_process_dies(seed: int) -> None:
    lake = Lake(seed)
    for _ in range(25):
        lake.step()
        lake.check()


def test_i28_the_runs_promote_branches() -> None:
    lakes = [Lake(seed) for seed in range(200, 212)]
    for lake in lakes:
        for _ in range(30):
            lake.step()
    assert sum(lake.promoted for lake in lakes) > 2
    assert sum(lake.updated for lake in lakes) > 2
    assert sum(lake.prepared for lake in lakes) > 2
    assert sum(lake.renamed for lake in lakes) > 2


# -- planted mistakes -------------------------------------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]


def _updates_are_changes(patch: pytest.MonkeyPatch) -> None:
    """A comparison takes the commits of updates for changes of the branch."""
    patch.setattr(comparison, "Span", lambda head, base, _updates=(): Span(head, base))


def _base_stays(patch: pytest.MonkeyPatch) -> None:
    """Tables with changes of both sides keep the base that they had."""
    right = Updater._updated_table

    def same_base(*arguments: Any) -> Any:
        table = right(*arguments)
        return msgspec.structs.replace(table, origin=msgspec.structs.replace(table.origin, base=-1))

    patch.setattr(Updater, "_updated_table", same_base)


def _row_unchecked(patch: pytest.MonkeyPatch) -> None:
    """An update swaps the branch's HEAD, whatever it is."""

    def swap(*arguments: Any) -> Change:
        right = swap_head(*arguments)
        return msgspec.structs.replace(right, clauses=right.clauses[1:])

    patch.setattr(update, "swap_head", swap)


def _names_left(patch: pytest.MonkeyPatch) -> None:
    """A commit of a promotion does not give its table the branch's name."""
    for module in (groups, undecided):
        patch.setattr(module, "with_name", lambda write, _name: write)


SLOWLY = pytest.param(_row_unchecked, marks=pytest.mark.slow)


@pytest.mark.parametrize("plant", [_updates_are_changes, _base_stays, _names_left, SLOWLY])
def test_i28_a_planted_mistake_of_branches_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(120):
        lake = Lake(seed)
        try:
            for _ in range(25):
                lake.step()
                lake.check()
        except (AssertionError, TurnstileError):
            return
    pytest.fail("no run finds it")
