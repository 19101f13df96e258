"""HTTP API events (payload 2.0) for Chalice, which reads payload 1.0, and its answers back.

An HTTP API decodes every escape of ``rawPath`` except ``%25``; a function URL decodes none. Decoding a parameter once
is therefore right for both.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit
from chalice.app import Chalice, Response

from turnstile.access.core.grants import ANONYMOUS
from turnstile.api.auth.bearer import Authentication
from turnstile.api.http import errors
from turnstile.api.http.answers import JSON, to_response
from turnstile.api.http.errors import MethodNotAllowed, NoSuchRoute, UnsupportedMediaType
from turnstile.api.http.request import BodyLimit, Request, activate, body_of, query_of
from turnstile.store.core.errors import TurnstileError


def path_of(event: Mapping[str, Any]) -> str:
    """The path below the stage; extra leading slashes count as one, as the gateway's own routing has it."""
    path = "/" + str(event.get("rawPath") or "").lstrip("/")
    stage = str(event.get("requestContext", {}).get("stage") or "$default")
    prefix = f"/{stage}/"
    return path[len(prefix) - 1 :] if stage != "$default" and path.startswith(prefix) else path


def method_of(event: Mapping[str, Any]) -> str:
    """The request's method in capitals."""
    return str(event.get("requestContext", {}).get("http", {}).get("method") or "GET").upper()


def to_chalice(request: Request, params: Mapping[str, str], method: str) -> dict[str, Any]:
    """The event Chalice routes by. Body and query stay in ``Request``; views read them there, typed."""
    return {
        "requestContext": {"resourcePath": request.route, "httpMethod": method, "path": request.path},
        "multiValueQueryStringParameters": None,
        "headers": {},
        "pathParameters": dict(params),
        "body": None,
        "stageVariables": None,
    }


def to_gateway(answer: Mapping[str, Any], *, head: bool = False) -> dict[str, Any]:
    """Chalice's answer in payload 2.0; HEAD keeps status and headers only."""
    body = "" if head or answer["statusCode"] == 204 else str(answer.get("body") or "")
    return {
        "statusCode": answer["statusCode"],
        "headers": dict(answer.get("headers") or {}),
        "body": body,
        "isBase64Encoded": False,
    }


# -- routing ----------------------------------------------------------------------------------------------------------
# Which route a path belongs to.
#
# The gateway's own match is not used: a ``$default`` route, a function URL and a stage prefix then all behave alike,
# and an unknown path is answered in our error shape.


class Router:
    """Matches paths against templates such as ``/v1/tables/{table_id}``; literal segments win over parameters."""

    def __init__(self, templates: Iterable[str]) -> None:
        ordered = sorted(templates, key=lambda template: (template.count("{"), template))
        self._routes = [(template, _pattern(template)) for template in ordered]

    def match(self, path: str) -> tuple[str, dict[str, str]] | None:
        """The template and its parameters, percent-decoded exactly once, or None."""
        for template, pattern in self._routes:
            found = pattern.fullmatch(path)
            if found:
                return template, {name: unquote(value) for name, value in found.groupdict().items()}
        return None


def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", template)
    return re.compile(
        "".join(re.escape(part) if i % 2 == 0 else f"(?P<{part}>[^/]+)" for i, part in enumerate(parts)), re.DOTALL
    )


# -- routes -----------------------------------------------------------------------------------------------------------
# Which function serves which route. Tests hold the apps, template.yaml and openapi/v1.yaml to these.


_UNITY: Final = "/api/2.1/unity-catalog"
_TABLES: Final = "/v1/catalogs/{catalog}/namespaces/{namespace}/tables"

COMMIT: Final[dict[str, tuple[str, ...]]] = {
    "/v1": ("GET",),
    "/v1/tables/{table_id}/commits": ("GET", "POST"),
    "/v1/tables/{table_id}/head": ("GET",),
    "/v1/tables/{table_id}/outcome": ("GET",),
    f"{_TABLES}/{{table}}": ("GET",),
    f"{_UNITY}/delta/preview/commits": ("GET", "POST"),
    f"{_UNITY}/delta/v1/config": ("GET",),
    f"{_UNITY}/delta/v1/catalogs/{{catalog}}/schemas/{{schema}}/tables/{{table}}": ("GET", "HEAD", "POST"),
}

TOKENS: Final[dict[str, tuple[str, ...]]] = {
    "/v1/clients": ("GET", "POST"),
    "/v1/clients/{client_id}": ("DELETE", "GET"),
    "/v1/clients/{client_id}/rotate": ("POST",),
    "/oauth/token": ("POST",),
    "/api/1.0/unity-control/auth/tokens": ("POST",),
}


# -- telemetry --------------------------------------------------------------------------------------------------------
# One structured log line and one EMF line a request.


NAMESPACE = "Turnstile"


class Telemetry:
    """Writes what happened to a request.

    Args:
        service: the function's name; a dimension of every metric.
    """

    def __init__(self, service: str) -> None:
        self._service = service
        self._logger = Logger(service=service, location=None)  # always this line
        self._cold = True

    def record(self, operation: str, status: int, duration_ms: float, fault: BaseException | None, **more: Any) -> None:
        """Log the request and count it. ``fault`` is what was not foreseen; it is logged with its traceback.

        Only few values of ``operation`` exist (route templates), so that metrics stay cheap.
        """
        write = self._logger.error if fault is not None else self._logger.info
        write(
            f"{operation} {status}",
            exc_info=fault,
            operation=operation,
            status=status,
            duration_ms=round(duration_ms, 2),
            cold_start=self._cold,
            **more,
        )
        self._cold = False
        metrics = EphemeralMetrics(namespace=NAMESPACE, service=self._service)
        metrics.add_dimension("operation", operation)
        metrics.add_metric("duration", MetricUnit.Milliseconds, duration_ms)
        metrics.add_metric("refused", MetricUnit.Count, 1 if 400 <= status < 500 else 0)
        metrics.add_metric("failed", MetricUnit.Count, 1 if status >= 500 else 0)
        metrics.flush_metrics()


# -- handler ----------------------------------------------------------------------------------------------------------
# A Chalice app as a Lambda handler behind an HTTP API.
#
#     event -> Request -> principal -> route -> view -> answer or error -> event, and one log line, whatever happens.
#
# Errors become answers in one place; Chalice's own error bodies are never reached.


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
        found: dict[str, Any] = app(to_chalice(request, params, method), None)
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
        return to_gateway(answered, head=request.method == "HEAD")

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
    path = path_of(event)
    route, params = router.match(path) or ("", {})
    request = Request(
        method=method_of(event),
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
