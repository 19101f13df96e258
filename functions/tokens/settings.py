"""What this function reads from its environment (template.yaml names the variables)."""

from __future__ import annotations

import msgspec

from turnstile.api.http import settings as shared


class Settings(msgspec.Struct, frozen=True):
    """Where everything is kept."""

    stores: shared.Stores


def read() -> Settings:
    """The settings.

    Raises:
        BadSetting: a variable is missing; the message names it.
    """
    return Settings(shared.stores())
