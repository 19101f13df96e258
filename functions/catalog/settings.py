"""What this function reads from its environment (template.yaml names the variables)."""

from __future__ import annotations

import msgspec

from turnstile.api.http import settings as shared
from turnstile.gc.core import Grace
from turnstile.store.core.limits import Limits


class Settings(msgspec.Struct, frozen=True):
    """Where everything is kept, where managed tables live, how long garbage stays, the limits of catalogs, and what
    clients get keys from."""

    stores: shared.Stores
    lake_root: str
    grace: Grace
    limits: Limits
    vending: shared.Vending


def read() -> Settings:
    """The settings.

    Raises:
        BadSetting: a variable is missing or has the wrong form; the message names it.
    """
    return Settings(
        stores=shared.stores(),
        lake_root=shared.lake_root(),
        grace=shared.grace(),
        limits=shared.limits(),
        vending=shared.vending(),
    )
