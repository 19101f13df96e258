"""Maintenance of a table over HTTP: due work with its reasons, and the runs of workers
(docs/maintenance.md, "Policies").

A plan names partitions by their values, so it needs the right to read the table. Runs need the
right to write its files.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType

from turnstile.api.http.authorization import needs_table
from turnstile.api.http.request import Query, body, note
from turnstile.api.services import services
from turnstile.api.v1.paths import TABLE_BY_ID, uuid_of_path
from turnstile.api.v1.policies import IgnoredValue, ShownValue, shown_values
from turnstile.coordination.core.rows import TERM_MOST_MS
from turnstile.events.core.follow_ups import ActionState
from turnstile.maintenance.core.candidates import Job, NotDue, Operation
from turnstile.maintenance.runs import NoRun, OperationResult, Overview, RunReport
from turnstile.rights.rules import read_table, write_files
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.limits import NonNegativeExact
from turnstile.store.core.names import check_uuid

routes = Blueprint(__name__)

TIME_MS = 20_000
"""How long files are looked at: less than the function's time limit, which is less than the
gateway's."""

_RUN = TABLE_BY_ID + "/maintenance-runs/{attempt}"
_TermMs = Annotated[int, msgspec.Meta(ge=1_000, le=TERM_MOST_MS)]
_USUAL_TERM_MS = 300_000


class Begin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../maintenance-runs``: ``term_ms`` of the lease."""

    term_ms: _TermMs = _USUAL_TERM_MS


class Done(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a run for one operation."""

    operation: Operation
    files: NonNegativeExact
    bytes: NonNegativeExact
    complete: bool


class RunUpdate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../maintenance-runs/{attempt}``: ``running`` renews the lease by ``term_ms``; the
    others end the run."""

    outcome: Literal["running", "done", "stopped", "failed"]
    term_ms: _TermMs = _USUAL_TERM_MS
    version: NonNegativeExact | None = None
    results: Annotated[list[Done], msgspec.Meta(max_length=10)] = []
    reason: Annotated[str, msgspec.Meta(max_length=2_000)] = ""
    dpus: Annotated[float, msgspec.Meta(ge=0, le=10_000)] = 0


class ShownRun(msgspec.Struct, frozen=True):
    """The last run of an operation that did all that was due."""

    operation: str
    version: int
    ended_ms: int
    files: int
    bytes: int


class RunState(msgspec.Struct, frozen=True):
    """Runs on the table. ``running_until_ms``: the end of the lease of run ``attempt``, if it runs;
    the use of today's budget; ``failures`` in a row, the reason of the last one, and the time of
    the next look at the table.
    """

    attempt: int
    running_until_ms: int | None
    last: list[ShownRun]
    spent_bytes: int
    spent_dpu_hours: float
    failures: int
    reason: str
    again_ms: int


class TableFiles(msgspec.Struct, frozen=True):
    """Files of the table at the version that was looked at; ``complete``: all of them, in the time
    there was; ``left_out``: how many partitions are not in the plan because there are too many."""

    files: int
    bytes: int
    small_files: int
    deletion_vector_files: int
    deleted_rows: int
    complete: bool
    left_out: int


class LightWork(msgspec.Struct, frozen=True):
    """Checkpoints and log compaction files, which the service writes by itself: whether something
    is due at the published version, or an attempt has begun and not ended, from which version on it
    is due, and why the last attempt failed.
    """

    due: bool
    next_version: int
    failures: int
    reason: str


class FollowUp(msgspec.Struct, frozen=True):
    """A rule of the policy ``follow-ups``, and the state of its action: acknowledged up to
    ``version`` (None: never) at ``done_ms``; requested up to ``pending_version``; ``failures`` in a
    row, the reason of the last one, and the time of the next request.
    """

    action: str
    commits: int
    version: int | None
    pending_version: int | None
    done_ms: int
    failures: int
    reason: str
    again_ms: int


class TableMaintenance(msgspec.Struct, frozen=True):
    """A table's policy, and the work that is due at ``version`` or not, with reasons."""

    name: str
    table_id: str
    version: int
    state: str
    policy: list[ShownValue]
    ignored: list[IgnoredValue]
    files: TableFiles
    due: list[Job]
    not_due: list[NotDue]
    runs: RunState
    light: LightWork
    follow_ups: list[FollowUp]


class Run(msgspec.Struct, frozen=True):
    """A run that was started, with its work and its deadline; or the reason why none was.
    ``target_file_bytes`` and ``retention_ms`` (None: the table's) are from the policy; ``stop_ms``:
    the window's end; ``dpu_ms_left`` of today's budget.
    """

    outcome: Literal["begun", "nothing due", "busy", "set aside"]
    reason: str
    attempt: int | UnsetType = UNSET
    until_ms: int | UnsetType = UNSET
    name: str | UnsetType = UNSET
    due: list[Job] | UnsetType = UNSET
    target_file_bytes: int | UnsetType = UNSET
    retention_ms: int | UnsetType | None = UNSET
    stop_ms: int | UnsetType | None = UNSET
    dpu_ms_left: int | UnsetType | None = UNSET


