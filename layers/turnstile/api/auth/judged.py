"""The judgement of a token, and what a judge of tokens is."""

from __future__ import annotations

from typing import Protocol

import msgspec

from turnstile.access.core.principal import Principal
from turnstile.store.core.errors import NotAuthenticated


class Judged(msgspec.Struct, frozen=True):
    """An accepted token.

    Attributes:
        principal: whose it is.
        until: seconds since the epoch when it ends, the leeway for clocks included; None: it does not end.
    """

    principal: Principal
    until: int | None = None


class Judge(Protocol):
    """Judges tokens of some kinds."""

    def judge(self, token: str) -> Judged:
        """The token's principal.

        Raises:
            NotAuthenticated: it is not accepted; the message says why.
            AuthenticationUnavailable: whether it is accepted could not be found out.
        """


def invalid(why: str) -> NotAuthenticated:
    """The refusal of a token that was sent; ``why`` completes "the bearer token is not accepted: "."""
    return NotAuthenticated(
        f"the bearer token is not accepted: {why}", field="Authorization", remedy="get a new token and send that"
    )
