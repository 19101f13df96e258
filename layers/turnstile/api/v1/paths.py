"""Paths of the API, and what they are about."""

from __future__ import annotations

from typing import Final

import msgspec

from turnstile.access.authorizer import Target
from turnstile.api.http.authorization import Params
from turnstile.store.core.names import check_identifier, check_namespace, check_uuid

CATALOG: Final = "/v1/catalogs/{catalog}"
NAMESPACE: Final = CATALOG + "/namespaces/{namespace}"
TABLE: Final = NAMESPACE + "/tables/{table}"
TABLE_BY_ID: Final = "/v1/tables/{table_id}"


def catalog_of_path(params: Params) -> Target:
    """Returns the catalog of ``CATALOG``. All of these raise InvalidRequest for a name that can be none."""
    return Target(check_identifier(params["catalog"], "catalog"))


def namespace_of_path(params: Params) -> Target:
    """Returns the namespace of ``NAMESPACE``."""
    return Target(check_identifier(params["catalog"], "catalog"), check_namespace(params["namespace"]))


def table_of_path(params: Params) -> Target:
    """Returns the table of ``TABLE``."""
    return msgspec.structs.replace(namespace_of_path(params), table=check_identifier(params["table"], "table"))


def uuid_of_path(params: Params) -> str:
    """Returns the uuid of ``TABLE_BY_ID``."""
    return check_uuid(params["table_id"])
