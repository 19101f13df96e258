"""Who asks. Authentication makes one per request; access control (I12) judges it; neither knows the other."""

from __future__ import annotations

from typing import Final

import msgspec


class Principal(msgspec.Struct, frozen=True):
    """A user or a service.

    Attributes:
        name: what grants and ownership name: an OIDC subject or e-mail, or a client's id.
        roles: names of the groups and roles it is in; a grant to one of them is a grant to it.
        admin: owner of everything in the realm: an operator.
    """

    name: str
    roles: frozenset[str] = frozenset()
    admin: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Every name under which something may have been granted."""
        return self.roles | {self.name}


OPERATOR: Final = Principal("operator", admin=True)
"""Whoever holds the static token, and everybody on a stack that is open because only this machine reaches it."""

ANONYMOUS: Final = Principal("anonymous")
"""Whoever asks for a token and has none yet. Nothing is granted to it."""

CLIENT_PREFIX: Final = "client-"
"""What ids of registered clients begin with."""


def reserved(name: str) -> bool:
    """Whether only Turnstile itself gives this name; an issuer that gave it would make one principal another (I12)."""
    return name in (OPERATOR.name, ANONYMOUS.name) or name.startswith(CLIENT_PREFIX)
