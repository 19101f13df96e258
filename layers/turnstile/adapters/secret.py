"""The secrets of a process: members of secrets in AWS Secrets Manager or Systems Manager's
Parameter Store, whose ARNs are in the environment, else variables of the environment, as a server
has them (ADR 56).

The value of a secret is a JSON object. It is read when a process starts, and again when it is five
minutes old or an unknown token comes, so that another value needs no deployment.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Final

import msgspec

from turnstile.adapters.clients import read_secret
from turnstile.adapters.machine import SystemClock
from turnstile.store.core.errors import StorageFault
from turnstile.store.ports import Clock

_LOGGER: Final = logging.getLogger(__name__)

TOKENS: Final = "TURNSTILE_SECRET"
LAKE: Final = "TURNSTILE_LAKE_SECRET"
MEMBERS: Final = {
    TOKENS: {"TURNSTILE_TOKEN": "token", "TURNSTILE_TOKEN_KEYS": "token_keys"},
    LAKE: {
        "TURNSTILE_S3_ACCESS_KEY_ID": "s3_access_key_id",
        "TURNSTILE_S3_SECRET_ACCESS_KEY": "s3_secret_access_key",
        "TURNSTILE_S3_SESSION_TOKEN": "s3_session_token",
    },
}
"""For each variable that names a secret: the members of that secret, by the variables that they
stand for. Two secrets, for most functions need no more than the keys of the lake."""

FRESH_MS: Final = 300_000
"""A value of this age is read again before it is used: so a removed token stops working after that
time."""
USABLE_MS: Final = 3_600_000
"""How long a cached value is used when it cannot be refreshed."""
AGAIN_MS: Final = 10_000
"""Minimum time between refreshes, so that wrong tokens cannot cause a read each."""


class Secret:
    """The members of one secret, of these ``names``. ``read`` gets its text from the store, or
    raises."""

    def __init__(self, read: Callable[[], str], clock: Clock, names: Collection[str]) -> None:
        self._read = read
        self._clock = clock
        self._names = names
        self._members: Mapping[str, str] = {}
        self._read_ms = self._tried_ms = -USABLE_MS

    def members(self) -> Mapping[str, str]:
        """The members: the same object while nothing has changed. Raises StorageFault when they
        were not read for too long."""
        now = self._clock.now_ms()
        if not 0 <= now - self._read_ms < FRESH_MS:
            self.renew()
        if now - self._read_ms >= USABLE_MS:
            raise StorageFault(
                f"a secret of this deployment cannot be read, or is not a JSON object of {', '.join(self._names)}",
                remedy="see the function's log; it needs the right to read the secret (docs/security.md)",
            )
        return self._members

    def renew(self) -> None:
        """Reads the secret, unless that was tried just now. A value that cannot be read, or has
        another form, changes nothing."""
        now = self._clock.now_ms()
        if 0 <= now - self._tried_ms < AGAIN_MS:
            return
        self._tried_ms = now
        try:
            members = msgspec.json.decode(self._read(), type=dict[str, str])
        except Exception:
            _LOGGER.warning("the secret could not be read; its last value stays in use", exc_info=True)
            return
        unknown = sorted(set(members) - set(self._names))
        if unknown:
            _LOGGER.warning("the secret has unknown members, and is not used", extra={"members": unknown})
            return
        self._read_ms = now
        if members != self._members:
            self._members = members


def text(variable: str) -> str:
    """The secret that ``variable`` names, one of ``MEMBERS``; empty where there is none. Raises as
    ``Secret.members``."""
    named = TOKENS if variable in MEMBERS[TOKENS] else LAKE
    kept = deployed_secret(named)
    return os.environ.get(variable, "") if kept is None else kept.members().get(MEMBERS[named][variable], "")


def deployed_secret(named: str = TOKENS) -> Secret | None:
    """The secret whose ARN is in this variable; None if there is none, and secrets are in the
    environment."""
    arn = os.environ.get(named, "")
    return _secret(named, arn) if arn else None


@cache
def _secret(named: str, arn: str) -> Secret:
    return Secret(lambda: read_secret(arn), SystemClock(), MEMBERS[named].values())
