"""Delta tables for Iceberg's clients: loaded as Iceberg tables with scans that the catalog plans
(ADR 43).

    scans = DeltaScans(world, metadata, lambda: planner)
    shown = scans.load(entity)                       # metadata of the HEAD: one read; and one
                                                     listing unless ``refs_only``
    first = scans.plan(entity, request)              # a page of tasks, and the plan task that has
                                                     the rest
    more = scans.resume(entity, first.plan_task)

A scan has no state: a plan task is an opaque text with the planned version, the filter, and the
position (ADR 44). So any server answers any request of a scan, and an abandoned scan costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from turnstile.catalog.core.entities import DELTA, Table
from turnstile.delta.commits import check_readable, read_head
from turnstile.delta.core.head import PINNED, TableHead, tail_by_version
from turnstile.delta.log.files import list_log
from turnstile.delta.metadata import MetadataStore
from turnstile.iceberg.core.delta_tables import (
    DeltaSource,
    check_features,
    check_same_columns,
    iceberg_metadata,
    partition_columns,
    snapshot_id,
    version_of,
)
from turnstile.iceberg.core.expressions import Filter, parse
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.scan_tasks import ScanTasks, TaskWriter
from turnstile.planning.core.plans import Plan, ScanPlanner
from turnstile.planning.core.predicates import TableColumns
from turnstile.store.core.errors import ErrorType, InvalidRequest, TooLarge, TurnstileError, UnsupportedTable
from turnstile.store.core.limits import PAGE_BYTES, Int64, response_size
from turnstile.store.core.names import published_path
from turnstile.store.core.opaque import Damaged, seal, unseal
from turnstile.store.ports import LogStorage, World

FILES: Final = 4_000
"""Tasks of one answer."""
SNAPSHOTS: Final = 200
"""Versions that a client is shown as snapshots, the newest ones: it reads no others."""
TASK_CHARACTERS: Final = 512 * 1024
"""The longest plan task: it carries the filter."""
PLAN_ID_CHARACTERS: Final = 4_000
"""The longest plan id: it is in a path, and carries the filter, too."""


class PlanRequest(msgspec.Struct, frozen=True, rename="kebab"):
    """A client's request for a scan. ``select``, ``stats_fields`` and ``min_rows_requested`` are
    hints: all files, without statistics of columns, are a right answer to each."""

    snapshot_id: Int64 | None = None
    select: tuple[str, ...] = ()
    filter: Any = None
    min_rows_requested: Int64 | None = None
    case_sensitive: bool = True
    use_snapshot_schema: bool = False
    start_snapshot_id: Int64 | None = None
    end_snapshot_id: Int64 | None = None
    stats_fields: tuple[str, ...] = ()


class PlannedPage(msgspec.Struct, frozen=True):
    """Tasks of a scan of ``version``, and the plan task that has more of them, if there are.
    ``plan_id``: by which the first page is planned again; empty where nothing can be asked for so.
    """

    version: int
    tasks: ScanTasks
    plan_task: str | None
    plan_id: str = ""


class NoSuchPlanTask(TurnstileError):
    """A plan task that no plan of this table gave out."""

    type = ErrorType.NO_SUCH_PLAN_TASK


class NoSuchPlan(TurnstileError):
    """A plan id that no plan of this table has."""

    type = ErrorType.NO_SUCH_PLAN


class NotPlanned(TurnstileError):
    """A kind of scan that is not planned here."""

    type = ErrorType.NOT_OFFERED


class _PlanTask(msgspec.Struct, frozen=True, array_like=True):
    """The position in a scan: at ``page`` of the planner; ``filter`` is JSON, empty for none.
    ``after``: for appends after this version."""

    table_id: str
    version: int
    page: str
    filter: bytes = b""
    case_sensitive: bool = True
    after: int | None = None


_TASK: Final = msgspec.msgpack.Decoder(_PlanTask)


class LoadedDelta(msgspec.Struct, frozen=True):
    """A Delta table as clients load it; ``tag`` names all that the answer depends on."""

    head: TableHead
    metadata: TableMetadata
    tag: str


class DeltaScans:
    """Loads Delta tables, and plans their scans."""

    def __init__(self, world: World, metadata: MetadataStore, planner: Callable[[], ScanPlanner]) -> None:
        """``planner`` is asked for when a scan is planned: it needs pyarrow, which takes its time
        to load."""
        self._world = world
        self._metadata = metadata
        self._planner = planner

    def load(self, entity: Table, *, refs_only: bool = False) -> LoadedDelta:
        """Returns a table as of its HEAD, unpublished commits included (I6). With ``refs_only``
        older versions are not listed.

        Raises:
            NotFound: it was dropped meanwhile.
            UnsupportedTable: it is a clone, or has a part that Iceberg's readers would read
                wrongly, which is named.
        """
        head = self.head(entity)
        metadata = self._metadata.get(head.catalog, head.metadata)
        versions = self._versions(head, refs_only=refs_only)
        certain = min((place.version for place in tail_by_version(head)), default=head.latest)
        source = DeltaSource(
            head.table_id, head.location, metadata.protocol, metadata.metadata, head.latest, head.epoch, versions,
            certain
        )  # fmt: skip
        return LoadedDelta(head, iceberg_metadata(source), f"{location_of(head)}?{head.metadata}")

    def head(self, entity: Table) -> TableHead:
        """Returns the HEAD of a table that may be read. Raises as ``load``."""
        head = read_head(self._world, entity.table_id)
        check_readable(head)
        if head.state == PINNED:
            problem = f"'{head.name}' is a clone, pinned to version {head.latest} of another Delta table"
            remedy = f"read snapshot {snapshot_id(head.latest)} of its source, or the clone with turnstile_spark"
            raise UnsupportedTable(problem, field="table", remedy=remedy)
        return head

    def _versions(self, head: TableHead, *, refs_only: bool) -> list[tuple[int, int]]:
        """Versions that may be read, each with a timestamp in ms, ascending. Versions of the HEAD's
        tail have their in-commit timestamp; older ones, in the log's listing, the time of their
        file.
        """
        versions = {place.version: place.ict for place in tail_by_version(head)}
        versions[head.latest] = head.last_ict
        if not refs_only:
            first = max(0, head.latest - SNAPSHOTS + 1)
            older = _Window(self._world.storages.open(head.location), first)
            versions = older.readable(min(versions)) | versions
        ascending = list[tuple[int, int]]()
        latest_ms = 0
        for version in sorted(versions)[-SNAPSHOTS:]:
            latest_ms = max(latest_ms, versions[version])
            ascending.append((version, latest_ms))
        limit_ms = head.last_ict
        return [(version, min(at_ms, limit_ms)) for version, at_ms in ascending]

    def plan(self, entity: Table, request: PlanRequest) -> PlannedPage:
        """Returns the first tasks of a scan.

        Raises:
            InvalidRequest: the filter is none, or contradicts the columns.
            NotFound: there is no such snapshot.
            TooLarge: the scan needs several answers, and the filter is too long for a plan task.
            UnsupportedTable: as ``load``; or the log cannot be read.
        """
        task = self._task(entity, request)
        page = self._page(self.head(entity), task)
        return msgspec.structs.replace(page, plan_id=plan_id_of(task) or "")

    def plan_id(self, entity: Table, request: PlanRequest) -> str | None:
        """Returns the id of the plan for ``result``, without planning it; None if the filter is too
        long for an id. Raises as ``plan``."""
        return plan_id_of(self._task(entity, request))

    def result(self, entity: Table, plan_id: str) -> PlannedPage:
        """Returns the first tasks of the scan that a plan id stands for. Raises NoSuchPlan, and as
        ``plan``."""
        try:
            page = self.resume(entity, plan_id)
        except NoSuchPlanTask:
            raise no_such_plan() from None
        return msgspec.structs.replace(page, plan_id=plan_id)

    def check_plan_id(self, entity: Table, plan_id: str) -> None:
        """Raises NoSuchPlan for an id that no plan of the table has."""
        self._open_task(entity, plan_id, no_such_plan())

    def _task(self, entity: Table, request: PlanRequest) -> _PlanTask:
        head = self.head(entity)
        start = request.start_snapshot_id
        end = request.end_snapshot_id
        if (start is None) != (end is None) or (start is not None and request.snapshot_id is not None):
            problem = "a scan is of snapshot-id, or from start-snapshot-id to end-snapshot-id"
            raise InvalidRequest(problem, field="start-snapshot-id", remedy="give one snapshot, or both ends")
        version = _version(
            head, request.snapshot_id if end is None else end, "snapshot-id" if end is None else "end-snapshot-id"
        )
        after = None if start is None else _version(head, start, "start-snapshot-id")
        if after is not None and after > version:
            problem = f"snapshot {start} comes after snapshot {end}"
            raise InvalidRequest(problem, field="start-snapshot-id", remedy="exchange them")
        text = b"" if request.filter is None else msgspec.json.encode(request.filter)
        return _PlanTask(head.table_id, version, "", text, request.case_sensitive, after)

    def plan_plain_files(self, entity: Table, request: PlanRequest) -> PlannedPage:
        """Returns a scan as Delta's own planning client reads it: it takes the files of one answer,
        reads them by the names of the columns, and looks neither at plan tasks nor at delete files
        (Delta 4.4, ``IcebergRESTCatalogPlanningClient``). Raises as ``plan``, and UnsupportedTable
        or TooLarge where that would show wrong rows.
        """
        head = self.head(entity)
        members = self._metadata.get(head.catalog, head.metadata).metadata
        if (members.get("configuration") or {}).get("delta.columnMapping.mode", "none") != "none":
            raise _not_plain("the table has column mapping, and its files have other names of columns")
        if request.snapshot_id in (None, 0):  # the version whose column mapping was looked at
            request = msgspec.structs.replace(request, snapshot_id=snapshot_id(head.latest))
        page = self.plan(entity, request)
        if page.tasks.delete_files:
            raise _not_plain("files of the scan have deletion vectors")
        if page.plan_task is not None:
            problem = f"the scan has more than the {len(page.tasks.file_scan_tasks)} files of one answer"
            remedy = "filter by more, or read the table with its own credentials"
            raise TooLarge(problem, field="filter", remedy=remedy, limit=FILES)
        return page

    def resume(self, entity: Table, plan_task: str) -> PlannedPage:
        """Returns the tasks that a plan task stands for. Raises NoSuchPlanTask, and as ``plan``."""
        problem = "the plan task belongs to another table"
        refusal = NoSuchPlanTask(problem, field="plan-task", remedy="plan the scan again")
        return self._page(*self._open_task(entity, plan_task, refusal))

    def _open_task(self, entity: Table, text: str, refusal: TurnstileError) -> tuple[TableHead, _PlanTask]:
        """The HEAD, and the content of a plan task or plan id. Raises ``refusal`` for a text that
        was not given out for the table."""
        try:
            task = unseal(text, _TASK, "plan task", characters=TASK_CHARACTERS)
        except Damaged:
            raise refusal from None
        head = self.head(entity)
        if task.table_id != head.table_id or not 0 <= task.version <= head.latest:
            raise refusal
        return head, task

    def _page(self, head: TableHead, task: _PlanTask) -> PlannedPage:
        """The tasks from a plan task on: as many as fit an answer."""
        limit = FILES
        plan, tasks = self._tasks(head, task, limit)
        while (size := response_size(tasks)) > PAGE_BYTES and limit > 1:
            limit = max(1, min(limit // 2, limit * PAGE_BYTES // size))
            plan, tasks = self._tasks(head, task, limit)
        return PlannedPage(task.version, tasks, self._rest(task, plan))

    def _tasks(self, head: TableHead, task: _PlanTask, limit: int) -> tuple[Plan, ScanTasks]:
        """The plan's page of at most ``limit`` files, and their tasks."""
        present = self._metadata.get(head.catalog, head.metadata)
        check_features(present.protocol)
        expression = msgspec.json.decode(task.filter) if task.filter else None

        def filters(columns: TableColumns) -> Filter:
            return parse(expression, columns, case_sensitive=task.case_sensitive)

        predicate = None if expression is None else lambda columns: filters(columns).inclusive
        page = task.page or None
        stats = expression is not None
        planner = self._planner()
        version = task.version
        if task.after is None:
            plan = planner.plan(head, predicate, version=version, page=page, limit=limit, stats=stats)
        else:
            plan = planner.plan_appends(head, task.after, version, predicate, page=page, limit=limit, stats=stats)
        check_features(plan.protocol)
        check_same_columns(plan.metadata, present.metadata)
        columns = TableColumns(plan.metadata)
        partitions = partition_columns(plan.metadata)
        left = None if expression is None else filters(columns)
        return plan, TaskWriter(head.location, columns, partitions, left, expression).tasks(plan.files)

    def _rest(self, task: _PlanTask, plan: Plan) -> str | None:
        if plan.next_page is None:
            return None
        sealed = seal(msgspec.structs.replace(task, page=plan.next_page))
        if len(sealed) > TASK_CHARACTERS:
            problem = f"the filter takes {len(task.filter)} bytes, too many for a scan of several answers"
            raise TooLarge(
                problem, field="filter", remedy="filter by less, or by a range", limit=TASK_CHARACTERS, size=len(sealed)
            )
        return sealed


