"""Who may call what, on the hot path: the declarations that views carry (I12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import wiring

from turnstile.access.authorizer import Target
from turnstile.api.http.request import Query, current
from turnstile.api.http.rights import Rights
from turnstile.api.unity import naming
from turnstile.store.core.names import check_identifier, check_namespace, check_uuid

__all__ = ["catalog_of_query", "rights", "table_of_path", "unity_table_of_path", "uuid_of_path"]

rights = Rights(lambda: wiring.opened().judges)


def table_of_path(params: Mapping[str, Any]) -> Target:
    """``/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}``."""
    return Target(
        check_identifier(params["catalog"], "catalog"),
        check_namespace(params["namespace"]),
        check_identifier(params["table"], "table"),
    )


def unity_table_of_path(params: Mapping[str, Any]) -> Target:
    """``.../catalogs/{catalog}/schemas/{schema}/tables/{table}``."""
    return Target(*naming.find_table(params["catalog"], params["schema"], params["table"]))


def uuid_of_path(params: Mapping[str, Any]) -> str:
    """``/v1/tables/{table_id}``."""
    return check_uuid(params["table_id"])


def catalog_of_query(_params: Mapping[str, Any]) -> Target:
    """The catalog that the query names; what is wrong with it, the view says."""
    name = Query(*current().query).text("catalog")
    return Target(naming.find_catalog(name or ""))
