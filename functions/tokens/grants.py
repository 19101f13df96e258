"""The grants of the token endpoint: client credentials (RFC 6749, 4.4) and token exchange (RFC 8693)."""

from __future__ import annotations

from typing import Final

import msgspec
from forms import Form, credentials
from msgspec import UNSET, UnsetType
from oauth_errors import OAuthError
from wiring import services

from turnstile.access.core.grants import Principal
from turnstile.api.auth.signed import LEEWAY_S, OwnTokens
from turnstile.api.http.handler import note
from turnstile.api.http.request import Request
from turnstile.store.core.errors import NotAuthenticated

CREDENTIALS: Final = "client_credentials"
EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
SCOPE: Final = "all-apis"
"""The only scope: what a token may do follows from its principal, and a narrower scope would be a promise not kept."""

_TYPE: Final = "urn:ietf:params:oauth:token-type:"
_SUBJECTS: Final = (_TYPE + "id_token", _TYPE + "access_token", _TYPE + "jwt")


class TokenAnswer(msgspec.Struct, frozen=True):
    """RFC 6749, 5.1; ``issued_token_type`` RFC 8693, 2.2.1."""

    access_token: str
    expires_in: int
    token_type: str = "Bearer"  # noqa: S105 - a scheme
    scope: str = SCOPE
    issued_token_type: str | UnsetType = UNSET


def by_credentials(request: Request, form: Form) -> TokenAnswer:
    """A token for a registered client that shows its secret."""
    shown = credentials(request, form)
    own = _own()
    principal = services().clients.principal(shown.client_id, shown.secret)
    if principal is None:
        raise OAuthError("invalid_client", "no client has this id and secret")
    _check_scope(form)
    return _issue(own, principal)


def by_exchange(form: Form) -> TokenAnswer:
    """A token for whoever shows one of the trusted issuer's. It ends when that one does, at the latest."""
    own, issuer = _own(), services().signed.issuer
    if issuer is None:
        raise OAuthError("unsupported_grant_type", "this deployment trusts no issuer of tokens to exchange")
    subject, kind = form.get("subject_token"), form.get("subject_token_type")
    if not subject or kind not in _SUBJECTS:
        raise OAuthError("invalid_request", "subject_token and a known subject_token_type are required")
    if form.get("requested_token_type", _TYPE + "access_token") != _TYPE + "access_token":
        raise OAuthError("invalid_request", "only access tokens are issued")
    if "actor_token" in form:
        raise OAuthError("invalid_request", "nobody can act for another here: actor_token is not accepted")
    if "audience" in form or "resource" in form:
        raise OAuthError("invalid_target", "tokens for other services are not issued here")
    _check_scope(form)
    try:
        verified = services().signed.verify_issuers(subject)
    except NotAuthenticated as refusal:
        raise OAuthError("invalid_request", refusal.message.replace("bearer token", "subject_token")) from None
    until = None if verified.expires_s is None else verified.expires_s - LEEWAY_S
    return _issue(own, verified.principal, until, _TYPE + "access_token")


def _issue(
    own: OwnTokens, principal: Principal, until: int | None = None, kind: str | UnsetType = UNSET
) -> TokenAnswer:
    issued = own.issue(principal, until_s=until)
    if issued.lifetime_s <= 0:
        raise OAuthError("invalid_request", "the subject_token has expired")
    note(principal=principal.name)
    return TokenAnswer(issued.token, issued.lifetime_s, issued_token_type=kind)


def _own() -> OwnTokens:
    own = services().signed.own
    if own is None:
        raise OAuthError("unsupported_grant_type", "this deployment issues no tokens: TokenKeys is not set")
    return own


def _check_scope(form: Form) -> None:
    if form.get("scope", SCOPE).split() != [SCOPE]:
        raise OAuthError("invalid_scope", f"the only scope is {SCOPE}")
