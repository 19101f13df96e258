"""Heavy work on tables, done by workers that have Spark: due work by policy, and one run on a table
at a time (ADR 31).

    1  begin    a table without possible work ends here: off, set aside, outside the windows, over
                budget, too few commits
    2  survey   the table's files are summed up, and the policy is applied to the sums
    3  lease    the table's coordinated task is begun: at most one run at a time. The results of
                another run show here
    4  renew    while the worker works; a worker that has lost the lease stops
    5  finish   done, stopped or failed; results and use are in the task's row, fenced by its
                attempt (I10)

A worker that dies leaves its lease, and its commits; another takes over when the lease is over, and
plans anew. A table that fails, or on which workers die, is left alone for a while, twice as long
each time; the others go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Literal

import msgspec

from turnstile.catalog.core.entities import Catalog, Namespace
from turnstile.catalog.core.paths import Path, dotted_name
from turnstile.catalog.core.policies import EffectivePolicy, Level, Policy, policy_of
from turnstile.catalog.core.tree import REALM_TREE
from turnstile.catalog.reader import CatalogReader
from turnstile.coordination.core.rows import Task
from turnstile.coordination.tasks import Busy, Tasks
from turnstile.delta.commits import read_head
from turnstile.delta.core.head import ACTIVE, TableHead
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.metadata import MetadataStore
from turnstile.maintenance.core.candidates import (
    REWRITES,
    LastRun,
    NotDue,
    Operation,
    PartitionColumn,
    Plan,
    RunHistory,
    Sums,
    Survey,
    held_up,
    partition_columns,
    plan,
    runs_task,
    too_soon,
)
from turnstile.maintenance.core.due import LONGEST_PAUSE_MS, pause_ms
from turnstile.maintenance.state import open_state
from turnstile.maintenance.survey import Indexed, LoggedFiles, SurveyedFiles, survey_of
from turnstile.store.core.errors import ErrorType, InvalidRequest, StateConflict, StorageFault
from turnstile.store.core.terms import is_over
from turnstile.store.ports import World

Outcome = Literal["done", "stopped", "failed"]
OPERATIONS: Final[tuple[Operation, ...]] = (*REWRITES, "vacuum")


class Overview(msgspec.Struct, frozen=True):
    """A table's policy and plan. ``version``: the published one that was looked at; ``complete``:
    whether all of its files were, in the time there was; ``left_out`` partitions, or files, that
    are not in the sums. ``running_until_ms``: of a run's lease.
    """

    head: TableHead
    effective: EffectivePolicy
    history: RunHistory
    plan: Plan
    version: int
    files: Sums
    complete: bool
    left_out: int
    attempt: int
    running_until_ms: int | None


class BegunRun(msgspec.Struct, frozen=True):
    """A run that may work until ``until_ms``; ``overview`` has its plan. ``dpu_ms_left`` of today's
    budget; None: no limit."""

    attempt: int
    until_ms: int
    overview: Overview
    dpu_ms_left: int | None


class NoRun(msgspec.Struct, frozen=True):
    """Nothing was begun, and why."""

    outcome: Literal["nothing due", "busy", "set aside"]
    reason: str


class OperationResult(msgspec.Struct, frozen=True):
    """The result of a run for one operation; ``complete``: all due work."""

    operation: Operation
    files: int
    bytes: int
    complete: bool


class RunReport(msgspec.Struct, frozen=True):
    """How a run ended, by its worker: the table's ``version`` after it; ``dpus`` that it had."""

    outcome: Outcome
    version: int
    results: tuple[OperationResult, ...] = ()
    reason: str = ""
    dpus: float = 0


