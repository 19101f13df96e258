"""A Chalice app as a Lambda handler behind an HTTP API.

    event -> Request -> principal -> route -> view -> answer or error -> event, and one log line, whatever happens.

Errors become answers in one place; Chalice's own error bodies are never reached.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Container, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import msgspec
from chalice.app import Chalice, Response

from turnstile.access.core.principal import ANONYMOUS
from turnstile.api.auth.bearer import Authentication
from turnstile.api.http import errors, gateway
from turnstile.api.http.answers import JSON, to_response
from turnstile.api.http.errors import MethodNotAllowed, NoSuchRoute, UnsupportedMediaType
from turnstile.api.http.request import BodyLimit, Request, activate, body_of, query_of
from turnstile.api.http.routing import Router
from turnstile.api.http.telemetry import Telemetry
from turnstile.store.core.errors import TurnstileError

Event = Mapping[str, Any]
Handler = Callable[[Event, Any], dict[str, Any]]

_CORRELATION = re.compile(r"[\w.:/=+-]{1,128}", re.ASCII)
_raised: ContextVar[list[Exception]] = ContextVar("turnstile_http_raised")
_notes: ContextVar[dict[str, Any]] = ContextVar("turnstile_http_notes")


def note(**members: Any) -> None:
    """Add members to this request's log line (an outcome, a version)."""
    _notes.get().update(members)


def serve(
    app: Chalice,
    *,
    service: str,
    authentication: Authentication,
    public: Container[str] = (),
    elsewhere: Mapping[str, Sequence[str]] | None = None,
    shapes: Mapping[str, errors.Render] | None = None,
    bodies: BodyLimit | None = None,
) -> Handler:
    """The handler of ``app``; call it after the last route is registered. The template calls it ``app.app``.

    Args:
        app: its views take their path parameters, read the rest with ``bodies.body`` and ``params.Query``, return
            what ``answers`` describes, and raise ``TurnstileError``.
        service: name in logs and metrics.
        authentication: tells who asks, before anything else is looked at.
        public: routes for those who have no bearer token yet. Their views judge who asks and what kind of body it is.
        elsewhere: routes that other functions serve. The gateway sends what it has no route for to one function,
            which can so tell a wrong method (405) from a wrong path (404).
        shapes: how errors are told below a path that is not our own API's (``/api/...``).
        bodies: how large bodies may be, where that is not as in our own API.
    """
    allowed = {route: sorted({*methods, *(elsewhere or {}).get(route, ())}) for route, methods in app.routes.items()}
    allowed |= {route: sorted(methods) for route, methods in (elsewhere or {}).items() if route not in allowed}
    router, telemetry = Router(allowed), Telemetry(service)
    for methods in app.routes.values():
        for entry in methods.values():
            entry.view_function = _guarded(entry.view_function)

    def render(path: str) -> errors.Render:
        found = [shape for root, shape in (shapes or {}).items() if path == root or path.startswith(root + "/")]
        return found[0] if found else errors.render

    def answer(event: Event, request: Request, params: Mapping[str, str]) -> dict[str, Any]:
        principal = ANONYMOUS
        if request.route not in public:
            context = event.get("requestContext", {})
            principal = authentication.principal(request.headers.get("authorization", ""), context)
            note(principal=principal.name)
        if not request.route:
            raise NoSuchRoute("no operation has this path", remedy="see docs/api.md for the paths", path=request.path)
        method = _method(request, app.routes.get(request.route, ()), allowed[request.route])
        request = msgspec.structs.replace(
            request, query=query_of(event), body=body_of(event, bodies), principal=principal
        )
        if request.body and method not in ("GET", "HEAD") and request.route not in public:
            _check_media_type(request)
        activate(request)
        found: dict[str, Any] = app(gateway.to_chalice(request, params, method), None)
        if _raised.get():
            raise _raised.get().pop()
        return found

    def handle(event: Event, _context: Any) -> dict[str, Any]:
        started = time.perf_counter()
        _raised.set([])
        _notes.set({})
        request, params = _request(event, router)
        fault: Exception | None = None
        try:
            answered = answer(event, request, params)
        except Exception as error:
            refusal = errors.brief(error if isinstance(error, TurnstileError) else TurnstileError(str(error)))
            fault = error if refusal.type == "InternalError" else None
            note(type=refusal.type, reason=refusal.message)
            status, headers, body = render(request.path)(refusal, request.path, request.correlation)
            if refusal.type == "NotAuthenticated":
                headers["WWW-Authenticate"] = _challenge(request)
            answered = {"statusCode": status, "headers": headers, "body": body.decode()}
        answered["headers"]["X-Correlation-Id"] = request.correlation
        operation = _operation(app, request)
        duration = (time.perf_counter() - started) * 1000
        telemetry.record(
            operation, answered["statusCode"], duration, fault, correlation_id=request.correlation, **_notes.get()
        )
        return gateway.to_gateway(answered, head=request.method == "HEAD")

    return handle


def _challenge(request: Request) -> str:
    """What a 401 asks for (RFC 6750, 3.1): another token if one was sent."""
    asked = 'Bearer realm="turnstile"'
    return f'{asked}, error="invalid_token"' if request.headers.get("authorization") else asked


def _guarded(view: Callable[..., Any]) -> Callable[..., Response]:
    """The view, its errors kept from Chalice, which has a shape of its own for them."""

    def guarded(**params: str) -> Response:
        try:
            return to_response(view(**params))
        except Exception as error:
            _raised.get().append(error)
            return Response(body="", status_code=500)

    return guarded


def _request(event: Event, router: Router) -> tuple[Request, dict[str, str]]:
    """The request without query and body, which are only read once it is known who asks."""
    headers = {str(name).lower(): str(value) for name, value in (event.get("headers") or {}).items()}
    given = headers.get("x-correlation-id", "")
    asked = str(event.get("requestContext", {}).get("requestId") or "unknown")
    path = gateway.path_of(event)
    route, params = router.match(path) or ("", {})
    request = Request(
        method=gateway.method_of(event),
        path=path,
        route=route,
        headers=headers,
        query={},
        body=b"",
        correlation=given if _CORRELATION.fullmatch(given) else asked,
    )
    return request, params


def _method(request: Request, served: Container[str], allowed: Sequence[str]) -> str:
    """The registered method that serves the request: HEAD is served by GET."""
    if request.method in served:
        return request.method
    if request.method == "HEAD" and "GET" in served:
        return "GET"
    raise MethodNotAllowed(
        f"{request.method[:20]} is not allowed here", remedy=f"use {', '.join(allowed)}", allowed=allowed
    )


def _operation(app: Chalice, request: Request) -> str:
    """Name in logs and metrics: one of few, whatever is sent."""
    known = request.method in app.routes.get(request.route, ()) or request.method == "HEAD"
    return f"{request.method} {request.route}" if request.route and known else "unknown"


def _check_media_type(request: Request) -> None:
    """Refuse what a browser could send from a foreign page without asking first (an open local stack has no token)."""
    media = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if media != JSON:
        raise UnsupportedMediaType(
            f"the body must be declared as {JSON}, not {media or 'nothing'}",
            field="Content-Type",
            remedy=f"send 'Content-Type: {JSON}'",
        )
