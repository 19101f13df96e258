"""Credentials for clients, in both APIs: of tables, staging tables and paths."""

from __future__ import annotations

from typing import Final, Literal

from chalice.app import Blueprint

from turnstile.access.authorizer import Need, Target, denial
from turnstile.api.http.authorization import Params, authorized_by_view, guard, needs, needs_table
from turnstile.api.http.request import body, current
from turnstile.api.services import services
from turnstile.api.unity import older_api, requests, responses
from turnstile.api.unity.errors import DELTA, PREFIX
from turnstile.api.unity.requests import TABLE, require_no_clone, table_of_path
from turnstile.catalog.core.location_rows import Location, keys_above
from turnstile.catalog.core.rows import OPEN
from turnstile.catalog.create import check_creator
from turnstile.catalog.load import RegisteredTable
from turnstile.delta.core.head import TableHead
from turnstile.rights import rules
from turnstile.rights.rules import Rule, is_permitted, may_go_on
from turnstile.store.core.errors import InvalidRequest, NotFound, PermissionDenied
from turnstile.store.core.locations import is_root, normalise, of_path, overlap
from turnstile.store.core.names import check_uuid
from turnstile.store.core.rows import require_readable
from turnstile.store.core.writes import Row

routes = Blueprint(__name__)

Operation = Literal["READ", "READ_WRITE"]

_OPERATIONS: Final[dict[str, tuple[Operation, Rule]]] = {
    "READ": ("READ", rules.read_paths),
    "READ_WRITE": ("READ_WRITE", rules.write_paths),
    "PATH_READ": ("READ", rules.read_paths),
    "PATH_READ_WRITE": ("READ_WRITE", rules.write_paths),
    "PATH_CREATE_TABLE": ("READ_WRITE", rules.create_external),
}
"""The access of an operation, and the right that it needs on a path."""


def _table_to_write(params: Params) -> Target | None:
    """The table, unless credentials are asked for that only read."""
    return None if requests.query().text("operation") == "READ" else table_of_path(params)


def _uuid_of_body(_params: Params) -> str:
    return check_uuid(body(older_api.TableCredentialsRequest).table_id)


def _rules_to_write() -> tuple[Rule, ...]:
    """The needs of credentials beyond reading, unless the request asks for reading only."""
    return () if body(older_api.TableCredentialsRequest).operation == "READ" else (rules.write_files,)


@routes.route(TABLE + "/credentials", methods=["GET"])
@needs((rules.read_table, table_of_path), (rules.write_files, _table_to_write))
def table_credentials(catalog: str, schema: str, table: str) -> responses.Credentials:
    operation = _operation(("READ", "READ_WRITE"))
    entry = services().loader.find(*requests.find_table(catalog, schema, table))
    if isinstance(entry, RegisteredTable):
        return _credentials(entry.table.location, operation)
    vended = services().credentials(require_no_clone(entry), _OPERATIONS[operation][0])
    return responses.Credentials(responses.credentials(vended))


@routes.route(DELTA + "/staging-tables/{table_id}/credentials", methods=["GET"])
@authorized_by_view("creator of the staging table, and create_table")
def staging_credentials(table_id: str) -> responses.Credentials:
    try:
        row = services().world.refs.read(services().world.space.staging(check_uuid(table_id)))
    except InvalidRequest:
        row = None
    if row is None or row["state"] != OPEN:
        raise NotFound("staging table", table_id[:200], field="table_id")
    check_creator(row, current().principal)
    _require_may_create(row)
    guard().mark_authorized()
    return _credentials(row["location"], "READ_WRITE")


@routes.route(DELTA + "/temporary-path-credentials", methods=["GET"])
@authorized_by_view("read_paths, write_paths or create_external")
def path_credentials() -> responses.Credentials:
    location = requests.required_member("location")
    operation = _operation(tuple(_OPERATIONS))
    return _credentials(_free(location, operation), operation)