class MaintenanceRuns:
    """Plans and leases of heavy work. No state between calls. ``reader`` is not a request's: rights
    on a catalog do not change the policies of its tables. ``indexed``: finds a table's files
    without its checkpoint.
    """

    def __init__(
        self, world: World, reader: CatalogReader, metadata: MetadataStore, indexed: Indexed = lambda *_: None
    ) -> None:
        self._world = world
        self._clock = world.clock
        self._reader = reader
        self._metadata = metadata
        self._indexed = indexed
        self._tasks = Tasks(world)

    def overview(self, table_id: str, until_ms: int) -> Overview:
        """Returns the due work on a table, with reasons. Raises NotFound; UnsupportedTable for a
        log that cannot be read."""
        head = read_head(self._world, table_id)
        return self._overview(head, self._tasks.last(runs_task(table_id)) or Task(), until_ms)

    def begin(self, table_id: str, term_ms: int, until_ms: int) -> BegunRun | NoRun:
        """Begins a run if something is due. The worker has to renew it before its lease ends.
        Raises as ``overview``."""
        head = read_head(self._world, table_id)
        now = self._clock.now_ms()
        last = self._tasks.replace_damaged(runs_task(table_id)) or Task()
        if last.running(now):
            return NoRun("busy", last.failure) if last.is_unknown else _busy(last.until - now)
        history = history_of(last, now)
        effective = self.policy(head)
        reason = _refusal(head) or held_up(effective.policy, history, now)
        if reason:
            return NoRun("nothing due" if is_over(history.again_ms, now, LONGEST_PAUSE_MS) else "set aside", reason)
        if not self._may_be_due(head, effective, history):
            return NoRun("nothing due", "too few commits since the last run")
        seen = self._overview(head, last, until_ms)
        if not seen.plan.due:
            reasons = "; ".join(f"{each.operation}: {each.reason}" for each in seen.plan.not_due)
            return NoRun("nothing due", reasons)
        attempt = self._tasks.begin(runs_task(table_id), term_ms)
        if isinstance(attempt, Busy):
            return _busy(attempt.until - now)
        if attempt.task.result != last.result:  # another run ended meanwhile: the plan is of before it
            self._tasks.finish(attempt, attempt.task.result)
            return NoRun("busy", "another worker has just done it")
        hours = effective.policy.budget_dpu_hours
        dpu_left = None if hours is None else max(0, int(hours * 3_600_000) - history.spent(now)[1])
        return BegunRun(attempt.task.attempt, attempt.task.until, seen, dpu_left)

    def renew(self, table_id: str, attempt: int, term_ms: int) -> int:
        """Returns the later end of a run's lease. Raises StateConflict if it is another worker's:
        stop at once."""
        held = self._tasks.running_attempt(runs_task(table_id), attempt)
        renewed = None if held is None else self._tasks.renew(held, term_ms)
        if renewed is None:
            raise _lease_lost(attempt)
        return renewed.task.until

    def finish(self, table_id: str, attempt: int, report: RunReport) -> RunHistory:
        """Ends a run, and returns the stored results. Raises StateConflict if it is another
        worker's by now; InvalidRequest for a version that the table does not have."""
        head = read_head(self._world, table_id)
        now = self._clock.now_ms()
        if report.version > head.latest:
            raise InvalidRequest(
                f"version {report.version} is none of the table's: the latest is {head.latest}",
                field="version",
                remedy="send the table's latest version after the run",
            )
        held = self._tasks.running_attempt(runs_task(table_id), attempt)
        if held is None:
            raise _lease_lost(attempt)
        history = after_run(history_of(held.task, now), report, began_ms=held.task.began, now_ms=now)
        if not self._tasks.finish(held, history.pack()):
            raise _lease_lost(attempt)
        return history

    def policy(self, head: TableHead) -> EffectivePolicy:
        """Returns the policy of a table, from the catalog as it is now."""
        catalog, *path = (head.name or head.catalog).split(".")
        metadata = self._metadata.get(head.catalog, head.metadata)
        table = Level("table", head.name, table_properties(metadata))
        return policy_of((*self.levels(catalog, tuple(path[:-1])), table))

    def levels(self, catalog: str, namespaces: Path) -> list[Level]:
        """Returns the properties of a catalog and of namespaces in it, from the outermost in;
        without namespaces that do not exist."""
        levels = list[Level]()
        store = self._reader.store
        entry = self._reader.current(REALM_TREE).find((catalog,))
        entity = store.entity(REALM_TREE, entry.obj) if entry is not None else None
        if isinstance(entity, Catalog):
            levels.append(Level("catalog", entity.name, entity.properties))
        tree = self._reader.current(catalog) if namespaces else None
        for depth in range(1, len(namespaces) + 1):
            entry = tree.find(namespaces[:depth]) if tree is not None else None
            entity = store.entity(catalog, entry.obj) if entry is not None else None
            if isinstance(entity, Namespace):
                levels.append(Level("namespace", dotted_name(catalog, *namespaces[:depth]), entity.properties))
        return levels

    # -- parts --------------------------------------------------------------------------------------------------------

    def _may_be_due(self, head: TableHead, effective: EffectivePolicy, history: RunHistory) -> bool:
        """Whether it is worth while to read the table's files."""
        policy = effective.policy
        rewrites = any(
            getattr(policy, operation) and not too_soon(policy, history.runs.get(operation), head.floor, None)
            for operation in REWRITES
        )
        return rewrites or policy.vacuum

    def _overview(self, head: TableHead, task: Task, until_ms: int) -> Overview:
        now = self._clock.now_ms()
        effective = self.policy(head)
        history = history_of(task, now)
        refusal = _refusal(head)
        running = task.until if task.running(now) else None
        if refusal:
            none = Plan((), tuple(NotDue(operation, refusal) for operation in OPERATIONS))
            return Overview(
                head, effective, history, none, head.floor, Sums(), True, 0, task.attempt, running
            )  # fmt: skip
        columns, survey = self._survey(head, effective.policy, history, until_ms)
        due_now = plan(effective.policy, survey, columns, history, version=head.floor, now_ms=now)
        return Overview(
            head,
            effective,
            history,
            due_now,
            head.floor,
            survey.table,
            survey.complete,
            survey.left_out,
            task.attempt,
            running,
        )

    def _survey(
        self, head: TableHead, policy: Policy, history: RunHistory, until_ms: int
    ) -> tuple[Sequence[PartitionColumn], Survey]:
        """The table's partition columns and the sums of its files: by its index, or by checkpoint
        and log where none serves."""
        since_ms = max((history.runs[name].ended_ms for name in REWRITES if name in history.runs), default=0)

        def of(files: SurveyedFiles) -> tuple[Sequence[PartitionColumn], Survey]:
            columns = partition_columns(files.metadata)
            survey = survey_of(
                files,
                columns,
                target_bytes=policy.target_file_bytes,
                since_ms=since_ms,
                clock=self._clock,
                until_ms=until_ms,
            )
            return columns, survey

        with suppress(StorageFault):  # a leaf is gone
            indexed = self._indexed(head, head.floor)
            if indexed is not None:
                return of(indexed)
        return of(LoggedFiles(open_state(self._world.storages.open(head.location), head.floor)))


