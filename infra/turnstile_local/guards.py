"""Which requests a running stack accepts: requests of programs, and none that a web page made a
browser send.

A web page can send requests to every port of its visitor's machine, so listening on loopback alone
protects no user. Refused everywhere, before anything of the request is read:

* a ``Host`` that is not this machine's: a page whose own name was made to lead to 127.0.0.1 (DNS
  rebinding);
* any ``Origin``, and a ``Sec-Fetch-Site`` of another site: a browser adds them to a page's
  requests. CORS preflights have one.

All paths outside the HTTP API belong to the emulated AWS, where a request creates functions and
runs them. It must be signed by a key that the stack gave out: the one of its home (random, in
``stack.json``), or that of a session which the emulated STS issued. The id of either is random, and
never sent to a caller that did not sign with it before. No answer allows another origin to read it.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs

from turnstile_local.settings import API_ROOTS, HEALTH, HOST

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

NAMES: Final = frozenset({HOST, "localhost"})
"""Names of this machine in a ``Host`` header; the port may be another, that of a tunnel."""

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_PRESIGNED: Final = ("X-Amz-Credential", "AWSAccessKeyId")
"""Members of a presigned address that name its key: botocore still signs URLs of us-east-1 in the
older way."""

_SAME_SITE: Final = frozenset({"none", "same-origin"})


class Refusal(NamedTuple):
    """Why a request is refused; ``type`` is that of the error in the answer."""

    type: str
    message: str
    remedy: str


class Guard:
    """Decides by path and headers alone. ``access_key`` is the id of the home's key, ``is_session``
    tells whether an id is that of a session which the emulated STS issued and which has not ended.
    """

    def __init__(self, access_key: str, is_session: Callable[[str], bool]) -> None:
        self._access_key = access_key
        self._is_session = is_session

    def refusal(self, scope: Scope) -> Refusal | None:
        """Returns why the request is refused, None if it is taken. ``scope`` is ASGI's, of type
        http."""
        headers = headers_of(scope)
        hosts = headers.get("host", [])
        if len(hosts) != 1 or _name(hosts[0]) not in NAMES:
            return Refusal(
                "ForeignHost",
                f"this stack does not answer for the host {', '.join(hosts)!r}",
                f"use http://{HOST}:<port>; a name that leads here may be a web page's attempt to get in",
            )
        sites = [site for site in headers.get("sec-fetch-site", []) if site not in _SAME_SITE]
        if "origin" in headers or sites:
            return Refusal(
                "ForeignOrigin",
                f"a web page ({', '.join(headers.get('origin', sites))!r}) may not send requests to this stack",
                "send it from a program, which sets no Origin",
            )
        if scope["path"] == HEALTH or is_api(scope) or self.is_signed(scope):
            return None
        return Refusal(
            "NotSigned",
            f"{scope['method']} {scope['path']} is for the emulated AWS and not signed by a key of this stack",
            "take endpoint and keys from Stack.env, or from stack.json in the stack's home (readable by its owner "
            "only)",
        )

    def is_signed(self, scope: Scope) -> bool:
        """Whether the request names a key of this stack in its header or, presigned, in its
        query."""
        return any(self._is_known(key) for key in _access_keys(scope))

    def _is_known(self, key: str) -> bool:
        return hmac.compare_digest(key.encode(), self._access_key.encode()) or self._is_session(key)


def is_api(scope: Scope) -> bool:
    """Whether a request is for the HTTP API: by its path, unless it is signed for an AWS
    service."""
    path: str = scope["path"]
    if not any(path == root or path.startswith(root + "/") for root in API_ROOTS):
        return False
    return not any(value.startswith(_ALGORITHM) for value in headers_of(scope).get("authorization", []))


def headers_of(scope: Scope) -> dict[str, list[str]]:
    """All values by name in lower case."""
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1").strip())
    return headers


def without_cors(send: Send) -> Send:
    """``send`` that leaves out every header by which a browser would let another origin read the
    answer."""

    async def send_stripped(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [pair for pair in message.get("headers", ()) if not pair[0].lower().startswith(b"access-control-")]
            message = {**message, "headers": kept}
        await send(message)

    return send_stripped


def _name(host: str) -> str:
    """The host without its port."""
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


def _access_keys(scope: Scope) -> list[str]:
    """Ids of the keys that the request says it is signed with: exactly one, or it is not signed."""
    values = headers_of(scope).get("authorization", [])
    credentials = [
        field.strip().removeprefix("Credential=")
        for value in values
        if value.startswith(_ALGORITHM + " ")
        for field in value.removeprefix(_ALGORITHM).split(",")
        if field.strip().startswith("Credential=")
    ]
    if not values:
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        credentials = [value for name in _PRESIGNED for value in query.get(name, [])]
    return [credential.partition("/")[0] for credential in credentials] if len(credentials) == 1 else []
