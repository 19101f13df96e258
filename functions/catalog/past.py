"""A catalog's past over HTTP: its log, snapshots, going back (docs/api.md, "A catalog's past"). Glue only."""

from __future__ import annotations

import allowed
import msgspec
import shapes
from allowed import rights
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType
from wiring import once, services

from turnstile.access.core.rules import edit_catalog, nobody
from turnstile.api.http.answers import Answer
from turnstile.api.http.request import Query, body
from turnstile.catalog.history.core import Snapshot
from turnstile.catalog.history.log import AsOf, Logged, snapshot_of
from turnstile.catalog.history.reset import WasReset
from turnstile.catalog.services import CatalogServices
from turnstile.store.core.names import check_identifier

__all__ = ["routes"]

routes = Blueprint(__name__)

CATALOG = "/v1/catalogs/{catalog}"


class LogAnswer(msgspec.Struct, frozen=True):
    """Commits of a catalog; ``next`` the number to go on from, absent at the end."""

    commits: list[Logged]
    next: int | UnsetType = UNSET


class _Named(msgspec.Struct, frozen=True):
    """What is told of every snapshot; ``at`` in microseconds, ``created`` in ms."""

    name: str
    head: str
    seq: int
    at: int
    created: int
    comment: str | None


class SnapshotAnswer(_Named, frozen=True):
    """A snapshot; ``versions`` of its Delta tables by uuid."""

    versions: dict[str, int]


class ListedSnapshot(_Named, frozen=True):
    """A snapshot among others; ``tables`` how many versions it has, which are told of one snapshot at a time."""

    tables: int


class SnapshotsAnswer(msgspec.Struct, frozen=True):
    """A page of a catalog's snapshots, by name."""

    snapshots: list[ListedSnapshot]
    next_page_token: str | UnsetType = UNSET


@routes.route(CATALOG + "/log", methods=["GET"])
@rights.needs((edit_catalog, allowed.catalog))
def catalog_log(catalog: str) -> LogAnswer:
    query = Query("start", "oldest_first", "max_results")
    page = services().catalog.history.log(
        check_identifier(catalog, "catalog"),
        start=query.integer("start"),
        oldest_first=query.flag("oldest_first"),
        max_results=query.integer("max_results"),
    )
    return LogAnswer(list(page.commits), UNSET if page.next_seq is None else page.next_seq)


@routes.route(CATALOG + "/snapshots", methods=["GET"])
@rights.needs((edit_catalog, allowed.catalog))
def list_snapshots(catalog: str) -> SnapshotsAnswer:
    query = Query("page_token", "max_results")
    page = services().catalog.listings.snapshots(
        check_identifier(catalog, "catalog"),
        page_token=query.text("page_token"),
        max_results=query.integer("max_results"),
    )
    return SnapshotsAnswer([_listed(one) for one in page.items], page.next_token or UNSET)


@routes.route(CATALOG + "/snapshots", methods=["POST"])
@rights.needs((edit_catalog, allowed.catalog))
def create_snapshot(catalog: str) -> Answer:
    asked, of = body(shapes.NewSnapshot), check_identifier(catalog, "catalog")

    def create(by: CatalogServices) -> Snapshot:
        if asked.of is None:
            return by.named.create(of, asked.name, comment=asked.comment)
        moment = asked.of.moment("of")
        with asked.of.told("of"):
            return by.named.create(of, asked.name, of=moment, comment=asked.comment)

    def again(by: CatalogServices, seq: int | None) -> Snapshot:
        return snapshot_of(by.history.tree(of, AsOf(seq=seq)), by.reader.store, asked.name)

    return Answer(_answer(once(of, create, again)), 201)


@routes.route(CATALOG + "/snapshots/{snapshot}", methods=["GET"])
@rights.needs((edit_catalog, allowed.catalog))
def show_snapshot(catalog: str, snapshot: str) -> SnapshotAnswer:
    Query()
    of, name = check_identifier(catalog, "catalog"), check_identifier(snapshot, "snapshot")
    return _answer(services().catalog.named.get(of, name))


@routes.route(CATALOG + "/snapshots/{snapshot}", methods=["DELETE"])
@rights.needs((edit_catalog, allowed.catalog))
def drop_snapshot(catalog: str, snapshot: str) -> None:
    Query()
    of, name = check_identifier(catalog, "catalog"), check_identifier(snapshot, "snapshot")
    once(of, lambda by: by.named.drop(of, name), lambda *_: None)


@routes.route(CATALOG + "/reset", methods=["POST"])
@rights.needs((nobody, allowed.metastore))
def reset_catalog(catalog: str) -> WasReset:
    asked, of = body(shapes.Reset), check_identifier(catalog, "catalog")
    to = asked.to.moment("to")

    def reset(by: CatalogServices) -> WasReset:
        with asked.to.told("to"):
            return by.resetter.reset(of, to)

    return once(of, reset, lambda by, seq: by.resetter.told(of, seq))


def _listed(snapshot: Snapshot) -> ListedSnapshot:
    return ListedSnapshot(*_named(snapshot), len(snapshot.versions))


def _answer(snapshot: Snapshot) -> SnapshotAnswer:
    return SnapshotAnswer(*_named(snapshot), snapshot.versions)


def _named(of: Snapshot) -> tuple[str, str, int, int, int, str | None]:
    return of.name, of.head, of.seq, of.at, of.created, of.comment
