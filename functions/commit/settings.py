"""What this function reads from its environment (template.yaml names the variables)."""

from __future__ import annotations

import msgspec

from turnstile.core.head import ROW_BUDGET
from turnstile_http import settings as env


class Settings(msgspec.Struct, frozen=True):
    """Names of the two tables and the tenant; bytes of unpublished commits that a table's row may carry."""

    refs_table: str
    objs_table: str
    realm: str
    backlog_bytes: int


def read() -> Settings:
    """The settings.

    Raises:
        BadSetting: a variable is missing or has the wrong form; the message names it.
    """
    return Settings(
        refs_table=env.text("TURNSTILE_REFS_TABLE"),
        objs_table=env.text("TURNSTILE_OBJS_TABLE"),
        realm=env.text("TURNSTILE_REALM", "default"),
        backlog_bytes=env.integer("TURNSTILE_BACKLOG_BYTES", ROW_BUDGET, 4_000, ROW_BUDGET),
    )


def in_lambda() -> bool:
    """Whether the function runs deployed: then everything is opened at the cold start, and a bad setting shows."""
    return bool(env.text("AWS_LAMBDA_FUNCTION_NAME", ""))
