"""HTTP to the Turnstile server: keep-alive, bearer token, retries with full jitter inside a
deadline, typed errors."""

from __future__ import annotations

import ssl
import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from turnstile_http.errors import ApiError
from turnstile_http.waiting import WAIT_REPORTER

T = TypeVar("T")
Json = dict[str, Any]
"""A response, as JSON."""
#: Seconds. Longer than the API gateway's 30, so that the server's own answer arrives before the
#: client gives up.
READ_TIMEOUT = 35.0
#: Seconds until a server that nobody has reached yet is given up.
REACH_S = 4.0
#: Statuses of refusals that the server remembers by the idempotency key.
_NOT_AUTHENTICATED: Final = "NotAuthenticated"
_REMEMBERED = (400, 404, 406, 409, 413, 422)
_jitter = wait_random_exponential(multiplier=0.05, max=2.0)


def _wait(state: RetryCallState) -> float:
    """Full jitter, but never less than the server asks for."""
    error = state.outcome.exception() if state.outcome else None
    return max(float(_jitter(state)), error.retry_after if isinstance(error, ApiError) else 0.0)


def tls_context(url: str) -> ssl.SSLContext:
    """Trusts the authorities of the machine; for ``http://`` none, since to read them takes 40
    ms."""
    is_checked = urlsplit(url).scheme == "https"
    return httpx.create_ssl_context() if is_checked else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def path(*parts: str) -> str:
    """A URL path from parts, each percent-encoded."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def now_ms() -> int:
    """The time by this machine's clock."""
    return int(time.time() * 1000)


class Http:
    """A client of one server. Thread-safe; connections are kept alive and shared.

    ``url``: base URL, without ``/v1``. ``token``: bearer token or None. ``deadline``: seconds that
    one call may take with all its retries. ``requests`` counts the requests by name of the call. A
    call that waits logs it (:mod:`turnstile_http.waiting`). Raises ``ValueError`` for a text that
    is no base URL.
    """

    def __init__(self, url: str, token: str | None, deadline: float = 60.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"uri={url!r}: a base URL, with http:// or https:// and a host, as in http://127.0.0.1:8750"
            )
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.url = url.rstrip("/").removesuffix("/v1")
        self.deadline = deadline
        self.requests: Counter[str] = Counter()
        self._client = httpx.Client(
            headers=headers,
            verify=tls_context(self.url),
            timeout=httpx.Timeout(READ_TIMEOUT, connect=5.0),
            limits=httpx.Limits(max_connections=64, max_keepalive_connections=32, keepalive_expiry=50.0),
        )

    def close(self) -> None:
        """Closes all connections. Idempotent. Later calls raise :class:`ApiError` ``Closed``."""
        self._client.close()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._client.is_closed

    def reach(self, until_s: float = REACH_S) -> None:
        """Returns when something answers at the URL; raises :class:`ApiError` ``Unreachable`` after
        ``until_s`` seconds in which nothing did."""

        def attempt() -> None:
            try:
                self._send("reach", "GET", "/healthz", timeout=httpx.Timeout(until_s))
            except ApiError as e:
                if e.type == "Unreachable":
                    raise

        self.retrying(time.monotonic() + until_s)(attempt)

    def once(
        self,
        name: str,
        method: str,
        route: str,
        body: Any = None,
        *,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        content: bytes | None = None,
    ) -> Json:
        """One request, no retry. Returns the response (empty for 204); raises :class:`ApiError`.
        ``content``: a body that is not JSON, in place of ``body``; ``headers`` say its type."""
        self.requests[name] += 1
        params = {k: v for k, v in (query or {}).items() if v is not None}
        sent = {"json": body} if content is None else {"content": content}
        response = self._send(name, method, route, params=params or None, headers=headers, **sent)
        if response.status_code < 300:
            try:
                answer: Json = response.json() if response.content else {}
            except ValueError as e:
                raise _error(response) from e
            return answer
        raise _error(response)

    def _send(self, name: str, method: str, route: str, **options: Any) -> httpx.Response:
        if self.is_closed:
            text = f"this client of {self.url} was closed: it was detached, or another took its name; use the newer one"
            raise ApiError(0, "Closed", text)
        with WAIT_REPORTER.of(f"{self.url} ({name})") as wait:
            try:
                return self._client.request(method, self.url + route, **options)
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as e:
                reason = str(e) or type(e).__name__
                wait.problem = f"it cannot be reached ({reason})"
                remedy = "start the server there (`turnstile up`, `turnstile serve`), or correct the uri"
                raise ApiError(0, "Unreachable", f"{self.url} cannot be reached: {reason}; {remedy}") from e
            except httpx.HTTPError as e:
                reason = str(e) or type(e).__name__
                wait.problem = f"it gave no answer ({reason})"
                raise ApiError(0, "NoAnswer", f"{self.url} gave no answer: {reason}") from e

    def call(
        self,
        name: str,
        method: str,
        route: str,
        body: Any = None,
        *,
        query: dict[str, Any] | None = None,
        change: bool = False,
    ) -> Json:
        """A request that is repeated while the failure is transient, until the deadline.

        ``change``: of the catalog. All attempts carry one ``Idempotency-Key``: however many of them
        arrive, the server makes the change once and answers all alike. After a lost answer only a
        success, or a refusal that the server remembers by the key, is an outcome; when there is
        none until the deadline, an :class:`ApiError` of the type ``OutcomeUnknown`` is raised.
        """
        headers = {"Idempotency-Key": str(uuid.uuid4())} if change else None
        is_open = False

        def attempt() -> Json:
            nonlocal is_open
            try:
                return self.once(name, method, route, body, query=query, headers=headers)
            except ApiError as e:
                if is_open and not e.transient and not _is_remembered(e):
                    raise ApiError(0, "NoAnswer", f"an answer was lost, and then: {e}") from e
                is_open = is_open or (change and e.ambiguous)
                raise

        try:
            return self.retrying(time.monotonic() + self.deadline)(attempt)
        except ApiError as e:
            if is_open and e.transient:
                problem = (
                    f"{method} {route} may or may not have happened: no final answer within {self.deadline:.0f} s; {e}"
                )
                raise ApiError(0, "OutcomeUnknown", problem) from e
            raise

    def retrying(self, until: float) -> Callable[[Callable[[], T]], T]:
        """Repeats a function while it raises transient :class:`ApiError`, until
        ``time.monotonic()`` is ``until``."""

        def run_reporting(attempt: Callable[[], T]) -> T:
            with WAIT_REPORTER.of(self.url) as wait:

                def pausing(state: RetryCallState) -> None:
                    error = state.outcome.exception() if state.outcome else None
                    wait.problem = str(error)[:200]

                return Retrying(
                    stop=stop_after_delay(max(until - time.monotonic(), 0.0)),
                    wait=_wait,
                    retry=retry_if_exception(lambda e: isinstance(e, ApiError) and e.transient),
                    before_sleep=pausing,
                    reraise=True,
                )(attempt)

        return run_reporting


