"""Tables over HTTP. Glue only."""

from __future__ import annotations

from typing import Any

import allowed
import msgspec
from allowed import rights
from asked import body
from chalice.app import Blueprint
from wiring import once, services

from turnstile.access.core.rules import (
    create_table,
    edit_table,
    modify_table,
    read_table,
    see_schema,
    see_table,
    write_files,
)
from turnstile.api.http.authorization import guard
from turnstile.api.http.handler import note
from turnstile.api.http.request import Query, current
from turnstile.api.http.responses import Answer
from turnstile.api.iceberg import naming, requests
from turnstile.api.iceberg import responses as answers
from turnstile.api.iceberg.errors import PREFIX
from turnstile.api.iceberg.responses import Credentials
from turnstile.catalog.core.entities import ICEBERG_TABLE, IcebergTable
from turnstile.catalog.core.paths import Path
from turnstile.iceberg.commits import Commits, TableChange
from turnstile.iceberg.context import Context
from turnstile.iceberg.listing import Listing
from turnstile.iceberg.tables import CreateTable, LoadedTable, Tables
from turnstile.store.core.errors import InvalidRequest

__all__ = ["page_token", "routes"]

routes = Blueprint(__name__)

NAMESPACE = PREFIX + "/v1/{prefix}/namespaces/{namespace}"
TABLE = NAMESPACE + "/tables/{table}"

_EMPTY = msgspec.Raw(b"")


def page_token() -> str | None:
    """None: no pages are wanted; empty: the first."""
    given = current().query.get("pageToken")
    return given[0] if given else None


@routes.route(NAMESPACE + "/tables", methods=["GET"])
@rights.needs((see_schema, allowed.namespace))
def list_tables(prefix: str, namespace: str) -> dict[str, Any]:
    size = Query(*current().query).integer("pageSize")
    found = Listing(services().reading(prefix)).names(
        allowed.catalog(prefix), naming.namespace(namespace), ICEBERG_TABLE, page_token(), size
    )
    return answers.identifiers(found)


@routes.route(NAMESPACE + "/tables", methods=["POST"])
@rights.needs((create_table, allowed.namespace))
def create_new_table(prefix: str, namespace: str) -> Answer:
    asked, path = body(CreateTable), naming.namespace(namespace)

    def again(context: Context) -> LoadedTable:
        if asked.stage_create:
            return Tables(context).create(prefix, path, asked)
        return Tables(context).load(prefix, path, asked.name)

    made = once(prefix, lambda context: Tables(context).create(prefix, path, asked), again)
    return _shown(made, _delegated(made.entity or made.metadata.location, prefix, namespace, mine=True))


@routes.route(NAMESPACE + "/register", methods=["POST"])
@rights.needs((create_table, allowed.namespace))
def register_table(prefix: str, namespace: str) -> Answer:
    asked, path = body(requests.RegisterTable), naming.namespace(namespace)
    done = once(
        prefix,
        lambda context: Tables(context).register(
            prefix, path, asked.name, asked.metadata_location, overwrite=asked.overwrite
        ),
        lambda context: Tables(context).load(prefix, path, asked.name),
    )
    return _shown(done, _delegated(done.entity or done.metadata.location, prefix, namespace, mine=True))


@routes.route(TABLE, methods=["GET"])
@rights.needs((see_table, allowed.table))
def load_table(prefix: str, namespace: str, table: str) -> Answer:
    shown = Query(*current().query).text("snapshots") or "all"
    if shown not in ("all", "refs"):
        raise InvalidRequest("snapshots must be all or refs", field="snapshots")
    tables, known = Tables(services().reading(prefix)), current().headers.get("if-none-match", "")
    entity = tables.find(*_path(prefix, namespace, table))
    tag = answers.etag(entity.metadata, refs_only=shown == "refs")
    keys = _delegated(entity, prefix, namespace, mine=False)
    if known and answers.matches(known, tag) and not keys:  # whoever is due keys may hold some that have ended
        return Answer(_EMPTY, 304, {"ETag": tag})
    return _shown(tables.open(entity), keys, refs_only=shown == "refs")


@routes.route(TABLE, methods=["HEAD"])
@rights.needs((see_table, allowed.table))
def table_exists(prefix: str, namespace: str, table: str) -> None:
    Tables(services().reading(prefix)).find(*_path(prefix, namespace, table))


