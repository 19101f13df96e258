"""The Delta API outside the hot path: staging, create, delete, rename, metrics."""

from __future__ import annotations

import functools

from chalice.app import Blueprint

from turnstile.access.authorizer import Target
from turnstile.api.http.authorization import TargetOf, metastore, needs
from turnstile.api.http.request import body, current
from turnstile.api.services import services
from turnstile.api.unity import contract, external, older_api, requests, responses
from turnstile.api.unity.columns import check_nothing_hidden
from turnstile.api.unity.delta_commits import table_response
from turnstile.api.unity.requests import SCHEMA, TABLE, schema_of_path, table_of_path
from turnstile.catalog.core.entities import DELTA, External
from turnstile.catalog.core.paths import Path
from turnstile.catalog.load import RegisteredTable
from turnstile.rights.grants import owner_for
from turnstile.rights.rules import create_external, create_table, edit_table, modify_table
from turnstile.store.core.errors import InvalidRequest, NotFound
from turnstile.store.core.locations import normalise, of_path
from turnstile.store.core.names import check_identifier, check_uuid
from turnstile.store.core.rows import require_readable
from turnstile.store.ports import VendedCredentials

routes = Blueprint(__name__)


def metastore_if_external(shape: type[requests.CreateTable | older_api.NewTable]) -> TargetOf:
    """The metastore, which has the files, for the registration of a table that is not
    coordinated."""
    return lambda params: metastore(params) if body(shape).table_type == "EXTERNAL" else None


@routes.route(SCHEMA + "/staging-tables", methods=["POST"])
@needs((create_table, schema_of_path))
def stage_delta_table(catalog: str, schema: str) -> responses.StagingTable:
    name = check_identifier(body(requests.StageTable).name, "name")
    catalog, namespace = requests.find_schema(catalog, schema)
    creator = owner_for(current().principal)
    credentials = list[VendedCredentials]()

    def vend_first(_table_id: str, location: str) -> None:
        """Where no credentials can be had, no staging table is left to be collected."""
        credentials.extend(services().credentials(location, "READ_WRITE"))

    table = services().catalog.staging.create(catalog, namespace, name, creator=creator, check=vend_first)
    return contract.staging_table(table, tuple(credentials), policy(catalog))


@routes.route(SCHEMA + "/tables", methods=["POST"])
@needs((create_table, schema_of_path), (create_external, metastore_if_external(requests.CreateTable)))
def create_delta_table(catalog: str, schema: str) -> responses.LoadTable:
    request = body(requests.CreateTable)
    check_identifier(request.name, "name")
    check_nothing_hidden(request.row_filter, ())
    catalog, namespace = requests.find_schema(catalog, schema)
    names = (catalog, namespace, request.name)
    if request.table_type == "EXTERNAL":
        about = external.new_external_table(request, services().world.clock.now_ms())
        register_external(names, request.location, about, request.comment)
    else:
        table_id, location = staging_table_at(catalog, namespace, request.location)
        contract.check_request(request, table_id, policy(catalog))
        describe = functools.partial(contract.initial_metadata, request, table_id, location)
        services().catalog.registrar.register(*names, table_id, principal=current().principal, describe=describe)
    loader = services().loader_of(Target(*names))
    target = loader.find_details(*names)
    if isinstance(target.table, RegisteredTable):
        return responses.external(target.table.table, target.table.etag)
    return table_response(loader, target, target.table)


@routes.route(TABLE, methods=["DELETE"])
@needs((edit_table, table_of_path))
def drop_delta_table(catalog: str, schema: str, table: str) -> None:
    services().catalog.dropper.drop(*requests.find_table(catalog, schema, table))


@routes.route(TABLE + "/rename", methods=["POST"])
@needs((edit_table, table_of_path), (create_table, schema_of_path))
def rename_delta_table(catalog: str, schema: str, table: str) -> None:
    name = check_identifier(body(requests.Rename).new_name, "new-name")
    services().catalog.renamer.rename(*requests.find_table(catalog, schema, table), name)


@routes.route(TABLE + "/metrics", methods=["POST"])
@needs((modify_table, table_of_path))
def report_metrics(catalog: str, schema: str, table: str) -> None:
    """Authorized and dropped: the log has the operations of each commit."""
    request = body(requests.Metrics)
    entry = services().loader.find(*requests.find_table(catalog, schema, table))
    table_id = entry.table.table_id if isinstance(entry, RegisteredTable) else entry.table_id
    if request.table_id.lower() != table_id:
        raise InvalidRequest(f"table-id is not the table's, {table_id}", field="table-id")


def register_external(
    names: tuple[str, Path, str], location: str, about: External, comment: str | None, format: str = DELTA
) -> None:
    """Registers an external table that the principal will own."""
    owner = owner_for(current().principal)
    services().catalog.externals.register(
        *names, location=of_path(location), format=format, about=about, comment=comment, owner=owner
    )


def staging_table_at(catalog: str, namespace: Path, location: str) -> tuple[str, str]:
    """Returns uuid and normalised location of the staging table at ``location``, or of the table it
    became; raises NotFound for no such catalog or schema, or no such location."""
    services().catalog.reader.current(catalog).parent(namespace)
    normalised = normalise(of_path(location))
    try:
        table_id = check_uuid(normalised.rpartition("/")[2])
    except InvalidRequest:
        raise NotFound("staging table", normalised, field="location") from None
    space = services().world.space
    rows = services().world.refs.read_many([space.staging(table_id), space.table(table_id)])
    if not any(require_readable(row)["location"] == normalised for row in rows.values()):
        raise NotFound("staging table", normalised, field="location", remedy="create a staging table first")
    return table_id, normalised


def policy(catalog: str) -> contract.Policy:
    """Returns the catalog's policy for new tables; the default one for a catalog that the realm
    does not list."""
    try:
        properties = services().catalog.catalogs.get(catalog).properties
    except NotFound:
        return "full"
    return "lean" if properties.get(contract.POLICY) == "lean" else "full"
