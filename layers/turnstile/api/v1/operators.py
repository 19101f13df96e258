"""Operations for operators: list every HEAD, publish now, diagnose and repair a table, collect
garbage."""

from __future__ import annotations

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType

from turnstile.api.doctor import checks
from turnstile.api.http.authorization import metastore, needs, needs_table
from turnstile.api.http.request import Query, body, current
from turnstile.api.services import services
from turnstile.api.v1.paths import TABLE, TABLE_BY_ID, table_names, table_of_path, uuid_of_path
from turnstile.catalog.core.entities import Entity, IcebergTable, Table
from turnstile.catalog.core.paths import dotted_name
from turnstile.catalog.paging import page_size
from turnstile.coordination.tasks import Busy
from turnstile.delta.attention import releases_of
from turnstile.delta.core.attention import Release
from turnstile.delta.core.head import TableHead
from turnstile.delta.publish import Problem, Publisher
from turnstile.delta.repair import Choice, Diagnosis, Repairer
from turnstile.delta.verify import Verification, Verifier
from turnstile.gc.collector import Report
from turnstile.gc.core import KINDS
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.named_files import IcebergFiles
from turnstile.maintenance.named_files import DeltaFiles, FilesLooked
from turnstile.rights.rules import admin_only, modify_table
from turnstile.store.core.errors import ErrorType, InvalidRequest, NewerFormat, NotFound, StateConflict, UnreadableRow
from turnstile.store.core.names import check_uuid
from turnstile.store.ports import DamagedRow, parse_rows

routes = Blueprint(__name__)


class Collect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /v1/gc``; all kinds unless some are named, a dry run unless told otherwise."""

    dry_run: bool = True
    kinds: list[str] | None = None


class RepairRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /v1/tables/{table_id}/repair``; ``adopt`` the side that stays where HEAD and log
    contradict each other."""

    adopt: Choice | None = None


class HeadResponse(msgspec.Struct, frozen=True):
    """A table's HEAD as operators list it."""

    table_id: str
    name: str
    state: str
    latest: int
    floor: int
    location: str


class Heads(msgspec.Struct, frozen=True):
    """A page of HEADs, by table id; ``unreadable``: the damaged ones of all pages; ``release``: the
    newest version of the code that swept the store, on the first page."""

    tables: list[HeadResponse]
    next_page_token: str | UnsetType = UNSET
    unreadable: list[DamagedRow] | UnsetType = UNSET
    release: Release | UnsetType = UNSET


class PublishResponse(msgspec.Struct, frozen=True):
    """The result of publishing now; ``problem``: why it stopped early."""

    published: int
    floor: int
    latest: int
    state: str
    problem: Problem | UnsetType = UNSET


class RepairResponse(msgspec.Struct, frozen=True):
    """The result of a repair: published and adopted versions, and the present state of the table.
    ``problem``: why it stopped; ``set_aside`` and ``to_remove``: the files of a choice between HEAD
    and log.
    """

    published: int
    adopted: int
    diagnosis: Diagnosis
    problem: Problem | UnsetType = UNSET
    set_aside: tuple[str, ...] | UnsetType = UNSET
    to_remove: tuple[str, ...] | UnsetType = UNSET


TIME_MS = 20_000
"""How long a request may work: less than the function's time limit, which is less than the
gateway's."""

LIFE_MS = 30_000
"""How long a request may live at most: nothing of it is at work after that."""


@routes.route("/v1/tables", methods=["GET"])
@needs((admin_only, metastore))
def list_heads() -> Heads:
    """A page of HEADs in the order of their ids. Every page is a scan: this is for people, not for
    programs."""
    query = Query("page_token", "max_results")
    page_token = query.text("page_token")
    size = page_size(query.integer("max_results"))
    after = check_uuid(page_token, "page_token") if page_token else ""
    unreadable = list[DamagedRow]()
    found = parse_rows(TableHead, services().world.refs.scan(TableHead.kind), unreadable)
    heads = sorted((head for head in found if head.table_id > after), key=lambda head: head.table_id)
    more = heads[size - 1].table_id if len(heads) > size else UNSET
    members = HeadResponse.__struct_fields__
    shown = [HeadResponse(**{name: getattr(head, name) for name in members}) for head in heads[:size]]
    return Heads(shown, more, unreadable or UNSET, UNSET if after else _last_release())


def _last_release() -> Release | UnsetType:
    """The newest version of the code that swept the store; UNSET where none did, where the row that
    says so is damaged, which ``checks`` reports, or where it has a newer format."""
    try:
        return next(reversed(releases_of(services().world)), UNSET)
    except (UnreadableRow, NewerFormat):
        return UNSET


