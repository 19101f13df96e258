"""Request bodies and answers of the clients' operations. Unknown members are refused."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from turnstile.access.core.client_rows import Client


class NewClient(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /v1/clients``."""

    name: str
    roles: list[str] = []
    admin: bool = False


class Rotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /v1/clients/{client_id}/rotate``; ``keep_seconds`` that the present secret still counts."""

    keep_seconds: int = 0


class ClientAnswer(msgspec.Struct, frozen=True):
    """A client; ``client_secret`` only where it was just made."""

    client_id: str
    name: str
    roles: list[str]
    admin: bool
    creator: str
    created: int
    changed: int
    former_until: int | UnsetType = UNSET
    client_secret: str | UnsetType = UNSET


class ClientList(msgspec.Struct, frozen=True):
    """``GET /v1/clients``."""

    clients: list[ClientAnswer]


def told(client: Client, secret: str | UnsetType = UNSET) -> ClientAnswer:
    """A client as the API tells it; never its hashes."""
    return ClientAnswer(
        client_id=client.client_id,
        name=client.name,
        roles=sorted(client.roles),
        admin=client.admin,
        creator=client.creator,
        created=client.created,
        changed=client.changed_at,
        former_until=client.former_until if client.former else UNSET,
        client_secret=secret,
    )
