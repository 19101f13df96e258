"""What this function reads from its environment (template.yaml names the variables)."""

from __future__ import annotations

from turnstile.api.auth.bearer import Bearer, bearer
from turnstile.api.auth.settings import read
from turnstile.api.http import env


def judge() -> Bearer:
    """The judge of bearer tokens.

    Raises:
        BadSetting: none is accepted, or a variable has the wrong form; the message names it.
    """
    found = read()
    if found is None:
        raise env.BadSetting("TURNSTILE_AUTHENTICATION is none: there is nothing to judge")
    return bearer(found)
