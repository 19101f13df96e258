"""The services of this sandbox, built once from one world."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import settings

from turnstile.access.clients import Clients
from turnstile.api.auth.settings import read
from turnstile.api.auth.signed import SignedTokens, from_settings
from turnstile.store.ports import World


@dataclass(frozen=True, slots=True)
class Services:
    """The registered clients, and what issues and judges signed tokens."""

    clients: Clients
    signed: SignedTokens


_auth = read()
_signed = SignedTokens(None, None) if _auth is None else from_settings(_auth)
_built: list[Services] = []


def use_world(world: World) -> Services:
    """Build the services on ``world``; tests pass fakes here and then call the real handler."""
    made = Services(Clients(world, secrets.token_bytes), _signed)
    _built[:] = [made]
    return made


def services() -> Services:
    """The services, opened at first use."""
    if not _built:
        use_world(settings.read().stores.open())
    return _built[0]