def table_properties(metadata: DeltaMetadata) -> dict[str, str]:
    """Returns the properties of a table, in its log and beside it; properties in the log win."""
    return {**metadata.beside.properties, **(metadata.metadata.get("configuration") or {})}


def history_of(task: Task, now_ms: int) -> RunHistory:
    """Returns the results of earlier runs. Runs of dead workers count as failures, except the first
    one: the next worker takes over at once after one death, and later after several."""
    history = RunHistory.unpack(task.result)
    died = task.abandoned + bool(task.until and not task.running(now_ms))
    if died < 2:
        return history
    again_ms = max(history.again_ms, task.until + pause_ms(died - 1)) if task.until else history.again_ms
    reason = f"{died} runs ended without a report: their workers died"
    return msgspec.structs.replace(history, failures=history.failures + died, reason=reason, again_ms=again_ms)


def after_run(history: RunHistory, report: RunReport, *, began_ms: int, now_ms: int) -> RunHistory:
    """Returns the results after a run."""
    results: Sequence[OperationResult] = report.results
    runs = dict(history.runs)
    for each in results:
        if each.complete:
            runs[each.operation] = LastRun(report.version, now_ms, each.files, each.bytes)
    used = history.spending(now_ms, sum(each.bytes for each in results), int((now_ms - began_ms) * report.dpus))
    if report.outcome == "failed":
        failures = history.failures + 1
        again_ms = now_ms + pause_ms(failures)
        reason = report.reason[:500] or "the worker gave no reason"
        return msgspec.structs.replace(used, runs=runs, failures=failures, reason=reason, again_ms=again_ms)
    return msgspec.structs.replace(used, runs=runs, failures=0, reason="", again_ms=0)


def _busy(left_ms: int) -> NoRun:
    return NoRun("busy", f"another worker has it for {max(0, left_ms) // 1000} s more, unless it renews its lease")


def _refusal(head: TableHead) -> str:
    """Why nothing is done on a table; empty if something may be."""
    return "" if head.state == ACTIVE else f"it is {head.state}"


def _lease_lost(attempt: int) -> StateConflict:
    problem = f"run {attempt} does not have the table any more: its lease is over, or it has ended"
    return StateConflict(ErrorType.CONCURRENT_CHANGE, problem, field="attempt", remedy="stop; begin another run")
