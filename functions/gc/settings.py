"""What this function reads from its environment (template.yaml names the variables)."""

from __future__ import annotations

import os

import msgspec

from turnstile.core.gc_plan import HOUR_MS, Grace
from turnstile.services.faults import Faults, faults_from
from turnstile_http import settings as env

_YEARS = 10 * 366 * 24


class Settings(msgspec.Struct, frozen=True):
    """``table_ms`` longest turn of one table in a sweep; ``workers`` tables, or files, handled at once."""

    refs_table: str
    objs_table: str
    realm: str
    table_ms: int
    workers: int
    grace: Grace


def read() -> Settings:
    """The settings.

    Raises:
        BadSetting: a variable is missing or has the wrong form; the message names it.
    """
    return Settings(
        refs_table=env.text("TURNSTILE_REFS_TABLE"),
        objs_table=env.text("TURNSTILE_OBJS_TABLE"),
        realm=env.text("TURNSTILE_REALM", "default"),
        table_ms=1000 * env.integer("TURNSTILE_SWEEP_TABLE_SECONDS", 60, 1, 600),
        workers=env.integer("TURNSTILE_GC_WORKERS", 8, 1, 32),
        grace=Grace(
            staged=HOUR_MS * env.integer("TURNSTILE_STAGED_GRACE_HOURS", 24, 1, _YEARS),
            staging=HOUR_MS * env.integer("TURNSTILE_STAGING_GRACE_HOURS", 24, 1, _YEARS),
            dropped=HOUR_MS * env.integer("TURNSTILE_DROP_GRACE_HOURS", 168, 1, _YEARS),
            history=HOUR_MS * env.integer("TURNSTILE_HISTORY_HOURS", 168, 3, _YEARS),
        ),
    )


def faults() -> Faults:
    """Where this process is to die: TURNSTILE_FAULT_POINT, a test facility that is off unless it is set."""
    return faults_from(os.environ)


def in_lambda() -> bool:
    """Whether the function runs deployed: then everything is opened at the cold start, and a bad setting shows."""
    return bool(env.text("AWS_LAMBDA_FUNCTION_NAME", ""))
