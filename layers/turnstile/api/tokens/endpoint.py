"""The token endpoint, for clients without a token: client credentials (RFC 6749, 4.4) and token
exchange (RFC 8693).

Errors have the shape of RFC 6749, 5.2: ``{"error", "error_description"}`` and nothing more.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qsl, unquote_plus

import msgspec
from chalice.app import Blueprint
from msgspec import UNSET, UnsetType

from turnstile.api.http.request import Request, current, note
from turnstile.api.http.responses import Answer, status_of
from turnstile.api.services import open_services
from turnstile.rights.grants import Principal
from turnstile.store.core.errors import NotAuthenticated, TurnstileError

if TYPE_CHECKING:
    from turnstile.api.auth.signed import OwnTokens

routes = Blueprint(__name__)

TOKEN: Final = "/oauth/token"  # noqa: S105 - a path
EXCHANGE: Final = "/api/1.0/unity-control/auth/tokens"

CLIENT_CREDENTIALS: Final = "client_credentials"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - a grant's name

SCOPE: Final = "all-apis"
"""The only scope: the rights of a token follow from its principal, and a narrower scope would be a
promise not kept."""

MAX_BODY: Final = 32 * 1024
MAX_MEMBERS: Final = 20

_TYPE: Final = "urn:ietf:params:oauth:token-type:"
_SUBJECTS: Final = (_TYPE + "id_token", _TYPE + "access_token", _TYPE + "jwt")

NO_STORE: Final = {"Cache-Control": "no-store", "Pragma": "no-cache"}
"""Of every answer, RFC 6749, 5.1."""

_FOREIGN: Final = re.compile(r"[^\x20-\x21\x23-\x5b\x5d-\x7e]")
"""Characters that an ``error_description`` may not have."""

Form = dict[str, str]


class Credentials(NamedTuple):
    """A client's credentials."""

    client_id: str
    secret: str


