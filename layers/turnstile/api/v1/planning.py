"""Plans of scans over HTTP: which files of a table a predicate needs (docs/planning.md)."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType

from turnstile.access.authorizer import Target
from turnstile.api.http.authorization import Params, needs, needs_table, table_guards
from turnstile.api.http.request import Query, body, current, note
from turnstile.api.services import services
from turnstile.api.v1.paths import TABLE_BY_ID, uuid_of_path
from turnstile.catalog.history.reader import AsOfReader
from turnstile.catalog.query.core.parser import parse
from turnstile.catalog.query.find import Finder
from turnstile.delta.commits import check_readable
from turnstile.delta.core.head import TableHead
from turnstile.planning.core.plans import MAX_FILES, MAX_SAMPLE_ROWS, Plan, PlannedFile, PlanStatistics, TableSample
from turnstile.rights.rules import read_table, use_catalog
from turnstile.store.core.errors import InvalidRequest, NotFound, PermissionDenied
from turnstile.store.core.limits import NonNegativeExact
from turnstile.store.core.names import check_uuid

routes = Blueprint(__name__)

_USUAL_FILES = 1_000
_USUAL_ROWS = 20


class PlanRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../plan``. ``timestamp`` in ms; ``page_token`` of the page before; ``max_results``
    files on the page; ``statistics``: with the statistics of ``columns`` (all without);
    ``explain``: count the files that each part of the predicate excludes; ``definition``: with the
    table's.
    """

    predicate: str | None = None
    columns: Annotated[list[Annotated[str, msgspec.Meta(max_length=1_000)]], msgspec.Meta(max_length=1_000)] | None = (
        None
    )
    version: NonNegativeExact | None = None
    timestamp: NonNegativeExact | None = None
    page_token: Annotated[str, msgspec.Meta(max_length=1_000)] | None = None
    max_results: Annotated[int, msgspec.Meta(ge=1, le=MAX_FILES)] = _USUAL_FILES
    statistics: bool = False
    explain: bool = False
    definition: bool = False


class TableDefinition(msgspec.Struct, frozen=True):
    """A table's actions ``protocol`` and ``metaData``, as its log has them at a version."""

    protocol: dict[str, Any]
    metaData: dict[str, Any]


class ShownFile(msgspec.Struct, frozen=True):
    """A file that may have rows which satisfy the predicate, in the words of Delta's ``add``
    action; ``records`` by its statistics."""

    path: str
    size: int
    modificationTime: int
    partitionValues: dict[str, str | None]
    records: int | None
    stats: dict[str, Any] | UnsetType = UNSET
    deletionVector: dict[str, Any] | UnsetType = UNSET
    baseRowId: int | UnsetType = UNSET
    defaultRowCommitVersion: int | UnsetType = UNSET


class ShownPlan(msgspec.Struct, frozen=True):
    """A page of a plan of ``version``."""

    table_id: str
    version: int
    files: list[ShownFile]
    statistics: PlanStatistics
    next_page_token: str | UnsetType = UNSET
    definition: TableDefinition | UnsetType = UNSET


@routes.route(TABLE_BY_ID + "/plan", methods=["POST"])
@needs_table(read_table, of=uuid_of_path)
def plan(table_id: str) -> ShownPlan:
    from turnstile.planning.core.sql import predicate_parser  # with the parser, which takes long to import

    Query()
    request = body(PlanRequest)
    here = services()
    table = here.commits.head(check_uuid(table_id))
    answer = here.planner.plan(
        table,
        None if request.predicate is None else predicate_parser(request.predicate),
        version=request.version,
        at_ms=request.timestamp,
        page=request.page_token,
        limit=request.max_results,
        stats=request.statistics,
        explain=request.explain,
    )
    note(table_id=table_id, version=answer.version, files=len(answer.files), index=answer.statistics.index_version)
    shown = _plan_to_show(table_id, answer, request.columns)
    if not request.definition:
        return shown
    return msgspec.structs.replace(shown, definition=TableDefinition(answer.protocol, answer.metadata))


class JudgeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../judge``: the reads at version ``after``; an empty predicate stands for the whole
    table. ``version``: the last version that is checked, by default the latest."""

    after: NonNegativeExact
    predicates: Annotated[list[str], msgspec.Meta(min_length=1, max_length=100)]
    version: NonNegativeExact | None = None


class ShownChange(msgspec.Struct, frozen=True):
    """The first commit that may have changed a read; ``path`` null: it changed the table's
    definition, or is one of too many."""

    version: int
    reason: str
    path: str | None


class Judged(msgspec.Struct, frozen=True):
    """For each predicate the change, or null: the rows that it reads are the same at
    ``version``."""

    table_id: str
    after: int
    version: int
    changes: list[ShownChange | None]


@routes.route(TABLE_BY_ID + "/judge", methods=["POST"])
@needs_table(read_table, of=uuid_of_path)
def judge(table_id: str) -> Judged:
    from turnstile.planning.reads import IndexedFiles, check_predicates  # with the parser, which takes long to import

    Query()
    request = body(JudgeRequest)
    here = services()
    check_predicates({f"predicates[{at}]": text for at, text in enumerate(request.predicates) if text})
    table = here.commits.head(check_uuid(table_id))
    check_readable(table)
    version = table.latest if request.version is None else request.version
    if not request.after <= version <= table.latest:
        field = "after" if request.after > version else "version"
        problem = f"versions {request.after} to {version} of {table.name}"
        remedy = f"name versions up to {table.latest}"
        raise NotFound("commit", problem, field=field, remedy=remedy)
    files = IndexedFiles(here.planner, table, request.after)
    changes = list[ShownChange | None]()
    for at, text in enumerate(request.predicates):
        try:
            change = here.commit_judge(text, request.after, files.was_read).change(table, version)
        except InvalidRequest as error:
            error.field = f"predicates[{at}]"
            raise
        changes.append(None if change is None else ShownChange(change.version, change.reason, change.path))
    note(table_id=table_id, version=version, changed=len(changes) - changes.count(None))
    return Judged(table_id, request.after, version, changes)


class TableDetail(msgspec.Struct, frozen=True):
    """The content of DESCRIBE DETAIL for a table at ``version``, and the totals of its files. Rows:
    as far as statistics have them (``files_without_records`` do not), without rows in deletion
    vectors.
    """

    table_id: str
    name: str
    location: str
    version: int
    created: int
    delta_id: str | None
    description: str | None
    partition_columns: list[str]
    properties: dict[str, str]
    min_reader_version: int
    min_writer_version: int
    features: list[str]
    files: int
    bytes: int
    rows: int
    files_without_records: int
    deleted_rows: int
    partitions: int | None
    index_version: int
    tail_versions: int


@routes.route(TABLE_BY_ID + "/detail", methods=["GET"])
@needs_table(read_table, of=uuid_of_path)
def detail(table_id: str) -> TableDetail:
    query = Query("version", "timestamp")
    here = services()
    table = here.commits.head(check_uuid(table_id))
    version = query.integer("version")
    at_ms = query.integer("timestamp")
    answer = here.planner.plan(table, version=version, at_ms=at_ms, limit=1, explain=True)
    note(table_id=table_id, version=answer.version, index=answer.statistics.index_version)
    return _detail(table, answer)


def _detail(table: TableHead, answer: Plan) -> TableDetail:
    metadata = answer.metadata
    protocol = answer.protocol
    seen = answer.statistics
    deleted = seen.total_deleted_rows or 0
    features = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    return TableDetail(
        table_id=table.table_id,
        name=table.name,
        location=table.location,
        version=answer.version,
        created=table.created,
        delta_id=metadata.get("id"),
        description=metadata.get("description"),
        partition_columns=list(metadata.get("partitionColumns") or ()),
        properties=dict(metadata.get("configuration") or {}),
        min_reader_version=protocol["minReaderVersion"],
        min_writer_version=protocol["minWriterVersion"],
        features=sorted(features),
        files=seen.total_files or 0,
        bytes=seen.total_bytes or 0,
        rows=max(0, (seen.total_records or 0) - deleted),
        files_without_records=seen.files_without_records or 0,
        deleted_rows=deleted,
        partitions=seen.total_partitions,
        index_version=seen.index_version,
        tail_versions=seen.tail_versions,
    )


@routes.route(TABLE_BY_ID + "/sample", methods=["GET"])
@needs_table(read_table, of=uuid_of_path)
def sample(table_id: str) -> TableSample:
    query = Query("version", "timestamp", "limit")
    limit = query.integer("limit", _USUAL_ROWS, 1, MAX_SAMPLE_ROWS)
    here = services()
    table = here.commits.head(check_uuid(table_id))
    found = here.sampler.sample(
        table,
        current().principal.name,
        limit=limit,
        version=query.integer("version"),
        at_ms=query.integer("timestamp"),
    )
    note(table_id=table_id, version=found.version, rows=len(found.rows))
    return found


class FoundFile(ShownFile, frozen=True, kw_only=True):
    """A file of a table; ``table`` is its full name."""

    table: str
    table_id: str
    version: int


class TableLeftOut(msgspec.Struct, frozen=True):
    """A table that the query finds, but did not search for files."""

    table: str
    reason: str


class FoundFiles(msgspec.Struct, frozen=True):
    """A page of the files that a path query leads to."""

    found: list[FoundFile]
    left_out: list[TableLeftOut]
    next_page_token: str | UnsetType = UNSET


def _path_query() -> tuple[Query, str]:
    query = Query("query", "page_token", "max_results")
    text = query.text("query")
    if text is None:
        remedy = "give a path query, as in /main/sales/*/files[size < 16mb]"
        raise InvalidRequest("query is missing", field="query", remedy=remedy)
    return query, text


def _searched_catalog(_: Params) -> Target:
    """The catalog that is searched. Its entries are authorized name by name, and files table by
    table."""
    return Target(parse(_path_query()[1], files=True).catalog)


@routes.route("/v1/find/files", methods=["GET"])
@needs((use_catalog, _searched_catalog))
def find_files() -> FoundFiles:
    from turnstile.planning.finding import FileFinder  # with the parser, which takes long to import

    query, text = _path_query()
    here = services()
    reader = services().reader
    levels = Finder(here.world, reader, AsOfReader(reader, here.world.clock, here.limits.history_ms), here.metadata)
    finder = FileFinder(levels, here.planner, here.commits.head, _may_read)
    page = finder.find(text, page_token=query.text("page_token"), max_results=query.integer("max_results"))
    files = [
        msgspec.convert(
            {**_members(_file(file, None)), "table": each.name, "table_id": each.table_id, "version": each.version},
            FoundFile,
        )
        for each in page.tables
        for file in each.files
    ]
    note(files=len(files), tables=len(page.tables))
    left_out = [TableLeftOut(each.name, each.reason) for each in page.left_out]
    return FoundFiles(files, left_out, page.next_token or UNSET)


def _members(file: ShownFile) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(file).items() if value is not UNSET}


def _may_read(table_id: str) -> bool:
    """Whether the principal may read a table; one that is gone meanwhile it may not."""
    try:
        table_guards([read_table], [table_id])
    except (PermissionDenied, NotFound):
        return False
    return True


def _plan_to_show(table_id: str, answer: Plan, columns: list[str] | None) -> ShownPlan:
    from turnstile.planning.core.predicates import TableColumns
    from turnstile.planning.core.statistics import statistics_of_columns

    of_columns = None
    if columns is not None:
        named = TableColumns(answer.metadata)
        of_columns = frozenset(physical for name in columns for physical in named.physical(name))
    files = [
        _file(file, None if file.stats is None else statistics_of_columns(file.stats, of_columns))
        for file in answer.files
    ]
    return ShownPlan(table_id, answer.version, files, answer.statistics, answer.next_page or UNSET)


def _file(file: PlannedFile, stats: dict[str, Any] | None) -> ShownFile:
    vector = file.deletion_vector
    return ShownFile(
        file.path,
        file.size,
        file.modification_ms,
        file.partition_values,
        file.records,
        UNSET if stats is None else stats,
        UNSET if vector is None else {k: v for k, v in msgspec.structs.asdict(vector).items() if v is not None},
        UNSET if file.base_row_id is None else file.base_row_id,
        UNSET if file.default_row_commit_version is None else file.default_row_commit_version,
    )
