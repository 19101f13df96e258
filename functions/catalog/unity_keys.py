"""Keys for clients, in both APIs: of tables, staging tables and paths."""

from __future__ import annotations

from typing import Literal

from chalice.app import Blueprint
from wiring import services

from turnstile.core.errors import InvalidRequest, NotFound, PermissionDenied
from turnstile.core.location_rows import Location, keys_above
from turnstile.core.locations import normalise
from turnstile.core.names import check_uuid
from turnstile.services.load import Registered
from turnstile_http.bodies import body
from turnstile_http.params import Query
from turnstile_http.request import current
from turnstile_unity import answers, legacy, naming
from turnstile_unity.errors import DELTA, PREFIX

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
def table_credentials(catalog: str, schema: str, table: str) -> answers.Credentials:
    operation = _operation(("READ", "READ_WRITE"))
    found = services().loader.find(*naming.find_table(catalog, schema, table))
    location = found.table.location if isinstance(found, Registered) else found.location
    return _credentials(location, operation)


@routes.route(DELTA + "/staging-tables/{table_id}/credentials", methods=["GET"])
def staging_credentials(table_id: str) -> answers.Credentials:
    try:
        row = services().world.refs.read(services().world.space.staging(check_uuid(table_id)))
    except InvalidRequest:
        row = None
    if row is None:
        raise NotFound("staging table", table_id[:200], field="table_id")
    return _credentials(row["location"], "READ_WRITE")


@routes.route(DELTA + "/temporary-path-credentials", methods=["GET"])
def path_credentials() -> answers.Credentials:
    location = Query(*current().query).text("location")
    if location is None:
        raise InvalidRequest("location is missing", field="location")
    operation = _operation(tuple(_OPERATIONS))
    return _credentials(_free(location), operation)


@routes.route(PREFIX + "/temporary-table-credentials", methods=["POST"])
def temporary_table_credentials() -> legacy.TemporaryCredentials:
    asked = body(legacy.TableKeys)
    table_id, space = check_uuid(asked.table_id), services().world.space
    rows = services().world.refs.read_many([space.table(table_id), space.external(table_id)])
    row = rows.get(space.table(table_id)) or rows.get(space.external(table_id))
    if row is None or row.get("state") == "dropped":
        raise NotFound("table", table_id, field="table_id")
    return legacy.credentials(services().keys(row["location"], asked.operation), row["location"])


@routes.route(PREFIX + "/temporary-path-credentials", methods=["POST"])
def temporary_path_credentials() -> legacy.TemporaryCredentials:
    asked = body(legacy.PathKeys)
    location = _free(asked.url)
    return legacy.credentials(services().keys(location, _OPERATIONS[asked.operation]), location)


def _operation(allowed: tuple[str, ...]) -> Operation:
    said = Query(*current().query).text("operation")
    if said not in allowed:
        raise InvalidRequest(f"operation must be one of {', '.join(allowed)}", field="operation")
    return _OPERATIONS[said]


def _credentials(location: str, operation: Operation) -> answers.Credentials:
    return answers.Credentials(answers.credentials(services().keys(location, operation)))


def _free(location: str) -> str:
    """A location for which keys may be asked by path: no coordinated table is there, above or below (I10, I12).

    Raises:
        InvalidRequest: not a location.
        PermissionDenied: keys for it would open tables that are asked for by name.
    """
    location, world = normalise(location), services().world
    rows = world.refs.read_many(keys_above(world.space, location))
    for key, row in rows.items():
        found, own = Location.from_row(row), key == world.space.location(location)
        coordinated = bool(found.table_id) and world.refs.read(world.space.table(found.table_id)) is not None
        if found.zone or coordinated or (found.marker and own):
            raise PermissionDenied(
                f"location {location} belongs to tables of the catalog",
                field="location",
                remedy="ask for the keys of a table by its name",
            )
    return location