class OAuthError(TurnstileError):
    """A refusal by the token endpoint; ``error`` is one of the specification's codes."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(description)
        self.type = error


class TokenResponse(msgspec.Struct, frozen=True):
    """RFC 6749, 5.1; ``issued_token_type`` RFC 8693, 2.2.1."""

    access_token: str
    expires_in: int
    token_type: str = "Bearer"  # noqa: S105 - a scheme
    scope: str = SCOPE
    issued_token_type: str | UnsetType = UNSET


@routes.route(TOKEN, methods=["POST"])
def token() -> Answer:
    request = current()
    form = _form_of(request)
    return _by_credentials(request, form) if form.get("grant_type") == CLIENT_CREDENTIALS else _by_exchange(form)


@routes.route(EXCHANGE, methods=["POST"])
def exchange() -> Answer:
    return _by_exchange(_form_of(current()))


# -- grants -----------------------------------------------------------------------------------------------------------


def _by_credentials(request: Request, form: Form) -> Answer:
    """A token for a registered client that shows its secret."""
    shown = _client_credentials(request, form)
    own = _own()
    principal = open_services().clients.principal(shown.client_id, shown.secret)
    if principal is None:
        raise OAuthError("invalid_client", "no client has this id and secret")
    _check_scope(form)
    return _issue(own, principal)


def _by_exchange(form: Form) -> Answer:
    """A token for a client that shows one of the trusted issuer's. It ends when that one does, at
    the latest."""
    grant = form.get("grant_type")
    if grant is None:
        raise OAuthError("invalid_request", "grant_type is missing")
    if grant != TOKEN_EXCHANGE:
        raise OAuthError("unsupported_grant_type", f"{grant[:80]} is not a grant type of this path")
    from turnstile.api.auth.signed import LEEWAY_S

    own = _own()
    issuer = open_services().signed_tokens.issuer
    if issuer is None:
        raise OAuthError("unsupported_grant_type", "this deployment trusts no issuer of tokens to exchange")
    subject = form.get("subject_token")
    kind = form.get("subject_token_type")
    if not subject or kind not in _SUBJECTS:
        raise OAuthError("invalid_request", "subject_token and a known subject_token_type are required")
    if form.get("requested_token_type", _TYPE + "access_token") != _TYPE + "access_token":
        raise OAuthError("invalid_request", "only access tokens are issued")
    if "actor_token" in form:
        raise OAuthError(
            "invalid_request", "acting for another principal is not supported: actor_token is not accepted"
        )
    if "audience" in form or "resource" in form:
        raise OAuthError("invalid_target", "tokens for other services are not issued here")
    _check_scope(form)
    try:
        verified = open_services().signed_tokens.verify_issuers(subject)
    except NotAuthenticated as refusal:
        raise OAuthError("invalid_request", refusal.message.replace("bearer token", "subject_token")) from None
    until = None if verified.expires_s is None else verified.expires_s - LEEWAY_S
    return _issue(own, verified.principal, until, _TYPE + "access_token")


def _issue(own: OwnTokens, principal: Principal, until: int | None = None, kind: str | UnsetType = UNSET) -> Answer:
    issued = own.issue(principal, until_s=until)
    if issued.lifetime_s <= 0:
        raise OAuthError("invalid_request", "the subject_token has expired")
    note(principal=principal.name)
    return Answer(TokenResponse(issued.token, issued.lifetime_s, issued_token_type=kind), headers=NO_STORE)


def _own() -> OwnTokens:
    own = open_services().signed_tokens.own
    if own is None:
        raise OAuthError("unsupported_grant_type", "this deployment issues no tokens: its secret has no token_keys")
    return own


def _check_scope(form: Form) -> None:
    if form.get("scope", SCOPE).split() != [SCOPE]:
        raise OAuthError("invalid_scope", f"the only scope is {SCOPE}")


def render(error: TurnstileError, _method: str, _path: str, correlation: str) -> tuple[int, dict[str, str], bytes]:
    """Returns status, headers and body."""
    headers = {"Content-Type": "application/json", **NO_STORE}
    status = status_of(error)
    code = "invalid_request"
    words = error.message
    if isinstance(error, OAuthError):
        status = 401 if error.type == "invalid_client" else 400
        code = error.type
        if status == 401:
            headers["WWW-Authenticate"] = 'Basic realm="turnstile", charset="UTF-8"'
    elif error.type in ("Throttled", "AuthenticationUnavailable"):
        retry = int(error.details.get("retry_after_ms", 1000))
        headers["Retry-After"] = str(max(1, -(-retry // 1000)))
        status = 503
        code = "temporarily_unavailable"
    elif status >= 500:
        status = 500
        code = "server_error"
        words = f"an internal error occurred, correlation id {correlation}"
    elif status == 405:
        headers["Allow"] = ", ".join(error.details.get("allowed", ()))
    elif status != 404:
        status = 400
    body = {"error": code, "error_description": _FOREIGN.sub("?", words)}
    return status, headers, msgspec.json.encode(body)


# -- forms (RFC 6749, 2.3.1 and 3.2) -----------------------------------------------------------------------------------


def _form_of(request: Request) -> Form:
    """The body's members. One without a value counts as left out; one given twice is refused."""
    media = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if media != "application/x-www-form-urlencoded":
        raise OAuthError("invalid_request", "the body must be application/x-www-form-urlencoded")
    if request.query:
        raise OAuthError("invalid_request", "send the parameters in the body, not in the URL")
    if len(request.body) > MAX_BODY:
        raise OAuthError("invalid_request", f"the body is longer than {MAX_BODY} bytes")
    try:
        members = parse_qsl(request.body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_MEMBERS)
    except (UnicodeError, ValueError):
        raise OAuthError("invalid_request", "the body is not a form in UTF-8") from None
    form: Form = {}
    for name, value in members:
        if name in form:
            raise OAuthError("invalid_request", f"{name[:40]} is given twice")
        form[name] = value
    return {name: value for name, value in form.items() if value}


def _client_credentials(request: Request, form: Form) -> Credentials:
    """The client's credentials: either in the header (``client_secret_basic``) or in the form
    (``client_secret_post``)."""
    header = request.headers.get("authorization", "")
    if not header:
        if "client_id" not in form or "client_secret" not in form:
            raise OAuthError("invalid_client", "client_id and client_secret are missing")
        return Credentials(form["client_id"], form["client_secret"])
    shown = _basic(header)
    if "client_secret" in form or form.get("client_id", shown.client_id) != shown.client_id:
        raise OAuthError("invalid_request", "the client authenticates in the header and in the body")
    return shown


def _basic(header: str) -> Credentials:
    scheme, _, encoded = header.strip().partition(" ")
    if scheme.lower() != "basic":
        raise OAuthError("invalid_client", "the Authorization header must be Basic")
    try:
        client_id, colon, secret = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise OAuthError("invalid_client", "the Authorization header is not base64 of UTF-8") from None
    if not colon:
        raise OAuthError("invalid_client", "the Authorization header has no secret")
    return Credentials(unquote_plus(client_id), unquote_plus(secret))
