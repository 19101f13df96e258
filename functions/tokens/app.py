"""Access tokens and the clients that get them. Glue only: parse, call one operation, render.

docs/api.md is the contract, openapi/v1.yaml its formal description; docs/security.md says who gets what for what.
"""

from __future__ import annotations

from typing import Final

import grants
import shapes
from chalice.app import Chalice
from forms import form_of
from oauth_errors import NO_STORE, OAuthError, render
from wiring import services, use_world

from turnstile.access.clients import Registered
from turnstile.api.auth.settings import authentication
from turnstile.api.http.answers import Answer
from turnstile.api.http.env import in_lambda
from turnstile.api.http.handler import serve
from turnstile.api.http.request import Query, body, current
from turnstile.store.core.errors import PermissionDenied

__all__ = ["app", "use_world"]

TOKEN: Final = "/oauth/token"  # noqa: S105 - a path
EXCHANGE: Final = "/api/1.0/unity-control/auth/tokens"

api = Chalice(app_name="turnstile-tokens", configure_logs=False)


# -- tokens: whoever asks has none yet, and shows something else -----------------------------------------------------


@api.route(TOKEN, methods=["POST"])
def token() -> Answer:
    request, form = current(), form_of(current())
    grant = form.get("grant_type")
    if grant == grants.CREDENTIALS:
        return Answer(grants.by_credentials(request, form), headers=NO_STORE)
    return _exchange(form)


@api.route(EXCHANGE, methods=["POST"])
def exchange() -> Answer:
    return _exchange(form_of(current()))


def _exchange(form: dict[str, str]) -> Answer:
    grant = form.get("grant_type")
    if grant is None:
        raise OAuthError("invalid_request", "grant_type is missing")
    if grant != grants.EXCHANGE:
        raise OAuthError("unsupported_grant_type", f"{grant[:80]} is not a grant type of this path")
    return Answer(grants.by_exchange(form), headers=NO_STORE)


# -- clients: for administrators -------------------------------------------------------------------------------------


@api.route("/v1/clients", methods=["GET"])
def list_clients() -> shapes.ClientList:
    _check_admin()
    Query()
    return shapes.ClientList([shapes.told(client) for client in services().clients.list()])


@api.route("/v1/clients", methods=["POST"])
def create_client() -> Answer:
    _check_admin()
    asked = body(shapes.NewClient)
    made = services().clients.create(asked.name, asked.roles, admin=asked.admin, creator=current().principal)
    return _shown(made, 201)


@api.route("/v1/clients/{client_id}", methods=["GET"])
def get_client(client_id: str) -> shapes.ClientAnswer:
    _check_admin()
    Query()
    return shapes.told(services().clients.get(client_id))


@api.route("/v1/clients/{client_id}", methods=["DELETE"])
def delete_client(client_id: str) -> None:
    _check_admin()
    Query()
    services().clients.delete(client_id)


@api.route("/v1/clients/{client_id}/rotate", methods=["POST"])
def rotate_client(client_id: str) -> Answer:
    _check_admin()
    return _shown(services().clients.rotate(client_id, keep_s=body(shapes.Rotation).keep_seconds), 200)


def _shown(made: Registered, status: int) -> Answer:
    """The only answer that has the secret; nobody on the way may keep it."""
    return Answer(shapes.told(made.client, made.secret), status, {"Cache-Control": "no-store"})


def _check_admin() -> None:
    principal = current().principal
    if not principal.admin:
        raise PermissionDenied(
            f"{principal.name!r} may not manage clients", remedy="ask an administrator; see docs/security.md"
        )


app = serve(
    api,
    service="tokens",
    authentication=authentication(),
    public=(TOKEN, EXCHANGE),
    shapes={"/oauth": render, "/api/1.0/unity-control": render},
)

if in_lambda():
    services()
