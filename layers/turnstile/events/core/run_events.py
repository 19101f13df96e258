"""From the row of a table's runs of heavy work and its mark to the events between them (I13).

The row belongs to the coordinated task: its attempts are the runs (``maintenance.runs``); its
mark has the newest attempt that the log has seen, and whether it was at work. Each attempt has an
event when it starts and one when it is over. For an attempt that was over before its row was read,
and that another has followed, only the number is known.
"""

from __future__ import annotations

from typing import Any, Final

from turnstile.coordination.core.rows import Task
from turnstile.delta.core.head import TableHead
from turnstile.events.core.events import Changes, Event
from turnstile.events.core.rows import EventMark
from turnstile.maintenance.core.candidates import RunHistory

MAINTENANCE_STARTED: Final = "turnstile.table.maintenance-started"
MAINTENANCE_DONE: Final = "turnstile.table.maintenance-done"

RUNNING: Final = "running"
IDLE: Final = "idle"

REPLACED_GAP: Final = 1_000_000
"""A gap of attempts that only a replaced row makes (``coordination.core.rows.unknown_task``): the
numbers in it were never given. It is 17 minutes of the numbers of assumed attempts, which are times
in ms; the next attempt begins an hour after an assumed one."""

ATTEMPTS_MAX: Final = 50
"""Attempts that get events at once, the newest: more of them between two looks were begun and ended
within moments."""


def run_changes(key: str, mark: EventMark | None, head: TableHead, task: Task) -> Changes:
    """Returns the events between ``mark`` (None: the log has not seen the table's runs) and the
    task.

    Args:
        key: of the mark.
        head: of the table; the events go to the log of its catalog.
    """
    before = mark or EventMark(key, 0, IDLE, max(task.attempt - 1, 0), 0, "", "", 0, 0)
    latest = before.latest
    rewound = before.rewound
    open_attempt = before.latest if before.state == RUNNING else None
    if task.attempt < latest:  # the task was forgotten, with its table, and begun anew
        latest = 0
        rewound = rewound + 1
        open_attempt = None
    events: list[Event] = []

    def event(type: str, attempt: int, time_ms: int, data: dict[str, Any]) -> None:
        again = f"~{rewound}" if rewound else ""
        id = f"{head.table_id}/{type.rpartition('.')[2]}/{attempt}{again}"
        events.append(Event(id, type, head.table_id, head.name, time_ms, {"attempt": attempt, **data}))

    is_gap = task.is_unknown or task.attempt - latest >= REPLACED_GAP
    shown_max = 1 if is_gap else ATTEMPTS_MAX
    for attempt in range(max(latest, task.attempt - shown_max) + 1, task.attempt + 1):
        if open_attempt is not None:
            event(MAINTENANCE_DONE, open_attempt, 0, {"outcome": "unknown"})
        event(MAINTENANCE_STARTED, attempt, task.began if attempt == task.attempt else 0, {})
        open_attempt = attempt
    if open_attempt is not None and not task.until:
        event(MAINTENANCE_DONE, open_attempt, task.ended, _outcome(task))
    if not events:
        return Changes((), None)
    count = before.count + (mark is not None)
    return Changes(tuple(events), EventMark(key, count, state_of(task), task.attempt, 0, "", "", 0, rewound))


def state_of(task: Task) -> str:
    """The state that a mark has after the events of a task."""
    return RUNNING if task.until else IDLE


def _outcome(task: Task) -> dict[str, Any]:
    """The end of the newest attempt, and its results by completed operation."""
    history = RunHistory.unpack(task.result)
    if task.failure or history.failures:
        return {"outcome": "failed", "reason": task.failure or history.reason}
    done = {name: run for name, run in history.runs.items() if run.ended_ms >= task.began}
    operations = [{"operation": name, "files": run.files, "bytes": run.bytes} for name, run in sorted(done.items())]
    version = {"version": max(run.version for run in done.values())} if done else {}
    return {"outcome": "done", **version, "operations": operations}