def _version(head: TableHead, snapshot_id: int | None, field: str) -> int:
    """The version that a snapshot id names; none and 0: the latest. Raises InvalidRequest."""
    version = head.latest if snapshot_id in (None, 0) else version_of(snapshot_id or 0)
    if not 0 <= version <= head.latest:
        raise InvalidRequest(f"the table has no snapshot {snapshot_id}", field=field, remedy="load the table again")
    return version


def plan_id_of(task: msgspec.Struct) -> str | None:
    """Returns the id of a scan that begins with this plan task; None where it would not fit a
    path."""
    text = seal(task)
    return text if len(text) <= PLAN_ID_CHARACTERS else None


def no_such_plan() -> NoSuchPlan:
    """Returns the refusal of a plan id."""
    return NoSuchPlan("the plan id belongs to another table", field="plan-id", remedy="plan the scan again")


def _not_plain(problem: str) -> UnsupportedTable:
    message = f"Delta's planning client would read wrong rows: {problem}"
    return UnsupportedTable(message, field="table", remedy="read the table without server-side planning")


def is_readable(entity: object) -> bool:
    """Returns whether an entity is a Delta table with commits that are coordinated here."""
    return isinstance(entity, Table) and entity.format == DELTA and entity.external is None


def read_only(name: str) -> UnsupportedTable:
    """Returns the refusal of a change by an Iceberg client."""
    problem = f"'{name}' is a Delta table, which Iceberg's clients only read"
    return UnsupportedTable(problem, field="table", remedy="change it with an engine that writes Delta tables")


def location_of(head: TableHead) -> str:
    """Returns a name in place of a version's metadata file: clients take the metadata for another
    one when it changes."""
    return f"{head.location}/{published_path(head.latest)}"


class _Window:
    """The newest part of a log: versions from ``first`` on."""

    def __init__(self, storage: LogStorage, first: int) -> None:
        self._storage = storage
        self._first = first

    def readable(self, before: int) -> dict[int, int]:
        """Versions less than ``before`` with all their commits there, each with the time of its
        file (ms); if older commits are missing, versions from a checkpoint on."""
        files = list_log(self._storage, first=self._first)
        version = before
        while version - 1 in files.commits:
            version -= 1
        if version > self._first:
            version = min((at for at in files.checkpoints if at >= version), default=before)
        return {at: files.commits[at].modified_ms for at in range(version, before) if at in files.commits}
