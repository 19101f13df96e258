"""Keys for clients, in both APIs: of tables, staging tables and paths."""

from __future__ import annotations

from typing import Literal

import allowed
from allowed import rights
from chalice.app import Blueprint
from wiring import opened, services

from turnstile.access.authorizer import Need, Target, denied
from turnstile.access.core.rules import (
    Rule,
    create_external,
    create_table,
    permitted,
    read_paths,
    read_table,
    write_files,
    write_paths,
)
from turnstile.api.http.request import Query, body, current
from turnstile.api.http.rights import guard
from turnstile.api.unity import answers, legacy, naming
from turnstile.api.unity.errors import DELTA, PREFIX
from turnstile.api.unity.naming import require_no_clone
from turnstile.catalog.core.location_rows import Location, keys_above
from turnstile.catalog.core.rows import OPEN
from turnstile.catalog.create import check_creator
from turnstile.catalog.load import Registered
from turnstile.delta.core.head import TableHead
from turnstile.store.core.errors import InvalidRequest, NotFound, PermissionDenied
from turnstile.store.core.locations import is_root, normalise, overlap
from turnstile.store.core.names import check_uuid
from turnstile.store.core.writes import Row

__all__ = ["routes"]

routes = Blueprint(__name__)

Operation = Literal["READ", "READ_WRITE"]
_OPERATIONS: dict[str, Operation] = {
    "READ": "READ",
    "READ_WRITE": "READ_WRITE",
    "PATH_READ": "READ",
    "PATH_READ_WRITE": "READ_WRITE",
    "PATH_CREATE_TABLE": "READ_WRITE",
}


@routes.route(DELTA + "/catalogs/{catalog}/schemas/{schema}/tables/{table}/credentials", methods=["GET"])
@rights.needs((read_table, allowed.unity_table), (write_files, allowed.unity_table_to_write))
def table_credentials(catalog: str, schema: str, table: str) -> answers.Credentials:
    operation = _operation(("READ", "READ_WRITE"))
    found = services().loader.find(*naming.find_table(catalog, schema, table))
    location = found.table.location if isinstance(found, Registered) else require_no_clone(found).location
    return _credentials(location, operation)


@routes.route(DELTA + "/staging-tables/{table_id}/credentials", methods=["GET"])
@rights.judged_inside("creator of the staging table, and create_table")
def staging_credentials(table_id: str) -> answers.Credentials:
    try:
        row = services().world.refs.read(services().world.space.staging(check_uuid(table_id)))
    except InvalidRequest:
        row = None
    if row is None or row["state"] != OPEN:
        raise NotFound("staging table", table_id[:200], field="table_id")
    check_creator(row, current().principal)
    _require_may_create(row)
    guard().passed()
    return _credentials(row["location"], "READ_WRITE")


@routes.route(DELTA + "/temporary-path-credentials", methods=["GET"])
@rights.judged_inside("read_paths, write_paths or create_external")
def path_credentials() -> answers.Credentials:
    location = Query(*current().query).text("location")
    if location is None:
        raise InvalidRequest("location is missing", field="location")
    operation = _operation(tuple(_OPERATIONS))
    return _credentials(_free(location, str(Query(*current().query).text("operation"))), operation)


@routes.route(PREFIX + "/temporary-table-credentials", methods=["POST"])
@rights.needs_table(read_table, also=allowed.to_write, of=allowed.uuid_of_body, fresh=True)
def temporary_table_credentials() -> legacy.TemporaryCredentials:
    asked = body(legacy.TableKeys)
    table_id, space = check_uuid(asked.table_id), services().world.space
    rows = services().world.refs.read_many([space.table(table_id), space.external(table_id)])
    row = rows.get(space.table(table_id)) or rows.get(space.external(table_id))
    if row is None or row.get("state") == "dropped":
        raise NotFound("table", table_id, field="table_id")
    if "state" in row:
        require_no_clone(TableHead.from_row(row))
    return legacy.credentials(services().keys(row["location"], asked.operation), row["location"])


@routes.route(PREFIX + "/temporary-path-credentials", methods=["POST"])
@rights.judged_inside("read_paths, write_paths or create_external")
def temporary_path_credentials() -> legacy.TemporaryCredentials:
    asked = body(legacy.PathKeys)
    location = _free(asked.url, asked.operation)
    return legacy.credentials(services().keys(location, _OPERATIONS[asked.operation]), location)


def _operation(allowed: tuple[str, ...]) -> Operation:
    said = Query(*current().query).text("operation")
    if said not in allowed:
        raise InvalidRequest(f"operation must be one of {', '.join(allowed)}", field="operation")
    return _OPERATIONS[said]


def _require_may_create(staging: Row) -> None:
    """Whoever was given a place writes there for as long as it may create tables, by the rights of now. One read.

    Raises:
        PermissionDenied: it may not any more (I12).
        NotFound: nor is there the catalog.
    """
    asker, access = current().principal, opened().judges.access
    if asker.admin:
        return
    need = Need(create_table, Target(staging["catalog"], tuple(staging["namespace"].split("."))))
    tree = access.current(need.target.catalog)
    if tree is None:
        raise NotFound("staging table", staging["table_id"], field="table_id")
    if not permitted(need.rule, asker, access.chain(tree, need.target)):
        raise denied(asker, need)


def _credentials(location: str, operation: Operation) -> answers.Credentials:
    return answers.Credentials(answers.credentials(services().keys(location, operation)))


_PATH_RULES: dict[str, Rule] = {
    "READ": read_paths,
    "READ_WRITE": write_paths,
    "PATH_READ": read_paths,
    "PATH_READ_WRITE": write_paths,
    "PATH_CREATE_TABLE": create_external,
}


def _free(location: str, operation: str) -> str:
    """A location for which keys may be asked by path: no coordinated table is there, above or below (I10, I12).

    Below a registered table its rights are judged, elsewhere the metastore's. Whoever has no right there is not told
    what is there. The lake root is not free even before the first table claims it.

    Raises:
        InvalidRequest: not a location, or a whole bucket.
        PermissionDenied: no right to it, or keys for it would open tables that are asked for by name.
    """
    location, world = normalise(location), services().world
    rows = world.refs.read_many(keys_above(world.space, location))
    taken, registered = overlap(location, normalise(services().open_catalog.lake_root)), ""
    for key, row in rows.items():
        found, own = Location.from_row(row), key == world.space.location(location)
        coordinated = bool(found.table_id) and world.refs.read(world.space.table(found.table_id)) is not None
        taken = taken or found.zone or coordinated or (found.marker and own)
        registered = registered or found.table_id
    if not _permitted(operation, "" if taken else registered):
        raise PermissionDenied(f"'{current().principal.name}' has no right to keys for {location}", field="location")
    guard().passed()
    if is_root(location):
        raise InvalidRequest(f"location {location} is a whole bucket", field="location", remedy="name a folder in it")
    if taken:
        raise PermissionDenied(
            f"location {location} belongs to tables of the catalog",
            field="location",
            remedy="ask for the keys of a table by its name",
        )
    return location


def _permitted(operation: str, registered: str) -> bool:
    """Whether keys may be asked for by path: by the rights on the table that is registered there, else the
    metastore's."""
    asker, judges, rule = current().principal, opened().judges, _PATH_RULES[operation]
    if asker.admin:
        return True
    if not registered:
        return permitted(rule, asker, judges.access.metastore())
    if rule is create_external:
        return False
    rules = (read_table,) if rule is read_paths else (read_table, write_files)
    try:
        judges.by_id(asker, rules, registered, fresh=True)
    except (PermissionDenied, NotFound):
        return False
    return True
