"""Which version of the Delta API is spoken, and which of its operations are served."""

from __future__ import annotations

import re
from typing import Final

from turnstile.api.unity.answers import Answer
from turnstile.store.core.errors import InvalidRequest

VERSION: Final = "1.0"
_TABLES: Final = "/v1/catalogs/{catalog}/schemas/{schema}/tables"
_TABLE: Final = _TABLES + "/{table}"

ENDPOINTS: Final = (
    "POST /v1/catalogs/{catalog}/schemas/{schema}/staging-tables",
    f"POST {_TABLES}",
    f"GET {_TABLE}",
    f"POST {_TABLE}",
    f"DELETE {_TABLE}",
    f"HEAD {_TABLE}",
    f"POST {_TABLE}/rename",
    f"GET {_TABLE}/credentials",
    f"POST {_TABLE}/metrics",
    "GET /v1/staging-tables/{table_id}/credentials",
    "GET /v1/temporary-path-credentials",
)
"""All that are served, and nothing else."""

_LIST: Final = re.compile(r"\s*\d{1,6}\.\d{1,6}\s*(,\s*\d{1,6}\.\d{1,6}\s*)*", re.ASCII)


class Config(Answer, frozen=True):
    """What this server speaks."""

    endpoints: tuple[str, ...]
    protocol_version: str


def negotiate(versions: str | None) -> Config:
    """The configuration for a client that speaks ``versions``: for each major version its highest minor one.

    Raises:
        InvalidRequest: none in common, or not a list of versions.
    """
    if not versions or not _LIST.fullmatch(versions):
        raise InvalidRequest(
            f"protocol-versions must be a list like 1.0,2.3; supported: {VERSION}", field="protocol-versions"
        )
    majors = {int(one.strip().partition(".")[0]) for one in versions.split(",")}
    if 1 not in majors:
        raise InvalidRequest(f"no version in common; supported: {VERSION}", field="protocol-versions")
    return Config(ENDPOINTS, VERSION)
