"""The scenario of the clean-up of a log: the table of the scenario of vacuums, with workers that
write its checkpoints, and collectors that remove expired files of its log. A version is gone if its
commits or checkpoints are gone (I10, I15).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

from msgspec.structs import replace

from tests.simulation.actors.catalog_history import PastActor
from tests.simulation.actors.light_work import Worker
from tests.simulation.actors.maintenance import sweep
from tests.simulation.auditors.record import Violation, audits
from tests.simulation.engine.plans import HOUR, MINUTE, SECOND, Plan
from tests.simulation.engine.ports import Process
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from tests.simulation.mistakes.tables import swapped, without
from tests.simulation.scenarios.scenario import Actor
from tests.simulation.scenarios.vacuums import OTHERS, WEEK, Appender, PinAuditor, Vacuumed, forgets
from tests.support.fakes.storage import FakeClock, FakeStorage, FakeStorages
from turnstile.delta.core.segments import starts
from turnstile.delta.log.files import LogFiles, list_log
from turnstile.delta.soundness.checkpoints import SIDECARS
from turnstile.gc.collector import Collector
from turnstile.gc.kinds import log
from turnstile.maintenance import pins
from turnstile.maintenance.core import cleanup, due, upkeep
from turnstile.maintenance.core.retention import Retention
from turnstile.maintenance.core.upkeep import Upkeep as LogUpkeep
from turnstile.maintenance.holds import Holds
from turnstile.maintenance.state import is_complete
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.names import LOG


class LogAuditor(PinAuditor):
    """As of vacuums; and the versions that the log has lost, checked before each file of it is
    removed."""

    def __init__(self, state: State, table_id: str, kept_ms: int) -> None:
        super().__init__(state, table_id)
        self._kept_ms = kept_ms
        self._unreadable = set[int]()
        state.auditor.cleanups.append(self._goes)

    @audits
    def _goes(self, location: str, path: str) -> None:
        storage = self._without(location, path)
        files = list_log(storage)
        commits = sorted(files.commits)
        if commits != list(range(commits[0], commits[-1] + 1)):
            raise Violation("I15", f"without {path} the log has the commits {commits}")
        complete = [version for version in files.checkpoints if self._is_complete(storage, version, files)]
        for version in range(commits[-1] + 1):
            if version not in files.commits or next(starts(complete, files.commits, version), None) is None:
                self._unreadable.add(version)
        seen = self._state.auditor.seen
        seen["cleaned sidecar" if path.startswith(SIDECARS) else "cleaned file"] += 1
        self.removed |= self._unreadable
        began = self._state.scheduler.now - self._kept_ms
        for (version, _), (_, replaced) in zip(self._since, self._since[1:], strict=False):
            if replaced > began and version in self._unreadable:
                raise Violation("I15", f"{path}: version {version} was the latest until {replaced}")
        if commits[-1] in self._unreadable:
            raise Violation("I15", f"without {path} version {commits[-1]} cannot be read")
        self.check()

    def _without(self, location: str, path: str) -> FakeStorage:
        """The log without that file."""
        alone = FakeStorages(FakeClock())
        files = self._state.storages.files
        log = f"{location.rstrip('/')}/{LOG}"
        alone.files = {key: file for key, file in files.items() if key.startswith(log) and not key.endswith(f"/{path}")}
        return alone.open(location)

    @staticmethod
    def _is_complete(storage: FakeStorage, version: int, files: LogFiles) -> bool:
        return is_complete(storage, version, files)


class BusyAppender(Appender):
    """Appends several versions at once."""

    def act(self) -> None:
        for _ in range(self.rng.choice((1, 2, 4))):
            super().act()


class Upkeep(Worker):
    """Publishes, and does light work, now and then."""

    def __call__(self) -> None:
        while True:
            self._state.scheduler.sleep(self._rng.choice((10 * MINUTE, HOUR)))
            try:
                process = Process(self._state, self._name)
                sweep(self._state, process)
                self.work(process)
            except (Crashed, TurnstileError):
                continue


class Cleaner(PastActor):
    """Collects expired files of logs."""

    def act(self) -> None:
        grace = self.state.grace
        report = self.ask(lambda box: Collector(box.world, grace, workers=1).collect(("log",), dry_run=False))
        self.state.auditor.seen["clean-up" if report.deleted else "clean-up of nothing"] += 1


class LogCleanup(Vacuumed):
    """One table with a log that is cleaned up, and all holders of its versions."""

    name = "log-cleanup"
    names_pause = WEEK

    def plan(self, seed: int) -> Plan:
        rng = random.Random(f"log-cleanup/{seed}")
        others = [name for name in OTHERS if name != "names" and rng.random() < 0.5]
        kinds = ("before", "lost", "late", "throttle", "crash", "crash after", "stall")
        some = [name for name in ("vacuum-1", "cleaner-2", "upkeep-2") if rng.random() < 0.4]
        return Plan(
            seed=seed,
            actors=("appender-1", "cleaner-1", "upkeep-1", "names", *some, *others),
            faults=tuple(kind for kind in kinds if rng.random() < 0.5),
            rate=rng.choice((0.0, 0.005, 0.02)),
            steps=rng.choice((1_000, 2_500)),
            row_tracking=False,
        )

    def _kept_hours(self, plan: Plan) -> int:
        return random.Random(f"{plan.seed}/kept").choice((1, 1, 6))

    @contextmanager
    def _small(self, plan: Plan) -> Iterator[None]:
        rng = random.Random(f"{plan.seed}/log")
        interval = rng.choice((1, 2, 3))
        v2 = rng.random() < 0.5
        kept = f"interval {self._kept_hours(plan)} hours"

        def with_kind(read: Callable[..., LogUpkeep]) -> Callable[..., LogUpkeep]:
            return lambda *given: replace(read(*given), v2=v2)

        with ExitStack() as stack:
            stack.enter_context(patch.object(upkeep, "INTERVAL", interval))
            stack.enter_context(patch.object(upkeep, "_MONTH", kept))
            stack.enter_context(patch.object(due, "COMPACTED", 2))
            stack.enter_context(patch.object(cleanup, "ORPHAN_MS", HOUR))
            stack.enter_context(
                patch.object(pins, "FILES", Retention("delta.deletedFileRetentionDuration", "interval 1 hour"))
            )
            stack.enter_context(patch.object(pins, "LOG", Retention("delta.logRetentionDuration", kept)))
            stack.enter_context(swapped("turnstile.maintenance.work.upkeep_of", with_kind))
            yield

    def limits(self, plan: Plan) -> AbstractContextManager[Any]:
        """Checkpoints of few versions, and logs that are kept for hours."""
        return self._small(plan)

    def auditor(self, state: State, table: str, plan: Plan) -> PinAuditor:
        return LogAuditor(state, table, self._kept_hours(plan) * HOUR)

    def kinds(self) -> dict[str, type[PastActor]]:
        return {**super().kinds(), "appender": BusyAppender, "cleaner": Cleaner}

    def other(self, state: State, name: str, table: str, rng: random.Random) -> Actor:
        """Publishers, and writers of checkpoints."""
        return Actor(name, Upkeep(state, name, table, rng))


def _kept_too_short() -> Any:
    """A log is kept for a second."""
    return swapped(
        "turnstile.maintenance.pins.retention_ms",
        lambda real: lambda properties, kept: SECOND if kept is pins.LOG else real(properties, kept),
    )


CLEANUP_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "clean-up: clones are forgotten": (forgets("_clones"), "I10"),
    "clean-up: moments are forgotten": (forgets("_moments"), "I10"),
    "clean-up: snapshots are forgotten": (
        lambda: swapped("turnstile.maintenance.pins.snapshots_with", lambda _: lambda *_: iter(())),
        "I10",
    ),
    "clean-up: readers are forgotten": (
        lambda: swapped("turnstile.maintenance.pins.live", lambda _: lambda *_: iter(())),
        "I10",
    ),
    "clean-up: the log's retention is forgotten": (_kept_too_short, "I15"),
    "clean-up: without marks": (lambda: patch.object(Holds, "announce_cleanup", lambda *_: None), "I10"),
    "clean-up: without 'same marks'": (without("turnstile.maintenance.holds.mark", "same marks"), "I10"),
    "clean-up: the newest checkpoint goes, too": (
        lambda: swapped("turnstile.gc.kinds.log.expired_files", lambda real: lambda files, at: real(files, at + 1)),
        "I1",
    ),
    "clean-up: the newest first": (
        lambda: swapped("turnstile.gc.kinds.log.expired_files", lambda real: lambda *given: real(*given)[::-1]),
        "I15",
    ),
    "clean-up: named sidecars go, too": (lambda: patch.object(log.Named, "read", lambda *_: None), "I1"),
}
"""The planted mistake, and the invariant that it breaks, or its prefix: a removed file is needed by
a pin (I10) or by the log (I15)."""
