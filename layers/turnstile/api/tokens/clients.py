"""Clients that get tokens: for administrators."""

from __future__ import annotations

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType

from turnstile.access.clients import ClientWithSecret
from turnstile.access.core.client_rows import Client
from turnstile.api.http.request import Query, body, current
from turnstile.api.http.responses import Answer
from turnstile.api.services import open_services
from turnstile.store.core.errors import PermissionDenied
from turnstile.store.ports import DamagedRow

routes = Blueprint(__name__)


class NewClient(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /v1/clients``."""

    name: str
    roles: list[str] = []
    admin: bool = False


class Rotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``POST /v1/clients/{client_id}/rotate``; the present secret still counts for
    ``keep_seconds``."""

    keep_seconds: int = 0


class ClientResponse(msgspec.Struct, frozen=True):
    """A client; ``client_secret`` only where it was just created."""

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
    """``GET /v1/clients``; ``unreadable``: clients with damaged rows."""

    clients: list[ClientResponse]
    unreadable: list[DamagedRow] | UnsetType = UNSET


@routes.route("/v1/clients", methods=["GET"])
def list_clients() -> ClientList:
    _check_admin()
    Query()
    clients, damaged = open_services().clients.list()
    return ClientList([_response(client) for client in clients], damaged or UNSET)


@routes.route("/v1/clients", methods=["POST"])
def create_client() -> Answer:
    _check_admin()
    new = body(NewClient)
    creator = current().principal
    return _secret_answer(open_services().clients.create(new.name, new.roles, admin=new.admin, creator=creator), 201)


@routes.route("/v1/clients/{client_id}", methods=["GET"])
def get_client(client_id: str) -> ClientResponse:
    _check_admin()
    Query()
    return _response(open_services().clients.get(client_id))


@routes.route("/v1/clients/{client_id}", methods=["DELETE"])
def delete_client(client_id: str) -> None:
    _check_admin()
    Query()
    open_services().clients.delete(client_id)


@routes.route("/v1/clients/{client_id}/rotate", methods=["POST"])
def rotate_client(client_id: str) -> Answer:
    _check_admin()
    return _secret_answer(open_services().clients.rotate(client_id, keep_s=body(Rotation).keep_seconds), 200)


def _secret_answer(created: ClientWithSecret, status: int) -> Answer:
    """The only answer that has the secret; no proxy on the way may keep it."""
    return Answer(_response(created.client, created.secret), status, {"Cache-Control": "no-store"})


def _check_admin() -> None:
    principal = current().principal
    if not principal.admin:
        raise PermissionDenied(
            f"{principal.name!r} may not manage clients", remedy="ask an administrator; see docs/security.md"
        )


def _response(client: Client, secret: str | UnsetType = UNSET) -> ClientResponse:
    """A client as the API shows it; never its hashes."""
    return ClientResponse(
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
