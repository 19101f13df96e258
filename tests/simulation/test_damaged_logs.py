"""A log is damaged and mended at random moments, between commits, light work, clean-up and readers:
nothing wrong is said meanwhile, and nothing is lost once it is mended (I24)."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Final
from unittest.mock import patch

import pytest

from tests.support.catalog import create, fakes, fresh, head_of
from tests.support.clones import commit
from tests.support.damage.asking import WAYS, damaged
from tests.support.fakes import delta
from turnstile.delta.log.files import list_log
from turnstile.delta.log.lines import lines
from turnstile.delta.publish import Publisher
from turnstile.delta.repair import Repairer
from turnstile.delta.soundness.judge import Judgement
from turnstile.delta.verify import Verifier
from turnstile.gc.collector import Collector
from turnstile.gc.core import Grace
from turnstile.maintenance.state import derive, open_state
from turnstile.maintenance.work import Maintainer
from turnstile.planning.planner import Planner
from turnstile.planning.upkeep import IndexUpkeep
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.names import LOG

DAY_MS: Final = 86_400_000
HISTORY_MS: Final = 7 * DAY_MS
SEEDS: Final = 8


class Wrong(AssertionError):
    """Something was said or done because of a damage."""


class Log:
    """One table, the state of each of its versions, and the one damaged file of it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.services = fresh(history_ms=HISTORY_MS)
        self.world = fakes(self.services)
        self.table_id = create(self.services)
        self.truth: dict[int, set[str]] = {0: set()}
        self.damage: tuple[str, bytes, int] | None = None

    @property
    def storage(self) -> Any:
        return self.world.storages.open(head_of(self.world, self.table_id).location)

    def run(self, steps: int) -> None:
        acts: list[Callable[[], None]] = [
            *[self.append] * 6,
            *[self.work] * 2,
            *[self.collect] * 2,
            self.break_one,
            self.mend,
        ]
        for _ in range(steps):
            self.rng.choice(acts)()
            self.read()
        self.mend()
        self.work()
        self.read(whole=True)

    def append(self) -> None:
        for _ in range(self.rng.choice((1, 3, 6))):
            self.world.clock.now += self.rng.choice((1, 5)) * DAY_MS
            latest = max(self.truth)
            path = f"{latest + 1}.parquet"
            gone = [self.rng.choice(sorted(self.truth[latest]))] if len(self.truth[latest]) > 5 else []
            version = commit(self.world, self.table_id, delta.add(path), *map(delta.remove, gone))
            self.truth[version] = {*self.truth[latest], path} - set(gone)
        self.services.namespaces.create("main", (f"n{self.world.clock.now}",))
        Publisher(self.world).publish(self.table_id)

    def work(self) -> None:
        before = {stat.path for stat in self.storage.list(LOG)}
        done = Maintainer(self.world, following=(IndexUpkeep(self.world),)).maintain(self.table_id)
        for version in done.checkpoints:
            state = open_state(self.storage, version)
            if {add.path for add in state.files()} != self.truth[version]:
                raise Wrong(f"light work wrote a checkpoint of version {version} that is none: {before}")

    def collect(self) -> None:
        self.world.clock.now += 12 * DAY_MS
        self.services.namespaces.create("main", (f"n{self.world.clock.now}",))
        before = self.derived()
        Collector(self.world, Grace(history_ms=HISTORY_MS), workers=1).collect(("log",), dry_run=False)
        if before is not None and self.derived() != before:
            raise Wrong("what the log said is gone with what the clean-up removed")

    def derived(self) -> set[str] | None:
        """The files of the newest published version by the log, from whichever start; None if none
        is whole."""
        floor = head_of(self.world, self.table_id).floor
        try:
            return derive(self.storage, floor, lambda state: {add.path for add in state.files()})
        except TurnstileError:
            return None

    def break_one(self) -> None:
        if self.damage is not None:
            return
        there = [stat for stat in self.storage.list(LOG) if "_last" not in stat.path]
        checkpoints = [stat for stat in there if "checkpoint" in stat.path]
        stat = self.rng.choice(checkpoints if checkpoints and self.rng.random() < 0.5 else there)
        content = self.storage.read(stat.path)[0]
        self.damage = (stat.path, content, int(stat.path.removeprefix(LOG)[:20]))
        left = damaged(content, self.rng.choice(WAYS))
        if left is None:
            self.storage.delete(stat.path)
        else:
            self.storage.replace(stat.path, left)

    def mend(self) -> None:
        """The file is brought back, unless the log was cleaned up to a later version meanwhile."""
        if self.damage is not None:
            path, content, version = self.damage
            if version >= min(list_log(self.storage).commits, default=0) - 1:
                self.storage.replace(path, content)
            self.damage = None
        self.world.clock.now += 2 * DAY_MS  # light work that failed begins again

    def read(self, *, whole: bool = False) -> None:
        """The answer is right, or an error; for a log that is mended it is right."""
        head = head_of(self.world, self.table_id)
        try:
            files = {file.path for file in Planner(self.world).plan(head).files}
        except TurnstileError as error:
            if self.damage is None:
                raise Wrong(f"nothing is damaged, and no plan is made: {error.message}") from error
            if Repairer(self.world, Publisher(self.world)).diagnose(self.table_id).finding == "healthy":
                raise Wrong("no plan is made of a log that is healthy") from error
            return
        if files != self.truth[head.latest]:
            raise Wrong(f"a plan of version {head.latest} has {len(files)} files, not {len(self.truth[head.latest])}")
        if whole:
            found = Verifier(self.world).verify(self.table_id)
            if found.deviations:
                raise Wrong(f"of a log that is mended: {found.deviations[:2]}")
            for version in range(max(list_log(self.storage).checkpoints, default=0), head.floor + 1):
                if {add.path for add in open_state(self.storage, version).files()} != self.truth[version]:
                    raise Wrong(f"version {version} is not what it was")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_i24_nothing_wrong_is_said_or_done_because_of_a_damage(seed: int) -> None:
    Log(seed).run(40)


