"""HTTP requests to the service; errors carry the exit code of the command."""

from __future__ import annotations

import ssl
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import httpx

from turnstile_cli.errors import CliError, Exit

TIMEOUT: Final = httpx.Timeout(35.0, connect=5.0)
"""Seconds; longer than the gateway's own limit, so that the service's own error arrives first."""

PAUSES: Final = (0.5, 2.0)
"""Seconds to wait before a change is sent again."""

ROWS_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds to wait before rows are sent again."""

REMEMBERED: Final = (400, 404, 406, 409, 413, 422)
"""Statuses of refusals that the service remembers by the idempotency key: no attempt is, or was,
answered otherwise."""

AGAIN: Final = "run the same command again; it shows the outcome"
"""The remedy for a change without an answer that is harmless when it is made twice."""

_NOT_AUTHENTICATED: Final = "NotAuthenticated"
_GATEWAY_ERROR: Final = "HttpError"
"""Type of an error that has none: a gateway in front of the service made it."""

_FOREIGN: Final = (301, 302, 303, 307, 308, 404, 405)
"""Statuses of answers without an error of Turnstile's that say that something else is at the
URL."""

_EXITS: Final = {404: Exit.NOT_FOUND}
_EXITS_OF_TYPES: Final = {"CommitStateUnknown": Exit.UNKNOWN, "StoreUnavailable": Exit.STORE}


def tls_context(url: str, *, trust_env: bool) -> ssl.SSLContext:
    """Trusts the authorities of the machine; for ``http://`` none, since to read them takes 40 ms
    of each command."""
    is_checked = urlsplit(url).scheme == "https"
    return httpx.create_ssl_context(trust_env=trust_env) if is_checked else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Api:
    """The service at ``url``. ``home`` is the folder of the server, if it is one of this
    machine."""

    def __init__(self, url: str, token: str, *, home: Path | None = None, local: bool = True) -> None:
        self.url = url.rstrip("/")
        self.token = token
        self.home = home
        self.local = local
        headers = {"authorization": f"Bearer {token}"} if token else {}
        tls = tls_context(self.url, trust_env=not local)
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=TIMEOUT, trust_env=not local, verify=tls)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.close()

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """The answer's JSON object; raises CliError."""
        return self._request("GET", path, query=query)

    def text(self, path: str) -> str | None:
        """The text of an answer that is not JSON, such as ``/metrics``; None if the service has no
        such path. Raises CliError if it cannot be reached."""
        try:
            response = self._http.get(path)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        plain = response.headers.get("content-type", "").startswith("text/plain")
        return response.text if response.is_success and plain else None

    def post(self, path: str, body: dict[str, Any], *, unanswered: str = AGAIN) -> dict[str, Any]:
        """The answer's JSON object; raises CliError, with ``unanswered`` as its remedy if there is
        no answer."""
        return self._request("POST", path, body=body, unanswered=unanswered)

    def delete(self, path: str) -> None:
        """Delete the entity at the path; raises CliError."""
        self._request("DELETE", path)

    def change(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The response to a change of a catalog; raises CliError.

        It is sent with an ``Idempotency-Key``, so the service makes it once, and sent again when
        its answer is lost or the outcome is unknown. After that only a success, or a refusal that
        the service has stored under the key, is an outcome. After any other answer, such as one for
        a token that has expired meanwhile, the first unknown answer is raised.
        """
        headers = {"idempotency-key": str(uuid.uuid4())}
        return _resend(PAUSES, lambda: self._request(method, path, body=body, headers=headers))

    def append_rows(self, path: str, content: bytes, headers: dict[str, str]) -> dict[str, Any]:
        """The response to a request with rows, whose headers identify it: it is sent again while
        its answer is lost, or the service asks to wait. Raises CliError as ``change``."""
        return _resend(
            ROWS_PAUSES, lambda: self._request("POST", path, content=content, headers=headers), passing=_is_busy
        )

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer's JSON object; raises CliError."""
        return self._request("PATCH", path, body=body)

    def pages(
        self, path: str, member: str, damaged: list[dict[str, Any]] | None = None, /, **query: Any
    ) -> Iterator[dict[str, Any]]:
        """The items of every page; ``query`` goes with each. Puts the damaged rows that the listing
        leaves out, ``key`` and ``message`` of each, into ``damaged``."""
        parameters = query
        while True:
            page = self.get(path, **parameters)
            if damaged is not None:
                damaged[:] = page.get("unreadable", ())
            yield from page[member]
            token = page.get("next_page_token")
            if not token:
                return
            parameters = {**query, "page_token": token}

    def heads(self) -> Iterator[dict[str, Any]]:
        """The HEADs of all tables, for admins; raises CliError with the remedy for other
        callers."""
        try:
            yield from self.pages("/v1/tables", "tables")
        except CliError as error:
            if error.type == "PermissionDenied":
                error.remedy = "ask an admin; 'turnstile find /main/*/*' lists the tables that you may see"
            raise

    def unreadable_heads(self) -> list[dict[str, Any]]:
        """The rows of tables that are damaged: ``key`` and ``message`` of each."""
        return list(self.get("/v1/tables", max_results=1).get("unreadable", ()))

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: dict[str, Any] | None = None,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
        unanswered: str = AGAIN,
    ) -> dict[str, Any]:
        sent: dict[str, Any] = {"json": body} if content is None else {"content": content}
        try:
            response = self._http.request(method, path, params=query or None, headers=headers, **sent)
        except httpx.ConnectError as error:
            raise self._unreachable(error) from error
        except httpx.HTTPError as error:
            if method == "GET":
                raise self._unreachable(error) from error
            raise CliError(
                Exit.UNKNOWN,
                f"{method} {self.url}{path}: no answer ({type(error).__name__}); it may or may not have happened",
                remedy=unanswered,
                type="NoAnswer",
            ) from error
        return self._body_of(response)

    def _unreachable(self, error: Exception) -> CliError:
        remedy = "start it with 'turnstile up'" if self.local else "check --url and the network"
        return CliError(Exit.UNREACHABLE, f"{self.url} cannot be reached: {error}", remedy=remedy, type="Unreachable")

    def _foreign(self, response: httpx.Response) -> CliError:
        """Another program answered: a login page, a proxy, another service."""
        kind = response.headers.get("content-type", "no content type")
        return CliError(
            Exit.FAILURE,
            f"{response.request.method} {response.request.url} was answered with status {response.status_code} by "
            f"something that is not Turnstile: {kind}, {response.text[:100]!r}",
            remedy="check --url: it is the output Url of the stack, without /v1; and that the stack is not older than "
            "this command",
            type="NotTurnstile",
        )

    def _body_of(self, response: httpx.Response) -> dict[str, Any]:
        body = _json(response)
        if response.is_success:
            if body is None:
                raise self._foreign(response)
            return body
        error = (body or {}).get("error")
        if not isinstance(error, dict):
            if response.status_code in _FOREIGN:
                raise self._foreign(response)
            error = _gateway_error(response)
        kind = str(error.get("type", _GATEWAY_ERROR))
        refused = Exit.REFUSED if response.status_code < 500 else Exit.FAILURE
        exit_code = _EXITS_OF_TYPES.get(kind) or _EXITS.get(response.status_code, refused)
        request = response.request
        raise CliError(
            exit_code,
            f"{kind}: {error.get('message', '')} ({request.method} {request.url.path}, status {response.status_code})",
            remedy=_token_remedy(request) if kind == _NOT_AUTHENTICATED else str(error.get("remedy", "")),
            type=kind,
            status=response.status_code,
            details={name: value for name, value in error.items() if name not in ("type", "message", "remedy")},
        )


