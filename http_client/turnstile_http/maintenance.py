"""The due work on a table by its policies, for workers of any kind (docs/maintenance.md,
"Policies").

    1  begin   the server answers with the due work on the table, and leases it to this process;
               most tables end here
    2  work    the worker does one job after the other. A thread renews the lease meanwhile
    3  finish  the server stores the results and the use, or the reason of the failure

A run stops between two bins when its window closes, its budget is used up, or its lease was lost;
committed bins stay. After a kill another process does the rest when the lease is over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

from turnstile_http.api import Api
from turnstile_http.errors import ApiError

log = logging.getLogger("turnstile_http")
#: How long a lease lasts that is not renewed: as long as a table waits for another worker when this
#: one dies.
TERM_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Progress:
    """A step of a rewrite: ``planned`` (bins were chosen), then for each bin ``rewritten`` (its
    files are written, and not visible), and ``committed`` (as ``version``) or ``lost`` (another
    commit changed one of its files or the table's definition; it is planned anew).
    """

    step: Literal["planned", "rewritten", "committed", "lost"]
    bins: int
    files: int
    bytes: int
    version: int | None = None


@dataclass(slots=True)
class Rewrite:
    """The result of a rewrite. ``files_before`` and ``bytes_before`` are of the chosen partitions
    at ``base_version``, ``files_after`` and ``bytes_after`` at ``latest_version``, with the commits
    of other writers. ``versions``: the commits of this run, one for each bin. ``left_files``:
    chosen, but not rewritten, because other commits changed them every time (``attempts``).
    """

    base_version: int
    files_before: int
    bytes_before: int
    latest_version: int = 0
    files_after: int = 0
    bytes_after: int = 0
    rewritten_files: int = 0
    rewritten_bytes: int = 0
    written_files: int = 0
    written_bytes: int = 0
    skipped_files: int = 0
    left_files: int = 0
    lost_bins: int = 0
    versions: list[int] = field(default_factory=list)


@dataclass(slots=True)
class TableRun:
    """The result for a table. ``outcome``: ``done``, ``stopped`` (the rest in another run),
    ``failed``, ``lost`` (another process took it over), or why nothing was begun: ``nothing due``,
    ``busy``, ``set aside``, ``unsupported``, ``unknown``. ``files`` and ``bytes`` that were
    rewritten, and ``versions`` that were committed.
    """

    table: str
    outcome: str
    reason: str = ""
    files: int = 0
    bytes: int = 0
    versions: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Job:
    """Work that is due on a table.

    ``where``: a predicate on partition columns in Spark's SQL, and ``partitions`` the same
    partitions by their values; both are empty for the whole table. ``report`` is called with each
    step, ``check`` between two steps of another kind: they raise the reason for ending the run.
    """

    operation: str
    where: str | None
    partitions: Sequence[Mapping[str, str | None]]
    target_bytes: int
    retention_ms: int | None
    report: Callable[[Progress], None]
    check: Callable[[], None]


class _Stop(Exception):
    """The run has to end; ``lost`` if another process may have the table."""

    def __init__(self, reason: str, *, lost: bool = False) -> None:
        super().__init__(reason)
        self.lost = lost


@dataclass(slots=True)
class DueWork:
    """The due work on a table. :meth:`run` does it, if there is any, and needs SELECT and MODIFY.

    ``operations``: the kinds of work that this process does; others are left to other workers.
    ``term_s``: of the lease, which is renewed while the process lives. ``dpus``: the capacity of
    this process, by which its time counts into a budget of DPU-hours; 0 counts none. ``worded``:
    errors whose message says enough; of others the report has the class, too. ``progress`` is
    called with the table's name and each step.
    """

    api: Api
    name: str
    table_id: str
    operations: Mapping[str, Callable[[Job], object]]
    term_s: float = field(default=TERM_S, kw_only=True)
    dpus: float = field(default=0, kw_only=True)
    worded: tuple[type[Exception], ...] = field(default=(ValueError,), kw_only=True)
    progress: Callable[[str, Progress], None] | None = field(default=None, kw_only=True)
    _done: TableRun = field(init=False)
    _stop_s: float | None = field(init=False, default=None)
    _lease: _Lease | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._done = TableRun(self.name, "done")

    def run(self) -> TableRun:
        """Does the work, and returns the result."""
        try:
            begun = self.api.begin_maintenance(self.table_id, int(self.term_s * 1000))
        except ApiError as e:
            unknown = e.status in (0, 500, 502, 504)  # a lease that was taken without an answer is free when it is over
            return TableRun(self.name, "unknown" if unknown else "failed", str(e))
        if begun["outcome"] != "begun":
            return TableRun(self.name, begun["outcome"], begun["reason"])
        self._done.reason = begun["reason"]
        self._stop_s = self._deadline_s(begun)
        results: list[dict[str, Any]] = []
        with _Lease(self.api, self.table_id, begun["attempt"], self.term_s) as self._lease:
            try:
                for due in begun["due"]:
                    if due["operation"] in self.operations:
                        self._work(due, begun, results)
            except _Stop as stop:
                self._done.outcome = "lost" if stop.lost else "stopped"
                self._done.reason = str(stop)
            except Exception as e:
                log.exception("turnstile: maintenance of %s failed", self.name)
                self._done.outcome = "failed"
                self._done.reason = self._reason(e)
            except BaseException:
                self._done.outcome = "stopped"
                self._done.reason = "the worker was told to end"
                self._finish(begun["attempt"], results)
                raise
        self._finish(begun["attempt"], results)
        return self._done

    def _deadline_s(self, begun: Mapping[str, Any]) -> float | None:
        """When this run has to stop: at the end of its window, or of the rest of its budget."""
        limits = []
        if begun.get("stop_ms") is not None:
            limits.append(begun["stop_ms"] / 1000)
        if begun.get("dpu_ms_left") is not None and self.dpus > 0:
            limits.append(time.time() + begun["dpu_ms_left"] / self.dpus / 1000)
        return min(limits, default=None)

    def _work(self, due: Mapping[str, Any], begun: Mapping[str, Any], results: list[dict[str, Any]]) -> None:
        result = {"operation": due["operation"], "files": 0, "bytes": 0, "complete": False}
        results.append(result)
        self._check()

        def step(progress: Progress) -> None:
            if progress.step == "committed":
                result["files"] += progress.files
                result["bytes"] += progress.bytes
                self._done.files += progress.files
                self._done.bytes += progress.bytes
                if progress.version is not None:
                    self._done.versions.append(progress.version)
            if self.progress is not None:
                self.progress(self.name, progress)
            self._check(before_commit=progress.step == "rewritten")

        partitions = [part["values"] for part in due.get("partitions") or () if due["where"] is not None]
        job = Job(
            operation=due["operation"],
            where=due["where"],
            partitions=partitions,
            target_bytes=begun["target_file_bytes"],
            retention_ms=begun.get("retention_ms"),
            report=step,
            check=self._check,
        )
        self.operations[job.operation](job)
        result["complete"] = due["complete"]

    def _check(self, *, before_commit: bool = False) -> None:
        """Raises the reason for ending the run. ``before_commit``: a written bin is committed next:
        then only a lost lease ends the run."""
        if self._lease is not None and self._lease.is_lost:
            raise _Stop("another process may have the table: the lease could not be renewed", lost=True)
        if not before_commit and self._stop_s is not None and time.time() >= self._stop_s:
            raise _Stop("its window, or its budget of today, is over")

    def _finish(self, attempt: int, results: list[dict[str, Any]]) -> None:
        """Reports the end to the server. A run that is lost reports nothing: its place is
        another's."""
        if self._done.outcome == "lost":
            return
        try:
            ended = {"outcome": self._done.outcome, "version": self.api.head(self.table_id).latest, "results": results}
            reason = self._done.reason[:1000]
            self.api.update_maintenance(self.table_id, attempt, {**ended, "reason": reason, "dpus": self.dpus})
        except ApiError as e:
            log.warning("turnstile: the end of maintenance of %s could not be reported: %s", self.name, e)
            if e.status == 409:
                self._done.outcome = "lost"
                self._done.reason = str(e)

    def _reason(self, error: Exception) -> str:
        text = str(error) if isinstance(error, self.worded) else f"{type(error).__name__}: {error}"
        return (text.strip().splitlines() or [type(error).__name__])[0][:500]


class _Lease:
    """Renews a lease in a thread, three times in its term. ``is_lost``: it is another's, or may
    be."""

    def __init__(self, api: Api, table_id: str, attempt: int, term_s: float) -> None:
        self._api = api
        self._id = table_id
        self._attempt = attempt
        self._term_s = term_s
        self._refused = False
        self._ended = threading.Event()
        self._renewed_s = time.monotonic()
        self._thread = threading.Thread(target=self._renew, name="turnstile-lease", daemon=True)

    @property
    def is_lost(self) -> bool:
        return self._refused or time.monotonic() - self._renewed_s > self._term_s

    def _renew(self) -> None:
        while not self._ended.wait(self._term_s / 3):
            sent_s = time.monotonic()
            try:
                body = {"outcome": "running", "term_ms": int(self._term_s * 1000)}
                self._api.update_maintenance(self._id, self._attempt, body)
            except ApiError as e:
                if e.status == 409:
                    self._refused = True
                    return
                log.warning("turnstile: the lease of %s was not renewed: %s", self._id, e)
            else:
                self._renewed_s = sent_s

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
