"""What this function reads from its environment (template.yaml names the variables)."""

from __future__ import annotations

import msgspec

from turnstile_http import settings as env


class Settings(msgspec.Struct, frozen=True):
    """Names of the two tables and the tenant."""

    refs_table: str
    objs_table: str
    realm: str


def read() -> Settings:
    """The settings.

    Raises:
        BadSetting: a variable is missing; the message names it.
    """
    return Settings(
        refs_table=env.text("TURNSTILE_REFS_TABLE"),
        objs_table=env.text("TURNSTILE_OBJS_TABLE"),
        realm=env.text("TURNSTILE_REALM", "default"),
    )


def in_lambda() -> bool:
    """Whether the function runs deployed: then everything is opened at the cold start, and a bad setting shows."""
    return bool(env.text("AWS_LAMBDA_FUNCTION_NAME", ""))
