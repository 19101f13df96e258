"""What this function reads from its environment (template.yaml names the variables)."""

from __future__ import annotations

import msgspec

from turnstile.adapters.vending import Keys
from turnstile.core.gc_plan import HOUR_MS, Grace
from turnstile_http import settings as env


class Settings(msgspec.Struct, frozen=True):
    """Names of the two tables, the tenant, where managed tables live, how long garbage stays, and what clients get
    keys from: a role to narrow, or static ones."""

    refs_table: str
    objs_table: str
    realm: str
    lake_root: str
    grace: Grace
    vending_role: str = ""
    keys: Keys | None = None


def read() -> Settings:
    """The settings.

    Raises:
        BadSetting: a variable is missing; the message names it.
    """
    return Settings(
        refs_table=env.text("TURNSTILE_REFS_TABLE"),
        objs_table=env.text("TURNSTILE_OBJS_TABLE"),
        realm=env.text("TURNSTILE_REALM", "default"),
        lake_root=env.text("TURNSTILE_LAKE_ROOT"),
        grace=Grace(
            staged=_hours("TURNSTILE_STAGED_GRACE_HOURS", 24),
            staging=_hours("TURNSTILE_STAGING_GRACE_HOURS", 24),
            dropped=_hours("TURNSTILE_DROP_GRACE_HOURS", 168),
            history=_hours("TURNSTILE_HISTORY_HOURS", 168, 3),
        ),
        vending_role=env.text("TURNSTILE_VENDING_ROLE", ""),
        keys=_keys(),
    )


def _keys() -> Keys | None:
    """Static keys, if there are any: for S3-compatible stores without STS."""
    id = env.text("TURNSTILE_S3_ACCESS_KEY_ID", "")
    if not id:
        return None
    return Keys(
        id=id, secret=env.text("TURNSTILE_S3_SECRET_ACCESS_KEY"), token=env.text("TURNSTILE_S3_SESSION_TOKEN", "")
    )


def _hours(name: str, default: int, least: int = 0) -> int:
    return env.integer(name, default, least, 24 * 3650) * HOUR_MS


def in_lambda() -> bool:
    """Whether the function runs deployed: then everything is opened at the cold start, and a bad setting shows."""
    return bool(env.text("AWS_LAMBDA_FUNCTION_NAME", ""))
