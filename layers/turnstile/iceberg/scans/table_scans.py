"""Scans of Iceberg tables, planned from their manifests (ADR 45).

    scans = TableScans(storages)
    first = scans.plan(entity, metadata, roots, request)    # a page of tasks, and the plan task
                                                            that has the rest
    more = scans.resume(entity, metadata, roots, first.plan_task)

Nothing is kept for a scan (ADR 44): a plan task says which snapshot is planned, by which filter,
and at which entry of which manifest it goes on. Manifests never change, so any server answers any
request of a scan. One request reads the manifest list, the manifests of delete files, and as many
of data files as it takes for a page, at most ``MANIFESTS``: files of one manifest's block are in
memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from turnstile.catalog.core.entities import IcebergTable
from turnstile.iceberg.core.expressions import Filter, parse
from turnstile.iceberg.core.files import manifests
from turnstile.iceberg.core.files.content_files import ContentFile, DeleteFiles, FileTasks
from turnstile.iceberg.core.files.file_ranges import ScanColumns
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.schema import Schema, parts
from turnstile.iceberg.core.snapshots import Snapshot
from turnstile.iceberg.scans.delta_scans import (
    TASK_CHARACTERS,
    NoSuchPlanTask,
    PlannedPage,
    PlanRequest,
    no_such_plan,
    plan_id_of,
)
from turnstile.iceberg.scans.manifest_reader import ManifestReader, Wanted
from turnstile.planning.core.predicates import TRUE, outcomes
from turnstile.store.core.errors import InvalidRequest, TooLarge
from turnstile.store.core.limits import PAGE_BYTES, response_size
from turnstile.store.core.opaque import Damaged, seal, unseal
from turnstile.store.ports import Storages

FILES: Final = 4_000
"""Tasks of one answer."""
MANIFESTS: Final = 50
"""Manifests of data files that one answer reads."""
ENTRIES: Final = 100_000
"""Entries of manifests after which an answer ends, however few of them match."""


class _Task(msgspec.Struct, frozen=True, array_like=True):
    """Where a scan goes on: at entry ``entry`` of the manifest ``manifest`` of the ``unit``-th
    snapshot that is read."""

    table_id: str
    snapshot_id: int
    after: int | None
    unit: int
    manifest: int
    entry: int
    filter: bytes
    case_sensitive: bool
    use_snapshot_schema: bool
    stats_fields: tuple[str, ...]


_TASK: Final = msgspec.msgpack.Decoder(_Task)


class TableScans:
    """Plans scans of Iceberg tables."""

    def __init__(self, storages: Storages) -> None:
        self._storages = storages

    def plan(
        self, entity: IcebergTable, metadata: TableMetadata, roots: Iterable[str], request: PlanRequest
    ) -> PlannedPage:
        """Returns the first tasks of a scan, or of a scan of the appends between two snapshots.
        Manifests may be read in the locations ``roots``.

        Raises:
            InvalidRequest: the filter is invalid, or contradicts the columns; there is no such
                snapshot, or the first is no ancestor of the other.
            TooLarge: there are too many delete files; or the filter is too long for the plan task
                that the rest needs.
            UnsupportedTable: the table is encrypted, or a manifest is elsewhere, is missing, or
                cannot be read.
        """
        text = b"" if request.filter is None else msgspec.json.encode(request.filter)
        end = _end(metadata, request)
        if end is None:
            self._check_filter(metadata, request)
            return PlannedPage(-1, FileTasks(metadata, True).tasks([], DeleteFiles(frozenset())), None)
        task = _Task(
            entity.table_id, end, request.start_snapshot_id, 0, 0, 0, text, request.case_sensitive,
            request.use_snapshot_schema,
            request.stats_fields,
        )  # fmt: skip
        page = _Scan(self._storages, metadata, roots, task).page()
        return msgspec.structs.replace(page, plan_id=plan_id_of(task) or "")

    def result(self, entity: IcebergTable, metadata: TableMetadata, roots: Iterable[str], plan_id: str) -> PlannedPage:
        """Returns the first tasks of the scan that a plan id stands for. Raises NoSuchPlan, also
        when its snapshot has expired, and as ``plan``."""
        try:
            page = self.resume(entity, metadata, roots, plan_id)
        except NoSuchPlanTask:
            raise no_such_plan() from None
        return msgspec.structs.replace(page, plan_id=plan_id)

    def resume(
        self, entity: IcebergTable, metadata: TableMetadata, roots: Iterable[str], plan_task: str
    ) -> PlannedPage:
        """Returns the tasks that a plan task stands for. Raises NoSuchPlanTask, also when its
        snapshot has expired, and as ``plan``."""
        try:
            task = unseal(plan_task, _TASK, "plan task", characters=TASK_CHARACTERS)
        except Damaged as error:
            raise NoSuchPlanTask(f"the plan task {error}", field="plan-task", remedy="plan the scan again") from None
        if task.table_id != entity.table_id or metadata.snapshot(task.snapshot_id) is None:
            problem = "the plan task is of another table, or of a snapshot that is gone"
            raise NoSuchPlanTask(problem, field="plan-task", remedy="plan the scan again")
        return _Scan(self._storages, metadata, roots, task).page()

    @staticmethod
    def _check_filter(metadata: TableMetadata, request: PlanRequest) -> None:
        if request.filter is not None:
            columns = ScanColumns(metadata, metadata.schema)
            parse(request.filter, columns.table, case_sensitive=request.case_sensitive)


class _Scan:
    """One answer of a scan."""

    def __init__(self, storages: Storages, metadata: TableMetadata, roots: Iterable[str], task: _Task) -> None:
        self._task = task
        self._reader = ManifestReader(storages, metadata, roots)
        snapshot = _snapshot(metadata, task.snapshot_id, "snapshot-id")
        self._units = [snapshot] if task.after is None else _appends_between(metadata, snapshot, task.after)
        schema = _schema_of(metadata, snapshot) if task.use_snapshot_schema else metadata.schema
        self._columns = ScanColumns(metadata, schema)
        expression = msgspec.json.decode(task.filter) if task.filter else None
        self._filter: Filter | None = None
        if expression is not None:
            self._filter = parse(expression, self._columns.table, case_sensitive=task.case_sensitive)
        ids = {part.name: part.id for part in parts(schema)}
        stats_ids = frozenset(ids[name] for name in task.stats_fields if name in ids)
        self._writer = FileTasks(metadata, True if expression is None else expression, stats_ids)
        self._wanted = Wanted(statistics=self._filter is not None or bool(stats_ids))

    def page(self) -> PlannedPage:
        """The tasks from the plan task on: as many as fit an answer."""
        deletes = self._reader.no_deletes()
        files: list[ContentFile] = []
        places: list[tuple[int, int, int]] = []
        rest: tuple[int, int, int] | None = None
        for place, file in self._files(deletes):
            if file is None or len(files) == FILES:
                rest = place
                break
            files.append(file)
            places.append(place)
        tasks = self._writer.tasks(files, deletes)
        while (size := response_size(tasks)) > PAGE_BYTES and len(files) > 1:
            kept = max(1, min(len(files) // 2, len(files) * PAGE_BYTES // size))
            rest = places[kept]
            files = files[:kept]
            tasks = self._writer.tasks(files, deletes)
        return PlannedPage(self._task.snapshot_id, tasks, None if rest is None else self._seal(rest))

    def _files(self, deletes: DeleteFiles) -> Iterator[tuple[tuple[int, int, int], ContentFile | None]]:
        """The data files that may match, each with its place; and without one the place where the
        next answer begins."""
        task = self._task
        read = 0
        looked = 0
        for unit in range(task.unit, len(self._units)):
            snapshot = self._units[unit]
            listed = list(self._reader.manifests(snapshot))
            if task.after is None:
                self._reader.read_deletes(listed, deletes)
            first = task.manifest if unit == task.unit else 0
            for at, manifest in enumerate(listed):
                if at < first or not self._is_looked_at(manifest, snapshot):
                    continue
                if read == MANIFESTS:
                    yield (unit, at, 0), None
                read += 1
                begin = task.entry if (unit, at) == (task.unit, task.manifest) else 0
                for number, file in enumerate(self._reader.files(manifest, self._wanted)):
                    if number < begin:
                        continue
                    if looked >= ENTRIES:
                        yield (unit, at, number), None
                    looked += 1
                    if file is not None and self._may_match(file, snapshot):
                        yield (unit, at, number), file

    def _is_looked_at(self, manifest: dict[int, Any], snapshot: Snapshot) -> bool:
        """Whether a manifest has data files that may match; of appended files, only the snapshot's
        own manifests have them."""
        if manifest.get(manifests.CONTENT):
            return False
        if self._task.after is not None and manifest.get(manifests.ADDED_SNAPSHOT) != snapshot.snapshot_id:
            return False
        spec = self._reader.spec(manifest.get(manifests.SPEC_ID) or 0)
        if self._filter is None or manifests.PARTITIONS not in manifest:
            return True
        return bool(outcomes(self._filter.inclusive, self._columns.ranges_of_manifest(manifest, spec)) & TRUE)

    def _may_match(self, file: ContentFile, snapshot: Snapshot) -> bool:
        if self._task.after is not None and file.snapshot_id != snapshot.snapshot_id:
            return False
        if self._filter is None:
            return True
        ranges = self._columns.ranges_of_file(file.record, self._reader.spec(file.spec_id))
        return bool(outcomes(self._filter.inclusive, ranges) & TRUE)

    def _seal(self, place: tuple[int, int, int]) -> str:
        unit, manifest, entry = place
        sealed = seal(msgspec.structs.replace(self._task, unit=unit, manifest=manifest, entry=entry))
        if len(sealed) > TASK_CHARACTERS:
            problem = f"the filter takes {len(self._task.filter)} bytes, too many for a scan of several answers"
            remedy = "filter by less, or by a range"
            raise TooLarge(problem, field="filter", remedy=remedy, limit=TASK_CHARACTERS, size=len(sealed))
        return sealed


def _end(metadata: TableMetadata, request: PlanRequest) -> int | None:
    """The snapshot that is planned; None if the table has none. Raises InvalidRequest for a
    contradiction."""
    start = request.start_snapshot_id
    end = request.end_snapshot_id
    if (start is None) != (end is None) or (start is not None and request.snapshot_id is not None):
        problem = "a scan is of snapshot-id, or from start-snapshot-id to end-snapshot-id"
        raise InvalidRequest(problem, field="start-snapshot-id", remedy="give one snapshot, or both ends")
    wanted = end if end is not None else request.snapshot_id
    if wanted is None:
        return metadata.current_snapshot_id
    return _snapshot(metadata, wanted, "snapshot-id" if end is None else "end-snapshot-id").snapshot_id


def _snapshot(metadata: TableMetadata, id: int, field: str) -> Snapshot:
    snapshot = metadata.snapshot(id)
    if snapshot is None:
        raise InvalidRequest(f"the table has no snapshot {id}", field=field, remedy="load the table again")
    return snapshot


def _appends_between(metadata: TableMetadata, end: Snapshot, start: int) -> list[Snapshot]:
    """The snapshots after ``start`` up to ``end`` that append, oldest first: as Java's incremental
    scans, others are passed over. Raises InvalidRequest unless ``start`` is an ancestor of ``end``,
    or ``end``.
    """
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    ancestors: list[Snapshot] = []
    at: Snapshot | None = end
    for _ in range(len(by_id) + 1):
        if at is None:
            break
        if at.snapshot_id == start:
            return [each for each in reversed(ancestors) if each.summary.get("operation") == "append"]
        ancestors.append(at)
        if at.parent_snapshot_id == start:  # it may have expired
            return [each for each in reversed(ancestors) if each.summary.get("operation") == "append"]
        at = by_id.get(at.parent_snapshot_id) if at.parent_snapshot_id is not None else None
    problem = f"snapshot {start} is no ancestor of snapshot {end.snapshot_id}"
    raise InvalidRequest(problem, field="start-snapshot-id", remedy="scan between snapshots of one branch")


def _schema_of(metadata: TableMetadata, snapshot: Snapshot) -> Schema:
    schemas = {schema.schema_id: schema for schema in metadata.schemas}
    return metadata.schema if snapshot.schema_id is None else schemas.get(snapshot.schema_id, metadata.schema)
