"""Unity Catalog's Delta API, what is not hot: staging, create, delete, rename, metrics. Glue only."""

from __future__ import annotations

import functools

import allowed
from allowed import rights
from chalice.app import Blueprint
from wiring import services

from turnstile.access.authorizer import Target
from turnstile.access.core.grants import owner_for
from turnstile.access.core.rules import create_external, create_table, edit_table, modify_table
from turnstile.api.http.request import body, current
from turnstile.api.unity import answers, contract, external, naming, requests
from turnstile.api.unity.errors import DELTA
from turnstile.catalog.core.entities import DELTA as DELTA_FORMAT
from turnstile.catalog.core.paths import Path
from turnstile.catalog.load import Registered
from turnstile.store.core.errors import InvalidRequest, NotFound
from turnstile.store.core.locations import normalise
from turnstile.store.core.names import check_identifier, check_uuid
from turnstile.store.ports import Vended

__all__ = ["policy", "routes", "staged"]

routes = Blueprint(__name__)

SCHEMA = DELTA + "/catalogs/{catalog}/schemas/{schema}"
TABLE = SCHEMA + "/tables/{table}"


@routes.route(SCHEMA + "/staging-tables", methods=["POST"])
@rights.needs((create_table, allowed.unity_schema))
def stage_delta_table(catalog: str, schema: str) -> answers.StagingTable:
    name = check_identifier(body(requests.StageTable).name, "name")
    catalog, namespace = naming.find_schema(catalog, schema)
    creator, given = owner_for(current().principal), list[Vended]()

    def keys_first(_table_id: str, location: str) -> None:
        """Where no keys can be had, no staging table is left to be collected."""
        given.extend(services().keys(location, "READ_WRITE"))

    made = services().catalog.staging.create(catalog, namespace, name, creator=creator, check=keys_first)
    return contract.staging(made, tuple(given), policy(catalog))


@routes.route(SCHEMA + "/tables", methods=["POST"])
@rights.needs((create_table, allowed.unity_schema), (create_external, allowed.metastore_if_external))
def create_delta_table(catalog: str, schema: str) -> answers.LoadTable:
    asked = body(requests.CreateTable)
    check_identifier(asked.name, "name")
    catalog, namespace = naming.find_schema(catalog, schema)
    if asked.table_type == "EXTERNAL":
        about = external.registered(asked, services().world.clock.now_ms())
        services().catalog.externals.register(
            catalog,
            namespace,
            asked.name,
            location=asked.location,
            format=DELTA_FORMAT,
            about=about,
            comment=asked.comment,
            owner=owner_for(current().principal),
        )
        return _load(catalog, namespace, asked.name)
    table_id, location = staged(catalog, namespace, asked.location)
    contract.check_request(asked, table_id, policy(catalog))
    services().catalog.registrar.register(
        catalog,
        namespace,
        asked.name,
        table_id,
        principal=current().principal,
        describe=functools.partial(contract.describe, asked, table_id, location),
    )
    return _load(catalog, namespace, asked.name)


@routes.route(TABLE, methods=["DELETE"])
@rights.needs((edit_table, allowed.unity_table))
def drop_delta_table(catalog: str, schema: str, table: str) -> None:
    services().catalog.dropper.drop(*naming.find_table(catalog, schema, table))


@routes.route(TABLE + "/rename", methods=["POST"])
@rights.needs((edit_table, allowed.unity_table), (create_table, allowed.unity_schema))
def rename_delta_table(catalog: str, schema: str, table: str) -> None:
    name = check_identifier(body(requests.Rename).new_name, "new-name")
    services().catalog.renamer.rename(*naming.find_table(catalog, schema, table), name)


@routes.route(TABLE + "/metrics", methods=["POST"])
@rights.needs((modify_table, allowed.unity_table))
def report_metrics(catalog: str, schema: str, table: str) -> None:
    """Judged and forgotten: what a commit did is in the log."""
    asked = body(requests.Metrics)
    found = services().loader.find(*naming.find_table(catalog, schema, table))
    table_id = found.table.table_id if isinstance(found, Registered) else found.table_id
    if asked.table_id.lower() != table_id:
        raise InvalidRequest(f"table-id is not the table's, {table_id}", field="table-id")


def staged(catalog: str, namespace: Path, location: str) -> tuple[str, str]:
    """Uuid and normalised location of the staging table at ``location``, or of the table it became.

    Raises:
        NotFound: catalog or schema, or no staging table has this location.
    """
    services().catalog.reader.current(catalog).parent(namespace)
    found = normalise(location)
    try:
        table_id = check_uuid(found.rpartition("/")[2])
    except InvalidRequest:
        raise NotFound("staging table", found, field="location") from None
    space = services().world.space
    rows = services().world.refs.read_many([space.staging(table_id), space.table(table_id)])
    if not any(row["location"] == found for row in rows.values()):
        raise NotFound("staging table", found, field="location", remedy="create a staging table first")
    return table_id, found


def policy(catalog: str) -> contract.Policy:
    """The catalog's policy for new tables; the default one for a catalog that the realm does not list."""
    try:
        return contract.policy_of(services().catalog.catalogs.get(catalog).properties)
    except NotFound:
        return "full"


def _load(catalog: str, namespace: Path, name: str) -> answers.LoadTable:
    loader = services().loader_of(Target(catalog, namespace, name))
    found = loader.find(catalog, namespace, name)
    if isinstance(found, Registered):
        return answers.external(found)
    return answers.table(loader.loaded(found))
