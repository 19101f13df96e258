"""Scans of tables, planned by the catalog (REST specification, ``planTableScan`` and
``fetchScanTasks``).

Plans name partitions by their values and files by their paths, so they need the right to read the
table. A plan is complete in its first answer (ADR 44), except a plan of a Delta table that takes
some seconds, for a client that is known to poll. The id of such a plan holds its whole request, so
any server answers (ADR 49).
"""

from __future__ import annotations

from typing import Any

import msgspec
from chalice.app import Blueprint

from turnstile.api.http.authorization import guard, needs
from turnstile.api.http.request import current, note
from turnstile.api.iceberg import responses
from turnstile.api.iceberg.context import body, reading
from turnstile.api.iceberg.tables import TABLE, credentials_for, path_of, table_of_path
from turnstile.api.services import services
from turnstile.catalog.core.entities import IcebergTable, Table
from turnstile.iceberg.scans.delta_scans import PlannedPage, PlanRequest
from turnstile.iceberg.tables import Tables
from turnstile.rights.rules import read_table

routes = Blueprint(__name__)

PLAN = TABLE + "/plan/{plan_id}"


class FetchTasks(msgspec.Struct, frozen=True, rename="kebab"):
    """A plan task to fetch."""

    plan_task: str


@routes.route(TABLE + "/plan", methods=["POST"])
@needs((read_table, table_of_path))
def plan_scan(prefix: str, namespace: str, table: str) -> dict[str, Any]:
    request = body(PlanRequest)
    tables = Tables(reading(prefix))
    entity = tables.find_any(*path_of(prefix, namespace, table))
    if isinstance(entity, Table):
        scans = services().delta_scans
        plan_id = scans.plan_id(entity, request) if _asks_again() else None
        if plan_id is None:
            page = scans.plan(entity, request)
        else:
            run_page = _run(entity, plan_id)
            if run_page is None:
                return {"status": "submitted", "plan-id": plan_id}
            page = run_page
    else:
        metadata = tables.open(entity).metadata
        page = services().table_scans.plan(entity, metadata, _roots(entity), request)
    note(files=len(page.tasks.file_scan_tasks))
    plan_id = f"{entity.table_id}.{page.version}"
    return responses.plan_answer(page, plan_id, credentials_for(entity, prefix, namespace, guard(), only_reads=True))


@routes.route(PLAN, methods=["GET"])
@needs((read_table, table_of_path))
def fetch_plan(prefix: str, namespace: str, table: str, plan_id: str) -> dict[str, Any]:
    tables = Tables(reading(prefix))
    entity = tables.find_any(*path_of(prefix, namespace, table))
    if isinstance(entity, Table):
        run_page = _run(entity, plan_id)
        if run_page is None:
            return {"status": "submitted"}
        page = run_page
    else:
        metadata = tables.open(entity).metadata
        page = services().table_scans.result(entity, metadata, _roots(entity), plan_id)
    note(files=len(page.tasks.file_scan_tasks))
    return responses.plan_result(page, credentials_for(entity, prefix, namespace, guard(), only_reads=True))


@routes.route(PLAN, methods=["DELETE"])
@needs((read_table, table_of_path))
def cancel_plan(prefix: str, namespace: str, table: str, plan_id: str) -> None:
    """Plans have no state, except plans in progress here."""
    entity = Tables(reading(prefix)).find_any(*path_of(prefix, namespace, table))
    if isinstance(entity, Table):
        services().delta_scans.check_plan_id(entity, plan_id)
        services().plan_runs.cancel(plan_id)


def _run(entity: Table, plan_id: str) -> PlannedPage | None:
    """The plan of a Delta table's scan; None: it is under way."""
    here = services()
    here.delta_scans.check_plan_id(entity, plan_id)
    return here.plan_runs.result(plan_id, lambda: here.delta_scans.result(entity, plan_id))


def _asks_again() -> bool:
    """Whether the client is known to understand plans that are under way: Iceberg's Java library
    is, PyIceberg 0.12 is not."""
    return current().headers.get("x-client-version", "").startswith("Apache Iceberg")


@routes.route(TABLE + "/tasks", methods=["POST"])
@needs((read_table, table_of_path))
def fetch_tasks(prefix: str, namespace: str, table: str) -> dict[str, Any]:
    task = body(FetchTasks).plan_task
    tables = Tables(reading(prefix))
    entity = tables.find_any(*path_of(prefix, namespace, table))
    if isinstance(entity, Table):
        page = services().delta_scans.resume(entity, task)
    else:
        metadata = tables.open(entity).metadata
        page = services().table_scans.resume(entity, metadata, _roots(entity), task)
    note(files=len(page.tasks.file_scan_tasks))
    return responses.scan_tasks(page)


def _roots(table: IcebergTable) -> list[str]:
    """The locations with manifests that may be read for the principal: the table's, and for a clone
    its readable sources' (I12)."""
    sources = [held for held in table.needs if services().source_rights.may_read(current().principal, held)]
    return [table.location, *(held.location for held in sources)]