def _is_remembered(refused: ApiError) -> bool:
    """Whether the server has stored such a refusal under the idempotency key, so that every attempt
    gets the same answer. Refusals of a gateway in front of it are not stored."""
    return refused.status in _REMEMBERED and refused.type != f"Http{refused.status}"


def _error(response: httpx.Response) -> ApiError:
    try:
        body = response.json()["error"]
        if body["type"] == _NOT_AUTHENTICATED:
            body["remedy"] = _token_remedy(response)
        return ApiError(response.status_code, str(body["type"]), str(body.get("message", "")), body)
    except (ValueError, KeyError, TypeError):
        # Not an error of the server: a proxy or gateway in between (502, 503, 504 ...), or another
        # service.
        kind = response.headers.get("content-type", "no content type")
        status = response.status_code
        if (error := _of_gateway(response)) is not None:
            return error
        problem = f"{response.text[:200]!r} ({kind})"
        if status < 500 and status != 429:
            problem = (
                f"{response.url} is not answered by Turnstile: {problem}. Check the uri: it is the server's, without "
                f"/v1"
            )
        return ApiError(status, f"Http{status}", problem)


def _token_remedy(response: httpx.Response) -> str:
    """The remedy for a caller of this client, who gives no header."""
    another = "another token" if "authorization" in response.request.headers else "a token"
    return f"give {another}: token=..., or the variable TURNSTILE_TOKEN"


def _of_gateway(response: httpx.Response) -> ApiError | None:
    """The refusal of a gateway in front of the server, which says less than the server would; None
    for other answers."""
    status = response.status_code
    if status == 401:
        sent = "authorization" in response.request.headers
        message = "the token was not accepted" if sent else "no token was sent, and one is needed"
        return ApiError(status, _NOT_AUTHENTICATED, message, {"remedy": _token_remedy(response)})
    if status == 403:
        message = f"refused before the server got the request: {response.text[:200]!r}"
        remedy = "check the token, and the rules of the gateway, its firewall and its network policy"
        return ApiError(status, "PermissionDenied", message, {"remedy": remedy})
    if status == 413:
        message = f"the request was too large for the gateway in front of the server: {response.text[:200]!r}"
        return ApiError(status, "TooLarge", message, {"remedy": "send smaller parts"})
    return None
