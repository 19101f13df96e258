"""Scans of tables, planned by the catalog (REST specification, ``planTableScan`` and ``fetchScanTasks``).

Plans name partitions by their values and files by their paths, so they are for those who may read the table. A plan is complete when it
is answered, and nothing is held for it (ADR 44): there is nothing to wait for, and nothing to cancel.
"""

from __future__ import annotations

from typing import Any

import msgspec
from chalice.app import Blueprint

from turnstile.access.core.rules import read_table
from turnstile.api.http.authorization import guard, needs
from turnstile.api.http.request import note
from turnstile.api.iceberg import responses
from turnstile.api.iceberg.context import body, reading
from turnstile.api.iceberg.tables import TABLE, delegated, path_of, table_of_path
from turnstile.api.services import services
from turnstile.catalog.core.entities import Table
from turnstile.iceberg.delta_scans import NotPlanned, PlanRequest
from turnstile.iceberg.tables import Tables

routes = Blueprint(__name__)


class FetchTasks(msgspec.Struct, frozen=True, rename="kebab"):
    """A plan task whose tasks are wanted."""

    plan_task: str


@routes.route(TABLE + "/plan", methods=["POST"])
@needs((read_table, table_of_path))
def plan_scan(prefix: str, namespace: str, table: str) -> dict[str, Any]:
    request, entity = body(PlanRequest), _entity(prefix, namespace, table)
    page = services().delta_scans.plan(entity, request)
    note(files=len(page.tasks.file_scan_tasks))
    plan_id = f"{entity.table_id}.{page.version}"
    return responses.planned(page, plan_id, delegated(entity, prefix, namespace, guard()))


@routes.route(TABLE + "/tasks", methods=["POST"])
@needs((read_table, table_of_path))
def fetch_tasks(prefix: str, namespace: str, table: str) -> dict[str, Any]:
    page = services().delta_scans.resume(_entity(prefix, namespace, table), body(FetchTasks).plan_task)
    note(files=len(page.tasks.file_scan_tasks))
    return responses.scan_tasks(page)


def _entity(prefix: str, namespace: str, table: str) -> Table:
    entity = Tables(reading(prefix)).find_any(*path_of(prefix, namespace, table))
    if not isinstance(entity, Table):
        problem = f"scans of the Iceberg table '{entity.name}' are planned by its readers"
        raise NotPlanned(problem, field="table", remedy="load the table, and read its manifests")
    return entity
