"""Paths of the API, and the subjects of their parameters."""

from __future__ import annotations

from typing import Final

from turnstile.access.authorizer import Target
from turnstile.api.http.authorization import Params
from turnstile.catalog.core.paths import Path
from turnstile.store.core.names import check_identifier, check_namespace, check_uuid

CATALOG: Final = "/v1/catalogs/{catalog}"
NAMESPACE: Final = CATALOG + "/namespaces/{namespace}"
TABLE: Final = NAMESPACE + "/tables/{table}"
TABLE_BY_ID: Final = "/v1/tables/{table_id}"


def namespace_names(catalog: str, namespace: str) -> tuple[str, Path]:
    """Returns the names of a path; all of these raise InvalidRequest for a name that can be
    none."""
    return check_identifier(catalog, "catalog"), check_namespace(namespace)


def table_names(catalog: str, namespace: str, table: str) -> tuple[str, Path, str]:
    """Returns the names of a path."""
    return *namespace_names(catalog, namespace), check_identifier(table, "table")


def catalog_of_path(params: Params) -> Target:
    """Returns the catalog of ``CATALOG``."""
    return Target(check_identifier(params["catalog"], "catalog"))


def namespace_of_path(params: Params) -> Target:
    """Returns the namespace of ``NAMESPACE``."""
    return Target(*namespace_names(params["catalog"], params["namespace"]))


def table_of_path(params: Params) -> Target:
    """Returns the table of ``TABLE``."""
    return Target(*table_names(params["catalog"], params["namespace"], params["table"]))


def uuid_of_path(params: Params) -> str:
    """Returns the uuid of ``TABLE_BY_ID``."""
    return check_uuid(params["table_id"])
