"""A catalog's past over HTTP: its log, named snapshots, going back; and clones, now or as of a
moment (docs/api.md, "A catalog's past" and "Clones")."""

from __future__ import annotations

from contextlib import nullcontext

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType

from turnstile.access.clone_rights import CloneRights
from turnstile.api.http.authorization import metastore, needs
from turnstile.api.http.request import Query, body, current
from turnstile.api.http.responses import Answer, answer_201
from turnstile.api.services import services
from turnstile.api.v1.changes import AsOfBody, once
from turnstile.api.v1.paths import CATALOG, catalog_of_path
from turnstile.catalog.clone.cloner import Cloner, CloneResult
from turnstile.catalog.clone.copies import Copier
from turnstile.catalog.clone.delta import DeltaCopier
from turnstile.catalog.core.entities import TABLE
from turnstile.catalog.history.core import AsOf, NamedSnapshot
from turnstile.catalog.history.log import LogEntry, find_named_snapshot
from turnstile.catalog.history.reset import ResetResult
from turnstile.catalog.services import CatalogServices
from turnstile.iceberg.clones import copiers
from turnstile.iceberg.files import MetadataFiles
from turnstile.rights.grants import owner_for
from turnstile.rights.rules import admin_only, edit_catalog, use_catalog
from turnstile.store.core.names import check_identifier, check_namespace

routes = Blueprint(__name__)


class NewSnapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../snapshots``; ``of`` the present HEAD unless one is named."""

    name: str
    of: AsOfBody | None = None
    comment: str | None = None


class Reset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../reset``."""

    to: AsOfBody


class Clone(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST .../clones``; ``from`` and ``to`` dotted, an empty ``from`` is the whole catalog;
    ``of`` now unless a moment is named."""

    source: str = msgspec.field(name="from")
    to: str
    of: AsOfBody | None = None


class LogPage(msgspec.Struct, frozen=True):
    """Commits of a catalog; ``next`` the number to go on from, absent at the end."""

    commits: list[LogEntry]
    next: int | UnsetType = UNSET


class _SnapshotMembers(msgspec.Struct, frozen=True):
    """Members of every snapshot; ``at`` in microseconds, ``created`` in ms."""

    name: str
    head: str
    seq: int
    at: int
    created: int
    comment: str | None


class SnapshotResponse(_SnapshotMembers, frozen=True):
    """A snapshot; ``versions`` of its Delta tables by uuid."""

    versions: dict[str, int]


class ListedSnapshot(_SnapshotMembers, frozen=True):
    """A snapshot among others; ``tables`` how many versions it has, which a single snapshot
    shows."""

    tables: int


class SnapshotPage(msgspec.Struct, frozen=True):
    """A page of a catalog's snapshots, by name."""

    snapshots: list[ListedSnapshot]
    next_page_token: str | UnsetType = UNSET


@routes.route(CATALOG + "/log", methods=["GET"])
@needs((edit_catalog, catalog_of_path))
def catalog_log(catalog: str) -> LogPage:
    query = Query("start", "oldest_first", "max_results")
    of = check_identifier(catalog, "catalog")
    start = query.integer("start")
    oldest_first = query.flag("oldest_first")
    most = query.integer("max_results")
    page = services().catalog.history.log(of, start=start, oldest_first=oldest_first, max_results=most)
    return LogPage(list(page.commits), UNSET if page.next_seq is None else page.next_seq)


@routes.route(CATALOG + "/snapshots", methods=["GET"])
@needs((edit_catalog, catalog_of_path))
def list_snapshots(catalog: str) -> SnapshotPage:
    query = Query("page_token", "max_results")
    of = check_identifier(catalog, "catalog")
    token = query.text("page_token")
    most = query.integer("max_results")
    page = services().catalog.listings.snapshots(of, page_token=token, max_results=most)
    snapshots = [ListedSnapshot(*_members(snapshot), len(snapshot.versions)) for snapshot in page.items]
    return SnapshotPage(snapshots, page.next_token or UNSET)


@routes.route(CATALOG + "/snapshots", methods=["POST"])
@needs((edit_catalog, catalog_of_path))
def create_snapshot(catalog: str) -> Answer:
    request = body(NewSnapshot)
    of = check_identifier(catalog, "catalog")

    def create(by: CatalogServices) -> NamedSnapshot:
        as_of = None if request.of is None else request.of.as_of("of")
        with nullcontext() if request.of is None else request.of.report_as("of"):
            return by.named_snapshots.create(of, request.name, of=as_of, comment=request.comment)

    def again(by: CatalogServices, seq: int | None) -> NamedSnapshot:
        return find_named_snapshot(by.history.tree(of, AsOf(seq=seq)), by.reader.store, request.name)

    return answer_201(_response(once(of, create, again)))


@routes.route(CATALOG + "/snapshots/{snapshot}", methods=["GET"])
@needs((edit_catalog, catalog_of_path))
def show_snapshot(catalog: str, snapshot: str) -> SnapshotResponse:
    Query()
    of = check_identifier(catalog, "catalog")
    name = check_identifier(snapshot, "snapshot")
    return _response(services().catalog.named_snapshots.get(of, name))


@routes.route(CATALOG + "/snapshots/{snapshot}", methods=["DELETE"])
@needs((edit_catalog, catalog_of_path))
def drop_snapshot(catalog: str, snapshot: str) -> None:
    Query()
    of = check_identifier(catalog, "catalog")
    name = check_identifier(snapshot, "snapshot")
    once(of, lambda by: by.named_snapshots.drop(of, name), lambda *_: None)


@routes.route(CATALOG + "/reset", methods=["POST"])
@needs((admin_only, metastore))
def reset_catalog(catalog: str) -> ResetResult:
    request = body(Reset)
    of = check_identifier(catalog, "catalog")
    to = request.to.as_of("to")

    def reset(by: CatalogServices) -> ResetResult:
        with request.to.report_as("to"):
            return by.resetter.reset(of, to)

    return once(of, reset, lambda by, seq: by.resetter.result_of(of, seq))


@routes.route(CATALOG + "/clones", methods=["POST"])
@needs((use_catalog, catalog_of_path))
def clone(catalog: str) -> Answer:
    request = body(Clone)
    name = check_identifier(catalog, "catalog")
    source = check_namespace(request.source, "from") if request.source else ()
    to = check_namespace(request.to, "to")
    as_of = None if request.of is None else request.of.as_of("of")

    def make(by: CatalogServices) -> CloneResult:
        with nullcontext() if request.of is None else request.of.report_as("of"):
            return _cloner(by).clone(name, source, to, as_of)

    return answer_201(once(name, make, lambda by, seq: _cloner(by).result_of(name, to, seq or 0)))


def _cloner(by: CatalogServices) -> Cloner:
    """Returns the object that makes the clones of this request, by the rights of its principal."""
    principal = current().principal
    owner = owner_for(principal)
    files = MetadataFiles(by.world.storages, by.world.ids)
    delta: Copier = DeltaCopier(by.world, by.metadata, by.publisher)
    tables = {TABLE: delta, **copiers(by, files, owner)}
    return Cloner(by, tables, CloneRights(services().authorizers.access, principal), owner=owner)


def _response(snapshot: NamedSnapshot) -> SnapshotResponse:
    return SnapshotResponse(*_members(snapshot), snapshot.versions)


def _members(snapshot: NamedSnapshot) -> tuple[str, str, int, int, int, str | None]:
    return snapshot.name, snapshot.head, snapshot.seq, snapshot.at, snapshot.created, snapshot.comment