class RunUpdated(msgspec.Struct, frozen=True):
    """A run's lease, or how the table stands after it."""

    until_ms: int
    failures: int = 0
    again_ms: int = 0


@routes.route(TABLE_BY_ID + "/maintenance", methods=["GET"])
@needs_table(read_table, of=uuid_of_path)
def maintenance(table_id: str) -> TableMaintenance:
    Query()
    here = services()
    seen = here.maintenance_runs.overview(check_uuid(table_id), here.world.clock.now_ms() + TIME_MS)
    light, is_due = here.maintainer.standing(seen.head)
    values, ignored = shown_values(seen.effective)
    files = seen.files
    return TableMaintenance(
        seen.head.name,
        seen.head.table_id,
        seen.version,
        seen.head.state,
        values,
        ignored,
        TableFiles(
            files.files,
            files.bytes,
            files.small_files,
            files.vector_files,
            files.deleted_rows,
            seen.complete,
            seen.left_out,
        ),
        list(seen.plan.due),
        list(seen.plan.not_due),
        _runs(seen, here.world.clock.now_ms()),
        LightWork(is_due, light.next, light.failures, light.reason),
        _follow_ups(seen),
    )


@routes.route(TABLE_BY_ID + "/maintenance-runs", methods=["POST"])
@needs_table(write_files, of=uuid_of_path)
def begin_run(table_id: str) -> Run:
    Query()
    term_ms = body(Begin).term_ms
    here = services()
    begun = here.maintenance_runs.begin(check_uuid(table_id), term_ms, here.world.clock.now_ms() + TIME_MS)
    if isinstance(begun, NoRun):
        note(table_id=table_id, outcome=begun.outcome)
        return Run(begun.outcome, begun.reason)
    seen = begun.overview
    note(table_id=table_id, outcome="begun", attempt=begun.attempt)
    return Run(
        outcome="begun",
        reason="; ".join(f"{job.operation}: {job.reason}" for job in seen.plan.due),
        attempt=begun.attempt,
        until_ms=begun.until_ms,
        name=seen.head.name,
        due=list(seen.plan.due),
        target_file_bytes=seen.effective.policy.target_file_bytes,
        retention_ms=seen.effective.policy.retention_ms,
        stop_ms=seen.plan.stop_ms,
        dpu_ms_left=begun.dpu_ms_left,
    )


@routes.route(_RUN, methods=["POST"])
@needs_table(write_files, of=uuid_of_path)
def update_run(table_id: str, attempt: str) -> RunUpdated:
    Query()
    sent = body(RunUpdate)
    runs = services().maintenance_runs
    number = int(attempt) if attempt.isascii() and attempt.isdigit() and len(attempt) < 16 else 0
    if number < 1:
        raise InvalidRequest(f"no run {attempt[:40]!r}", field="attempt", remedy="send the attempt that was begun")
    note(table_id=table_id, outcome=sent.outcome, attempt=number)
    if sent.outcome == "running":
        return RunUpdated(runs.renew(check_uuid(table_id), number, sent.term_ms))
    if sent.version is None:
        raise InvalidRequest(
            "version is missing", field="version", remedy="send the table's latest version after the run"
        )
    results = tuple(OperationResult(each.operation, each.files, each.bytes, each.complete) for each in sent.results)
    report = RunReport(sent.outcome, sent.version, results, sent.reason, sent.dpus)
    after = runs.finish(check_uuid(table_id), number, report)
    return RunUpdated(0, after.failures, after.again_ms)


def _follow_ups(seen: Overview) -> list[FollowUp]:
    rules = seen.effective.policy.follow_ups
    actions = services().follow_ups.state(seen.head.table_id).actions if rules else {}
    shown = []
    for rule in rules:
        state = actions.get(rule.action) or ActionState(-1)
        version = None if state.version < 0 else state.version
        pending = state.pending or None
        shown.append(
            FollowUp(
                rule.action, rule.commits, version, pending, state.done_ms, state.failures, state.reason, state.again_ms
            )
        )
    return shown


def _runs(seen: Overview, now_ms: int) -> RunState:
    history = seen.history
    spent_bytes, spent_dpu_ms = history.spent(now_ms)
    last = [ShownRun(name, run.version, run.ended_ms, run.files, run.bytes) for name, run in history.runs.items()]
    return RunState(
        seen.attempt,
        seen.running_until_ms,
        last,
        spent_bytes,
        round(spent_dpu_ms / 3_600_000, 6),
        history.failures,
        history.reason,
        history.again_ms,
    )
