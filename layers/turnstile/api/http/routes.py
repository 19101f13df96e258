"""Which function serves which route. Tests hold the apps, template.yaml and openapi/v1.yaml to these."""

from __future__ import annotations

from typing import Final

_UNITY: Final = "/api/2.1/unity-catalog"
_TABLES: Final = "/v1/catalogs/{catalog}/namespaces/{namespace}/tables"

COMMIT: Final[dict[str, tuple[str, ...]]] = {
    "/v1": ("GET",),
    "/v1/tables/{table_id}/commits": ("GET", "POST"),
    "/v1/tables/{table_id}/head": ("GET",),
    "/v1/tables/{table_id}/outcome": ("GET",),
    f"{_TABLES}/{{table}}": ("GET",),
    f"{_UNITY}/delta/preview/commits": ("GET", "POST"),
    f"{_UNITY}/delta/v1/config": ("GET",),
    f"{_UNITY}/delta/v1/catalogs/{{catalog}}/schemas/{{schema}}/tables/{{table}}": ("GET", "HEAD", "POST"),
}

TOKENS: Final[dict[str, tuple[str, ...]]] = {
    "/v1/clients": ("GET", "POST"),
    "/v1/clients/{client_id}": ("DELETE", "GET"),
    "/v1/clients/{client_id}/rotate": ("POST",),
    "/oauth/token": ("POST",),
    "/api/1.0/unity-control/auth/tokens": ("POST",),
}
