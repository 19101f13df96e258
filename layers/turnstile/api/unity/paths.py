"""Paths of the Delta API, and what they are about."""

from __future__ import annotations

from typing import Final

from turnstile.access.authorizer import Target
from turnstile.api.http.authorization import Params
from turnstile.api.unity import naming
from turnstile.api.unity.errors import DELTA

SCHEMA: Final = DELTA + "/catalogs/{catalog}/schemas/{schema}"
TABLE: Final = SCHEMA + "/tables/{table}"


def schema_of_path(params: Params) -> Target:
    """Returns the schema of ``SCHEMA``; raises as ``naming.find_schema``."""
    return Target(*naming.find_schema(params["catalog"], params["schema"]))


def table_of_path(params: Params) -> Target:
    """Returns the table of ``TABLE``; raises as ``naming.find_table``."""
    return Target(*naming.find_table(params["catalog"], params["schema"], params["table"]))
