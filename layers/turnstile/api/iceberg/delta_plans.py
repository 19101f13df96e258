"""Plans for Delta Spark's server-side planning, which asks for them below Unity's API.

With ``spark.databricks.delta.catalog.enableServerSidePlanning`` Delta plans the scan of a table for
which it has no credentials by these two requests, and takes the credentials from the plan. Source:
Delta 4.4, ``UnityCatalogMetadata``, ``IcebergRESTCatalogPlanningClient``.
"""

from typing import Any, Final

from chalice.app import Blueprint

from turnstile.access.authorizer import Target
from turnstile.api.http.authorization import Params, guard, needs
from turnstile.api.http.request import note
from turnstile.api.iceberg import requests, responses
from turnstile.api.iceberg.context import body, query, reading
from turnstile.api.iceberg.errors import DELTA_PREFIX
from turnstile.api.iceberg.tables import path_of, table_of_path
from turnstile.api.services import services
from turnstile.catalog.core.entities import Table
from turnstile.iceberg.scans.delta_scans import NotPlanned, PlanRequest
from turnstile.iceberg.tables import Tables
from turnstile.rights.rules import read_table, use_catalog
from turnstile.store.core.errors import InvalidRequest

routes = Blueprint(__name__)

ROOT: Final = DELTA_PREFIX + "/v1"


def _warehouse(_params: Params) -> Target:
    return Target(requests.warehouse(query().text("warehouse") or "")[0])


@routes.route(ROOT + "/config", methods=["GET"])
@needs((use_catalog, _warehouse))
def delta_config() -> dict[str, Any]:
    catalog, as_of = requests.warehouse(query().text("warehouse") or "")
    tree = services().catalog_for(guard()).as_of_reader.at(catalog, None).tree
    if as_of is not None:
        raise InvalidRequest("the past of a catalog has no Delta tables", field="warehouse", remedy=f"name {catalog}")
    return {"defaults": {}, "overrides": {"prefix": tree.catalog}}


@routes.route(ROOT + "/{prefix}/namespaces/{namespace}/tables/{table}/plan", methods=["POST"])
@needs((read_table, table_of_path))
def plan_delta_scan(prefix: str, namespace: str, table: str) -> dict[str, Any]:
    request = body(PlanRequest)
    entity = Tables(reading(prefix)).find_any(*path_of(prefix, namespace, table))
    if not isinstance(entity, Table):
        remedy = f"plan it at {responses.plan_path(prefix, requests.namespace(namespace), entity.name)}"
        raise NotPlanned(f"'{entity.name}' is an Iceberg table", field="table", remedy=remedy)
    page = services().delta_scans.plan_plain_files(entity, request)
    note(files=len(page.tasks.file_scan_tasks))
    files = [task["data-file"]["file-path"] for task in page.tasks.file_scan_tasks]
    vended = services().credentials(services().delta_scans.head(entity), "READ", files) if files else ()
    credentials = responses.Credentials(
        vended, responses.credentials_path(prefix, requests.namespace(namespace), entity.name)
    )
    return responses.plan_answer(page, f"{entity.table_id}.{page.version}", credentials if vended else None)