def _everything_is_relied_on() -> AbstractContextManager[Any]:
    """Files that are about to be the only copy are not read."""
    stack = ExitStack()
    stack.enter_context(patch("turnstile.gc.kinds.log.unreliable", lambda *_: ""))
    stack.enter_context(patch("turnstile.gc.kinds.log.judge", lambda *_, **__: Judgement()))
    return stack


def _an_empty_commit_is_one() -> AbstractContextManager[Any]:
    """A commit without a line is a commit without actions."""

    def some(pieces: Any, version: int, **_: Any) -> Any:
        yield from (line for line in lines(pieces, str(version)) if line.strip())

    stack = ExitStack()
    for module in ("turnstile.planning.changes", "turnstile.maintenance.state"):
        stack.enter_context(patch(f"{module}.commit_lines", some))
        stack.enter_context(patch(f"{module}.size_fault", lambda *_: None))
    stack.enter_context(patch("turnstile.maintenance.file_actions.commit_lines", some))
    stack.enter_context(patch("turnstile.planning.changes.transaction_of", lambda _: _Any()))
    stack.enter_context(
        patch("turnstile.maintenance.state.next", lambda of, *default: next(of, *default or (b"",)), create=True)
    )
    stack.enter_context(patch("turnstile.maintenance.state.begins_with_info", lambda _: True))
    return stack


class _Any:
    """Equal to everything."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


MISTAKES: Final = {
    "clean-up relies on what was not read": _everything_is_relied_on,
    "an empty commit is one": _an_empty_commit_is_one,
}


@pytest.mark.parametrize("name", MISTAKES)
def test_i24_a_mistake_that_is_planted_is_found(name: str) -> None:
    with MISTAKES[name]():
        for seed in range(400):
            try:
                Log(seed).run(40)
            except Wrong:
                return
    pytest.fail("it was not found")