@routes.route(TABLE, methods=["POST"])
@rights.needs((modify_table, allowed.committed), (create_table, allowed.created))
def commit_table(prefix: str, namespace: str, table: str) -> Answer:
    asked, path = body(requests.CommitTable), _path(prefix, namespace, table)
    if asked.identifier is not None and (*asked.identifier.namespace, asked.identifier.name) != (*path[1], path[2]):
        raise InvalidRequest("the body names another table than the path", field="identifier")
    change = TableChange((*path[1], path[2]), asked.requirements, asked.updates)
    done = once(
        prefix,
        lambda context: Commits(context).commit(path[0], [change])[0],
        lambda context: Tables(context).load(*path),
    )
    return Answer(answers.committed(done), headers=_tag(done))


@routes.route(TABLE, methods=["DELETE"])
@rights.needs((edit_table, allowed.table))
def drop_table(prefix: str, namespace: str, table: str) -> None:
    purge, (catalog, path, name) = Query(*current().query).flag("purgeRequested"), _path(prefix, namespace, table)
    once(prefix, lambda context: Tables(context).drop(catalog, (*path, name), purge=purge), lambda _: None)


@routes.route(TABLE + "/unregister", methods=["POST"])
@rights.needs((edit_table, allowed.table))
def unregister_table(prefix: str, namespace: str, table: str) -> Answer:
    catalog, path, name = _path(prefix, namespace, table)

    def unregister(context: Context) -> LoadedTable:
        gone = Tables(context).drop(catalog, (*path, name), purge=False)
        return Tables(context).open(gone)

    done = once(prefix, unregister, lambda context: Tables(context).load(catalog, path, name))
    return Answer(answers.committed(done))


@routes.route(TABLE + "/credentials", methods=["GET"])
@rights.needs((read_table, allowed.table))
def table_credentials(prefix: str, namespace: str, table: str) -> dict[str, Any]:
    entity = Tables(services().reading(prefix)).find(*_path(prefix, namespace, table))
    return answers.credentials(_keys(entity, prefix, namespace, mine=False))


@routes.route(TABLE + "/metrics", methods=["POST"])
@rights.needs((see_table, allowed.table))
def report_metrics(prefix: str, namespace: str, table: str) -> None:
    Tables(services().reading(prefix)).find(*_path(prefix, namespace, table))
    note(report=body(requests.Report).report_type[:40])


@routes.route(PREFIX + "/v1/{prefix}/tables/rename", methods=["POST"])
@rights.needs((edit_table, allowed.renamed), (create_table, allowed.moved))
def rename_table(prefix: str) -> None:
    asked = body(requests.Rename)
    once(prefix, lambda context: Tables(context).rename(allowed.catalog(prefix), *asked.paths()), lambda _: None)


def _path(prefix: str, namespace: str, table: str) -> tuple[str, Path, str]:
    return allowed.catalog(prefix), naming.namespace(namespace), naming.name(table, "table")


def _shown(found: LoadedTable, keys: Credentials | None, *, refs_only: bool = False) -> Answer:
    """The answer to whoever loads a table, or has just made it."""
    return Answer(answers.table(found, keys, refs_only=refs_only), headers=_tag(found, refs_only=refs_only))


def _tag(found: LoadedTable, *, refs_only: bool = False) -> dict[str, str]:
    return {} if found.entity is None else {"ETag": answers.etag(found.entity.metadata, refs_only=refs_only)}


def _delegated(table: IcebergTable | str, prefix: str, namespace: str, *, mine: bool) -> Credentials | None:
    """Keys for whoever would like some with the table."""
    wanted = "vended-credentials" in current().headers.get("x-iceberg-access-delegation", "")
    keys = _keys(table, prefix, namespace, mine=mine) if wanted else None
    return keys if keys is not None and keys.vended else None


def _keys(table: IcebergTable | str, prefix: str, namespace: str, *, mine: bool) -> Credentials:
    """Keys for a table's files (or, while it is only staged, for its location), as far as whoever asks may read or write
    them; those of the past only to read, and those of a clone's source, too, if that may be read as well.

    Args:
        mine: whoever asks has just made it.
    """
    if isinstance(table, str):  # it has no address yet to fetch other keys from
        return Credentials(services().keys(table, "READ_WRITE"))
    writes = not allowed.past(prefix) and (mine or guard().may(write_files))
    if not writes and not guard().may(read_table):
        return Credentials()
    vended = services().keys(table.location, "READ_WRITE" if writes else "READ")
    for held in table.needs:
        if services().sources.may_read(current().principal, held):
            vended += services().keys(held.location, "READ")
    return Credentials(vended, answers.credentials_path(prefix, naming.namespace(namespace), table.name))
