"""Does the due work on the tables of a catalog, by their policies (docs/maintenance.md,
"Policies").

    1  begin   the server answers with the due work on a table, and leases it to this process; most
               tables end here
    2  work    optimize, reorg, vacuum, as ``turnstile_spark.maintenance`` does them. A thread
               renews the lease meanwhile
    3  finish  the server stores the results and the use, or the reason of the failure

A run stops between two bins when its window closes, its budget is used up, or its lease was lost;
committed bins stay. After a kill another process does the rest when the lease is over. A table that
fails is reported, and the others go on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Self

from turnstile_http.errors import ApiError
from turnstile_spark.errors import TurnstileError
from turnstile_spark.lake import Lake, Table
from turnstile_spark.maintenance import Progress

log = logging.getLogger("turnstile_spark")
#: How long a lease lasts that is not renewed: as long as a table waits for another worker when this
#: one dies.
TERM_S: Final = 300.0
#: Pause between two looks at all tables.
PAUSE_S: Final = 300.0
_HOUR_MS: Final = 3_600_000


@dataclass(slots=True)
class TableRun:
    """The result for a table. ``outcome``: ``done``, ``stopped`` (the rest in another run),
    ``failed``, ``lost`` (another process took it over), or why nothing was begun: ``nothing due``,
    ``busy``, ``set aside``, ``unknown``. ``files`` and ``bytes`` that were rewritten, and
    ``versions`` that were committed.
    """

    table: str
    outcome: str
    reason: str = ""
    files: int = 0
    bytes: int = 0
    versions: list[int] = field(default_factory=list)


class _Stop(Exception):
    """The run has to end; ``lost`` if another process may have the table."""

    def __init__(self, reason: str, *, lost: bool = False) -> None:
        super().__init__(reason)
        self.lost = lost


def run(
    lake: Lake,
    tables: Iterable[str] | None = None,
    *,
    term_s: float = TERM_S,
    dpus: float = 0,
    progress: Callable[[str, Progress], None] | None = None,
) -> Iterator[TableRun]:
    """Yields the result for each table, one after the other.

    ``tables``: ``namespace.table``; all of the catalog without it. ``term_s``: of a lease, renewed
    while the process lives. ``dpus``: the capacity of this Spark, by which its time counts into a
    budget of DPU-hours; 0 counts none. Needs SELECT and MODIFY on the tables; one that may not be
    maintained is yielded as ``failed``, and the others go on.
    """
    for name, table_id in _tables(lake, tables):
        yield _TableWork(lake, name, table_id, term_s=term_s, dpus=dpus, progress=progress).run()


def _tables(lake: Lake, tables: Iterable[str] | None) -> Iterator[tuple[str, str]]:
    if tables is not None:
        for name in tables:
            yield name, lake.table(name).id
        return
    for namespace in lake.namespaces():
        for name, table_id in lake.api.delta_tables(namespace):
            yield f"{namespace}.{name}", table_id


class _TableWork:
    """A run on one table."""

    def __init__(
        self,
        lake: Lake,
        name: str,
        table_id: str,
        *,
        term_s: float,
        dpus: float,
        progress: Callable[[str, Progress], None] | None,
    ) -> None:
        self._lake = lake
        self._api = lake.api
        self._name = name
        self._id = table_id
        self._term_s = term_s
        self._dpus = dpus
        self._report = progress
        self._done = TableRun(name, "done")
        self._stop_s: float | None = None
        self._lease: _Lease | None = None

    def run(self) -> TableRun:
        try:
            begun = self._api.begin_maintenance(self._id, int(self._term_s * 1000))
        except ApiError as e:
            unknown = e.status in (0, 500, 502, 504)  # a lease that was taken without an answer is free when it is over
            return TableRun(self._name, "unknown" if unknown else "failed", str(e))
        if begun["outcome"] != "begun":
            return TableRun(self._name, begun["outcome"], begun["reason"])
        self._done.reason = begun["reason"]
        self._stop_s = self._deadline_s(begun)
        results: list[dict[str, Any]] = []
        with _Lease(self._api, self._id, begun["attempt"], self._term_s) as self._lease:
            try:
                for job in begun["due"]:
                    self._work(job, begun, results)
            except _Stop as stop:
                self._done.outcome = "lost" if stop.lost else "stopped"
                self._done.reason = str(stop)
            except Exception as e:
                log.exception("turnstile_spark: maintenance of %s failed", self._name)
                self._done.outcome = "failed"
                self._done.reason = _reason(e)
            except BaseException:
                self._done.outcome = "stopped"
                self._done.reason = "the worker was told to end"
                self._finish(begun["attempt"], results)
                raise
        self._finish(begun["attempt"], results)
        return self._done

    def _deadline_s(self, begun: dict[str, Any]) -> float | None:
        """When this run has to stop: at the end of its window, or of the rest of its budget."""
        limits = []
        if begun.get("stop_ms") is not None:
            limits.append(begun["stop_ms"] / 1000)
        if begun.get("dpu_ms_left") is not None and self._dpus > 0:
            limits.append(time.time() + begun["dpu_ms_left"] / self._dpus / 1000)
        return min(limits, default=None)

    def _work(self, job: dict[str, Any], begun: dict[str, Any], results: list[dict[str, Any]]) -> None:
        table: Table = self._lake.table(self._name)
        result = {"operation": job["operation"], "files": 0, "bytes": 0, "complete": False}
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
            if self._report is not None:
                self._report(self._name, progress)
            self._check(before_commit=progress.step == "rewritten")

        options: dict[str, Any] = {"target_bytes": begun["target_file_bytes"], "progress": step}
        if job["operation"] == "optimize":
            table.optimize(where=job["where"], **options)
        elif job["operation"] == "reorg":
            table.reorg(where=job["where"], **options)
        else:
            retention_ms = begun.get("retention_ms")
            table.vacuum(None if retention_ms is None else retention_ms / _HOUR_MS, progress=lambda _: self._check())
        result["complete"] = job["complete"]

    def _check(self, *, before_commit: bool = False) -> None:
        """Raises the reason for ending the run. ``before_commit``: a written bin is committed next:
        then only a lost lease ends the run."""
        if self._lease is not None and self._lease.is_lost:
            raise _Stop("another process may have the table: the lease could not be renewed", lost=True)
        if not before_commit and self._stop_s is not None and time.time() >= self._stop_s:
            raise _Stop("its window, or its budget of today, is over")

    def _finish(self, attempt: int, results: list[dict[str, Any]]) -> None:
        """Tells the server. A run that is lost has nothing to tell: its place is another's."""
        if self._done.outcome == "lost":
            return
        try:
            ended = {"outcome": self._done.outcome, "version": self._api.head(self._id).latest, "results": results}
            reason = self._done.reason[:1000]
            self._api.update_maintenance(self._id, attempt, {**ended, "reason": reason, "dpus": self._dpus})
        except ApiError as e:
            log.warning("turnstile_spark: the end of maintenance of %s could not be told: %s", self._name, e)
            if e.status == 409:
                self._done.outcome = "lost"
                self._done.reason = str(e)


def _reason(error: Exception) -> str:
    text = str(error) if isinstance(error, (ValueError, TurnstileError)) else f"{type(error).__name__}: {error}"
    return (text.strip().splitlines() or [type(error).__name__])[0][:500]


class _Lease:
    """Renews a lease in a thread, three times in its term. ``lost``: it is another's, or may be."""

    def __init__(self, api: Any, table_id: str, attempt: int, term_s: float) -> None:
        self._api = api
        self._id = table_id
        self._attempt = attempt
        self._term_s = term_s
        self._refused = False
        self._ended = threading.Event()
        self._held_s = time.monotonic()
        self._thread = threading.Thread(target=self._renew, name="turnstile-lease", daemon=True)

    @property
    def is_lost(self) -> bool:
        return self._refused or time.monotonic() - self._held_s > self._term_s

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
                log.warning("turnstile_spark: the lease of %s was not renewed: %s", self._id, e)
            else:
                self._held_s = sent_s

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