def _resend(
    pauses: Sequence[float],
    send: Callable[[], dict[str, Any]],
    *,
    passing: Callable[[CliError], bool] = lambda _: False,
) -> dict[str, Any]:
    """The response to a request that the service recognises: it is sent again after a lost answer,
    and after an error that is ``passing``. After a lost answer only a success, or a refusal that
    the service remembers, is an outcome."""
    unknown = None
    for pause in (*pauses, None):
        try:
            return send()
        except CliError as error:
            is_final = error.status in REMEMBERED and error.type != _GATEWAY_ERROR
            if error.exit is Exit.UNKNOWN:
                unknown = unknown or error
            elif is_final or (unknown is None and (pause is None or not passing(error))):
                raise
        if pause is not None:
            time.sleep(pause)
    assert unknown is not None, "nothing else is sent again"
    raise unknown


def _is_busy(error: CliError) -> bool:
    return error.status == 429 or error.type in ("StorageFault", "Unreachable")


def _token_remedy(request: httpx.Request) -> str:
    """The remedy for a user of the command, who gives no header."""
    another = "another token" if "authorization" in request.headers else "a token"
    return f"give {another}: --token, or the variable TURNSTILE_TOKEN"


def _gateway_error(response: httpx.Response) -> dict[str, Any]:
    """The error of a response that a gateway in front of the service made."""
    if response.status_code == 401:
        return {"type": _NOT_AUTHENTICATED, "message": "a bearer token is required"}
    if response.status_code == 403:
        message = f"refused before the server got the request: {response.text[:200]!r}"
        remedy = "check the token, and the rules of the gateway, its firewall and its network policy"
        return {"type": "PermissionDenied", "message": message, "remedy": remedy}
    return {"message": response.text[:500] or "empty answer"}


def _json(response: httpx.Response) -> dict[str, Any] | None:
    """The answer's JSON object; None if it is none."""
    if response.status_code == httpx.codes.NO_CONTENT:
        return {}
    try:
        body = response.json()
    except ValueError:
        return None
    return body if isinstance(body, dict) else None
