"""What this function reads from its environment (template.yaml names the variables)."""

from __future__ import annotations

import msgspec

from turnstile.api.http import env
from turnstile.api.http import settings as shared
from turnstile.store.core.limits import ROW_BUDGET, Limits


class Settings(msgspec.Struct, frozen=True):
    """Where everything is kept; the limits of catalogs, and of what a table's row may carry that is not published."""

    stores: shared.Stores
    limits: Limits


def read() -> Settings:
    """The settings.

    Raises:
        BadSetting: a variable is missing or has the wrong form; the message names it.
    """
    backlog = env.integer("TURNSTILE_BACKLOG_BYTES", ROW_BUDGET, 4_000, ROW_BUDGET)
    return Settings(shared.stores(), msgspec.structs.replace(shared.limits(), backlog_bytes=backlog))