@routes.route(PREFIX + "/temporary-table-credentials", methods=["POST"])
@needs_table(rules.read_table, also=_rules_to_write, of=_uuid_of_body, fresh=True)
def temporary_table_credentials() -> older_api.TemporaryCredentials:
    request = body(older_api.TableCredentialsRequest)
    table_id = check_uuid(request.table_id)
    space = services().world.space
    rows = services().world.refs.read_many([space.table(table_id), space.external(table_id)])
    row = rows.get(space.table(table_id)) or rows.get(space.external(table_id))
    if row is None or require_readable(row).get("state") == "dropped":
        raise NotFound("table", table_id, field="table_id")
    location = row["location"]
    if "state" not in row:
        return older_api.credentials(services().credentials(location, request.operation), location)
    head = require_no_clone(TableHead.from_row(row))
    return older_api.credentials(services().credentials(head, request.operation), location)


@routes.route(PREFIX + "/temporary-path-credentials", methods=["POST"])
@authorized_by_view("read_paths, write_paths or create_external")
def temporary_path_credentials() -> older_api.TemporaryCredentials:
    request = body(older_api.PathCredentialsRequest)
    location = _free(request.url, request.operation)
    return older_api.credentials(services().credentials(location, _OPERATIONS[request.operation][0]), location)


def _operation(allowed: tuple[str, ...]) -> str:
    operation = requests.query().text("operation")
    if operation not in allowed:
        raise InvalidRequest(f"operation must be one of {', '.join(allowed)}", field="operation")
    return operation


def _require_may_create(staging: Row) -> None:
    """Checks that the creator of a staging table may still create it, by the present rights: one
    read. Raises PermissionDenied if not (I12), NotFound without the catalog."""
    principal = current().principal
    access = services().authorizers.access
    if principal.admin:
        return
    target = Target(staging["catalog"], tuple(staging["namespace"].split(".")))
    tree = access.current(target.catalog)
    if tree is None:
        raise NotFound("staging table", staging["table_id"], field="table_id")
    is_there = tree.find(target.namespace) is not None  # else its transaction creates the namespace, too
    need = Need(rules.create_table if is_there else rules.create_schema, target)
    chain = access.chain(tree, target)
    if not (is_permitted if is_there else may_go_on)(need.rule, principal, chain):
        raise denial(principal, need)


def _credentials(location: str, operation: str) -> responses.Credentials:
    return responses.Credentials(responses.credentials(services().credentials(location, _OPERATIONS[operation][0])))


def _free(location: str, operation: str) -> str:
    """Returns a location for which credentials may be requested by path: no coordinated table is in
    or above it (I10, I12).

    Below a registered table its rights count, elsewhere the metastore's. A principal without a
    right there learns nothing about the location. The lake root is not free even before the first
    table claims it. Raises InvalidRequest for no location or a whole bucket, PermissionDenied for
    no right to it, or if coordinated tables are there.
    """
    location = normalise(of_path(location))
    world = services().world
    rows = world.refs.read_many(keys_above(world.space, location))
    taken = overlap(location, normalise(services().settings.lake_root))
    registered = ""
    for key, row in rows.items():
        claim = Location.from_row(row)
        own = key == world.space.location(location)
        coordinated = bool(claim.table_id) and world.refs.read(world.space.table(claim.table_id)) is not None
        taken = taken or claim.zone or coordinated or (claim.marker and own)
        registered = registered or claim.table_id
    if not _may_vend(operation, "" if taken else registered):
        raise PermissionDenied(f"'{current().principal.name}' has no right to keys for {location}", field="location")
    guard().mark_authorized()
    if is_root(location):
        raise InvalidRequest(f"location {location} is a whole bucket", field="location", remedy="name a folder in it")
    if taken:
        raise PermissionDenied(
            f"location {location} belongs to tables of the catalog",
            field="location",
            remedy="ask for the keys of a table by its name",
        )
    return location


def _may_vend(operation: str, registered: str) -> bool:
    """Whether credentials may be asked for by path: by rights on the table registered there, else
    on the metastore."""
    principal = current().principal
    authorizers = services().authorizers
    rule = _OPERATIONS[operation][1]
    if principal.admin:
        return True
    if not registered:
        return is_permitted(rule, principal, authorizers.access.metastore())
    if rule is rules.create_external:
        return False
    needed = (rules.read_table,) if rule is rules.read_paths else (rules.read_table, rules.write_files)
    try:
        authorizers.by_id(principal, needed, registered, fresh=True)
    except (PermissionDenied, NotFound):
        return False
    return True
