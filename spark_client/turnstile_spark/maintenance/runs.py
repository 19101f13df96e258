"""Does the due work on the tables of a catalog with Spark, by their policies (docs/maintenance.md,
"Policies"): ``turnstile_http.maintenance`` has the steps of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from turnstile_http.maintenance import TERM_S, DueWork, Job, Progress, TableRun
from turnstile_spark.errors import TurnstileError
from turnstile_spark.lake import Lake

__all__ = ["TERM_S", "TableRun", "run"]
_HOUR_MS: Final = 3_600_000


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
        yield DueWork(
            lake.api,
            name,
            table_id,
            {operation: partial(_work, lake, name) for operation in ("optimize", "reorg", "vacuum")},
            term_s=term_s,
            dpus=dpus,
            worded=(ValueError, TurnstileError),
            progress=progress,
        ).run()


def _tables(lake: Lake, tables: Iterable[str] | None) -> Iterator[tuple[str, str]]:
    if tables is not None:
        for name in tables:
            yield name, lake.table(name).id
        return
    for namespace in lake.namespaces():
        for name, table_id in lake.api.delta_tables(namespace):
            yield f"{namespace}.{name}", table_id


def _work(lake: Lake, name: str, job: Job) -> None:
    table = lake.table(name)
    if job.operation == "optimize":
        table.optimize(where=job.where, target_bytes=job.target_bytes, progress=job.report)
    elif job.operation == "reorg":
        table.reorg(where=job.where, target_bytes=job.target_bytes, progress=job.report)
    else:
        hours = None if job.retention_ms is None else job.retention_ms / _HOUR_MS
        table.vacuum(hours, progress=lambda _: job.check())