@routes.route(TABLE_BY_ID + "/publish", methods=["POST"])
@needs_table(modify_table, of=uuid_of_path)
def publish(table_id: str) -> PublishResponse:
    Query()
    done = services().catalog.publisher.publish(check_uuid(table_id), until_ms=_until_ms())
    return PublishResponse(done.count, done.floor, done.latest, done.state, done.problem or UNSET)


@routes.route(TABLE_BY_ID + "/repair", methods=["GET"])
@needs_table(modify_table, of=uuid_of_path)
def diagnose(table_id: str) -> Diagnosis:
    Query()
    return _repairer().diagnose(check_uuid(table_id))


@routes.route(TABLE_BY_ID + "/repair", methods=["POST"])
@needs_table(modify_table, of=uuid_of_path)
def repair(table_id: str) -> RepairResponse:
    Query()
    uuid = check_uuid(table_id)
    choice = body(RepairRequest).adopt if current().body else None
    if choice is None:
        done, diagnosis = _repairer().repair(uuid, until_ms=_until_ms())
        return RepairResponse(done.count, done.adopted, diagnosis, done.problem or UNSET)
    adoption = _repairer().adopt(uuid, choice, until_ms=_until_ms())
    done = adoption.published
    return RepairResponse(
        done.count, done.adopted, adoption.diagnosis, done.problem or UNSET, adoption.set_aside, adoption.to_remove
    )


@routes.route(TABLE_BY_ID + "/verification", methods=["GET"])
@needs_table(modify_table, of=uuid_of_path)
def verify(table_id: str) -> Verification:
    query = Query("from_version", "after_timestamp")
    from_version = query.integer("from_version", 0)
    after_timestamp = query.integer("after_timestamp")
    uuid = check_uuid(table_id)
    verifier = Verifier(services().world, services().limits)
    return verifier.verify(uuid, from_version, after_timestamp, until_ms=_until_ms())


@routes.route(TABLE + "/file-verification", methods=["GET"])
@needs((modify_table, table_of_path))
def verify_files(catalog: str, namespace: str, table: str) -> FilesLooked:
    after = Query("after").text("after") or ""
    names, path, name = table_names(catalog, namespace, table)
    by = services()
    until_ms = _until_ms()

    def find_table() -> Entity:
        return by.catalog.entries.table(names, path, name, None).entity

    entity = find_table()
    if isinstance(entity, Table):
        return DeltaFiles(by.world).look(entity.table_id, after, until_ms=until_ms)
    if not isinstance(entity, IcebergTable):
        raise NotFound(
            "table", dotted_name(names, *path, name), field="table", remedy="name a Delta or an Iceberg table"
        )

    def reload() -> tuple[IcebergTable, TableMetadata]:
        now = find_table()
        if not isinstance(now, IcebergTable) or now.table_id != entity.table_id:
            raise NotFound("table", now.name, field="table", remedy="it was dropped meanwhile")
        return now, by.metadata_files.table(now)

    sources = [held for held in entity.needs if by.source_rights.may_read(current().principal, held)]
    roots = [entity.location, *(held.location for held in sources)]
    return IcebergFiles(by.world.storages, by.world.clock).look(reload, roots, after, until_ms=until_ms)


@routes.route("/v1/checks", methods=["POST"])
@needs((admin_only, metastore))
def check() -> checks.Checks:
    Query()
    return checks.run(services().world, services().settings.lake_root)


@routes.route("/v1/gc", methods=["POST"])
@needs((admin_only, metastore))
def collect() -> Report:
    request = body(Collect)
    kinds = {str(kind): kind for kind in KINDS}
    names = kinds if request.kinds is None else request.kinds
    for name in names:
        if name not in kinds:
            raise InvalidRequest(f"kind {name!r} is not known", field="kinds", remedy=f"kinds: {', '.join(KINDS)}")
    report = services().collect_task.run(
        LIFE_MS, [kinds[name] for name in names], dry_run=request.dry_run, until_ms=_until_ms()
    )
    if isinstance(report, Busy):
        wait_ms = max(1_000, report.until - services().world.clock.now_ms())
        text = f"another run has been removing garbage and may go on for {wait_ms // 1000} s"
        text += f" ({report.reason})" if report.reason else ""
        remedy = "try again later, or ask for a dry run"
        raise StateConflict(ErrorType.GC_RUNNING, text, remedy=remedy, retry_after_ms=wait_ms)
    return report


def _repairer() -> Repairer:
    """Returns a repairer with a publisher that checks the floor's file first, even if the publisher
    of this process does not."""
    return Repairer(services().world, Publisher(services().world, services().settings.limits, looks=True))


def _until_ms() -> int:
    return services().world.clock.now_ms() + TIME_MS
