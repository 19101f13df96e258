"""Policies of maintenance over HTTP: the effective values of a catalog, a namespace or a table, and
their sources (docs/maintenance.md).

They are properties, ``turnstile.maintenance.<name>``, which engines and the other routes show and
set as well. Here they are named without the prefix, and checked. A table's policies are stored
beside its log, without a commit; a property in the log itself wins.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from chalice.app import Blueprint

from turnstile.api.http.authorization import needs
from turnstile.api.http.request import Query, body, note
from turnstile.api.services import services
from turnstile.api.v1.changes import once
from turnstile.api.v1.paths import (
    CATALOG,
    NAMESPACE,
    TABLE,
    catalog_of_path,
    namespace_names,
    namespace_of_path,
    table_names,
    table_of_path,
)
from turnstile.catalog.core.entities import without_head
from turnstile.catalog.core.policies import PREFIX, EffectivePolicy, Level, check_policies, policy_of
from turnstile.catalog.core.tree import REALM_TREE
from turnstile.catalog.describe import Describer
from turnstile.catalog.load import RegisteredTable
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.maintenance.runs import MaintenanceRuns
from turnstile.rights.rules import edit_catalog, edit_schema, modify_table, see_schema, see_table, use_catalog
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.names import check_identifier

routes = Blueprint(__name__)

_POLICY = "/maintenance-policy"


class PolicyChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``PATCH .../maintenance-policy``: values by name, without ``turnstile.maintenance.``."""

    set: dict[str, str] = {}
    unset: list[str] = []

    def validate(self) -> tuple[dict[str, str], list[str]]:
        """Returns the properties to set and to unset, by full names; raises InvalidRequest."""
        both = sorted({*self.set} & {*self.unset})
        if both:
            raise InvalidRequest(f"policy {both[0][:100]!r} is both set and unset", field="unset", remedy="choose one")
        properties = {PREFIX + name: value for name, value in self.set.items()}
        check_policies(properties)
        return properties, [PREFIX + name for name in self.unset]


class ShownValue(msgspec.Struct, frozen=True):
    """An effective value; ``set_on`` names the entity that has it, empty for a default."""

    name: str
    value: str
    source: Literal["default", "catalog", "namespace", "table"]
    set_on: str


class IgnoredValue(msgspec.Struct, frozen=True):
    """A property that was passed over."""

    property: str
    value: str
    source: Literal["default", "catalog", "namespace", "table"]
    set_on: str
    problem: str


class PolicyResponse(msgspec.Struct, frozen=True):
    """The effective values of ``name``; ``ignored``: properties that are set and cannot be read."""

    name: str
    policy: list[ShownValue]
    ignored: list[IgnoredValue]


def shown_values(effective: EffectivePolicy) -> tuple[list[ShownValue], list[IgnoredValue]]:
    """Returns a policy as answers have it."""
    values = [ShownValue(each.name, each.value, each.source, each.set_on) for each in effective.values]
    ignored = [
        IgnoredValue(each.name[:200], each.value[:200], each.source, each.set_on, each.problem)
        for each in effective.ignored[:100]
    ]
    return values, ignored


@routes.route(CATALOG + _POLICY, methods=["GET"])
@needs((use_catalog, catalog_of_path), first=True)
def catalog_policy(catalog: str) -> PolicyResponse:
    Query()
    return _of_catalog(catalog)


@routes.route(CATALOG + _POLICY, methods=["PATCH"])
@needs((edit_catalog, catalog_of_path), first=True)
def change_catalog_policy(catalog: str) -> PolicyResponse:
    properties, unset = body(PolicyChange).validate()
    once(REALM_TREE, lambda by: by.catalogs.update(catalog, set=properties, unset=unset), lambda *_: None)
    return _of_catalog(catalog)


@routes.route(NAMESPACE + _POLICY, methods=["GET"])
@needs((see_schema, namespace_of_path), first=True)
def namespace_policy(catalog: str, namespace: str) -> PolicyResponse:
    Query()
    return _of_namespace(catalog, namespace)


@routes.route(NAMESPACE + _POLICY, methods=["PATCH"])
@needs((edit_schema, namespace_of_path), first=True)
def change_namespace_policy(catalog: str, namespace: str) -> PolicyResponse:
    properties, unset = body(PolicyChange).validate()
    of, path = namespace_names(catalog, namespace)
    once(of, lambda by: by.namespaces.update(of, path, set=properties, unset=unset), lambda *_: None)
    return _of_namespace(catalog, namespace)


@routes.route(TABLE + _POLICY, methods=["GET"])
@needs((see_table, table_of_path))
def table_policy(catalog: str, namespace: str, table: str) -> PolicyResponse:
    Query()
    return _of_table(_delta_table(catalog, namespace, table))


@routes.route(TABLE + _POLICY, methods=["PATCH"])
@needs((modify_table, table_of_path))
def change_table_policy(catalog: str, namespace: str, table: str) -> PolicyResponse:
    properties, unset = body(PolicyChange).validate()
    head = _delta_table(catalog, namespace, table)
    note(table_id=head.table_id)

    def change(_: str, before: DeltaMetadata) -> DeltaMetadata:
        logged = before.metadata.get("configuration") or {}
        for name in (*properties, *unset):
            if logged.get(name, properties.get(name)) != properties.get(name):
                raise InvalidRequest(
                    f"property {name!r} is set in the table's log, which takes precedence",
                    field=f"properties.{name}",
                    remedy="change it with ALTER TABLE ... SET or UNSET TBLPROPERTIES",
                )
        kept = {name: value for name, value in before.beside.properties.items() if name not in unset}
        beside = kept | {name: value for name, value in properties.items() if name not in logged}
        if beside == before.beside.properties:
            return before
        now_ms = services().world.clock.now_ms()
        changed = msgspec.structs.replace(before.beside, properties=beside, etag="", updated=now_ms)
        return msgspec.structs.replace(before, beside=changed)

    return _of_table(Describer(services().world, services().metadata).describe(head, change))


def _runs() -> MaintenanceRuns:
    return services().maintenance_runs


def _of_catalog(catalog: str) -> PolicyResponse:
    name = services().catalog.catalogs.get(check_identifier(catalog, "catalog")).name
    return _response(name, _runs().levels(name, ()))


def _of_namespace(catalog: str, namespace: str) -> PolicyResponse:
    of, path = namespace_names(catalog, namespace)
    services().catalog.namespaces.get(of, path)
    levels = _runs().levels(of, path)
    return _response(levels[-1].name, levels)


def _of_table(head: TableHead) -> PolicyResponse:
    values, ignored = shown_values(_runs().policy(head))
    return PolicyResponse(head.name, values, ignored)


def _response(name: str, levels: list[Level]) -> PolicyResponse:
    values, ignored = shown_values(policy_of(levels))
    return PolicyResponse(name, values, ignored)


def _delta_table(catalog: str, namespace: str, table: str) -> TableHead:
    table_head = services().loader.find(*table_names(catalog, namespace, table))
    if isinstance(table_head, RegisteredTable):
        raise without_head(table_head.table, "maintain it with the engine that writes it")
    return table_head
