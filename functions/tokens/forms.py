"""Form-encoded bodies and client authentication of the token endpoint (RFC 6749, 2.3.1 and 3.2)."""

from __future__ import annotations

import base64
import binascii
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote_plus

from oauth_errors import OAuthError

from turnstile.api.http.request import Request

MAX_BODY: Final = 32 * 1024
MAX_MEMBERS: Final = 20

Form = dict[str, str]


class Credentials(NamedTuple):
    """What a client shows."""

    client_id: str
    secret: str


def form_of(request: Request) -> Form:
    """The body's members. One without a value counts as left out; one given twice is refused.

    Raises:
        OAuthError: ``invalid_request``.
    """
    media = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if media != "application/x-www-form-urlencoded":
        raise OAuthError("invalid_request", "the body must be application/x-www-form-urlencoded")
    if request.query:
        raise OAuthError("invalid_request", "members belong into the body, not into the URL")
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


def credentials(request: Request, form: Form) -> Credentials:
    """What the client shows: in the header (``client_secret_basic``) or in the form (``client_secret_post``).

    Raises:
        OAuthError: ``invalid_client`` for none, ``invalid_request`` for both.
    """
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
