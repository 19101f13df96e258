"""What this function reads from its environment (template.yaml names the variables)."""

from __future__ import annotations

import msgspec

from turnstile.api.http import env
from turnstile.api.http import settings as shared
from turnstile.gc.core import Grace


class Settings(msgspec.Struct, frozen=True):
    """``table_ms`` longest turn of one table in a sweep; ``workers`` tables, or files, handled at once."""

    stores: shared.Stores
    table_ms: int
    workers: int
    grace: Grace


def read() -> Settings:
    """The settings.

    Raises:
        BadSetting: a variable is missing or has the wrong form; the message names it.
    """
    return Settings(
        stores=shared.stores(),
        table_ms=1000 * env.integer("TURNSTILE_SWEEP_TABLE_SECONDS", 60, 1, 600),
        workers=env.integer("TURNSTILE_GC_WORKERS", 8, 1, 32),
        grace=shared.grace(),
    )
