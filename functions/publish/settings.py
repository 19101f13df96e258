"""What this function reads from its environment (template.yaml names the variables)."""

from __future__ import annotations

import os

import msgspec

from turnstile.services.faults import Faults, faults_from
from turnstile_http import settings as env


class Settings(msgspec.Struct, frozen=True):
    """``table_ms`` longest turn of one table in a batch; ``workers`` tables published at once."""

    refs_table: str
    objs_table: str
    realm: str
    table_ms: int
    workers: int


def read() -> Settings:
    """The settings.

    Raises:
        BadSetting: a variable is missing or has the wrong form; the message names it.
    """
    return Settings(
        refs_table=env.text("TURNSTILE_REFS_TABLE"),
        objs_table=env.text("TURNSTILE_OBJS_TABLE"),
        realm=env.text("TURNSTILE_REALM", "default"),
        table_ms=1000 * env.integer("TURNSTILE_PUBLISH_TABLE_SECONDS", 20, 1, 600),
        workers=env.integer("TURNSTILE_PUBLISH_WORKERS", 8, 1, 32),
    )


def faults() -> Faults:
    """Where this process is to die: TURNSTILE_FAULT_POINT, a test facility that is off unless it is set."""
    return faults_from(os.environ)


def in_lambda() -> bool:
    """Whether the function runs deployed: then everything is opened at the cold start, and a bad setting shows."""
    return bool(env.text("AWS_LAMBDA_FUNCTION_NAME", ""))
