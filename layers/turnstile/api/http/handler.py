"""An HTTP app: from a gateway's event to a request, a view, and a response.

    Incoming -> Request -> principal -> route -> view -> result or error -> response, and one log
    line in any case.

An app is a Lambda handler behind an HTTP API, with events of payload 2.0, or behind a REST API
(``rest``); a server calls ``answer`` itself. Chalice's blueprints hold the routes, and an app's
table of them is Chalice's. Views are called directly: Chalice itself reads payload 1.0 and answers
errors in a shape of its own.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import Any, Final, Protocol
from urllib.parse import unquote

import msgspec
from aws_lambda_powertools import Logger
from chalice.app import Blueprint, Chalice

from turnstile.api.auth.bearer import Authentication
from turnstile.api.figures import RequestFigures, detail
from turnstile.api.http.env import starts_ahead, starts_as_snapshot
from turnstile.api.http.request import BodyLimit, Request, answering, body_of, query_of
from turnstile.api.http.responses import (
    JSON,
    Answer,
    MethodNotAllowed,
    NoSuchRoute,
    Render,
    Response,
    UnsupportedMediaType,
    brief,
    render,
)
from turnstile.store.core.errors import ErrorType, TooLarge, TurnstileError, UnreadableRow
from turnstile.store.core.limits import RESPONSE_BYTES_MAX, escaped_size

Event = Mapping[str, Any]

Routes = dict[str, dict[str, Any]]
"""Template -> method -> Chalice's entry, which has the view."""

_CORRELATION: Final = re.compile(r"[\w.:/=+-]{1,128}", re.ASCII)


class Incoming(msgspec.Struct, frozen=True):
    """A raw request.

    ``headers`` have lower-case names; ``path`` is that of ``path_of``; ``query`` the text after the
    question mark; ``read`` returns the body, and raises as ``request.body_of``; ``rest`` is entered
    by a view that waits for other work; ``context`` is the gateway's ``requestContext``, with the
    results of its authorizer, and empty if there is none.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    read: Callable[[BodyLimit | None], bytes]
    context: Mapping[str, Any] = {}
    rest: Callable[[], AbstractContextManager[None]] = nullcontext


class Telemetry(Protocol):
    """Logs and counts requests."""

    def record(self, operation: str, status: int, duration_ms: float, fault: BaseException | None, **more: Any) -> None:
        """Logs the request and counts it. ``operation`` is one of a few names for any request;
        ``fault`` is an unexpected exception."""
        ...


class Later(msgspec.Struct, frozen=True):
    """Routes ``below`` some paths, or with a path that ends so, that are imported at the first
    request for one of them."""

    below: tuple[str, ...]
    blueprints: Callable[[], Iterable[Blueprint]]
    ends: tuple[str, ...] = ()

    def covers(self, path: str) -> bool:
        """Whether a request for ``path`` may need these routes."""
        return path.startswith(self.below) or path.endswith(self.ends)


class App:
    """The handler of one function, or of one part of a server.

    Args:
        service: name in logs and metrics.
        blueprints: their views take their path parameters, read the rest with ``body`` and
            ``Query``, return a value of a type in ``responses``, and raise ``TurnstileError``.
        services: opens the services, which views get as ``current().services``; called once.
        public: routes for callers without a bearer token. Their views identify the caller and the
            type of the body.
        slashed: the path parameters that may hold slashes (``Router``).
        later: further routes; a start that no request waits for imports all of them at once
            (``start``). Not for a server: its threads would import them at the same time.
        elsewhere: the routes of the other apps, for the app that gets each request without a route
            at the gateway: it can tell a wrong method (405) from a wrong path (404). Called when a
            request has no route here.
        renders: how errors are rendered below a path that is not our own API's (``/api/...``).
        media: the types of body that the views take.
        telemetry: logs and counts requests; by default log lines and metrics as Lambda takes them.
        answer_bytes: of the largest answer to a GET; by default Lambda's limit.
    """

    def __init__(
        self,
        service: str,
        *blueprints: Blueprint,
        services: Callable[[], Any],
        authentication: Authentication,
        public: Container[str] = (),
        slashed: Container[str] = (),
        later: Iterable[Later] = (),
        elsewhere: Callable[[], Iterable[Routes]] = tuple,
        renders: Mapping[str, Render] | None = None,
        bodies: BodyLimit | None = None,
        media: Collection[str] = (JSON,),
        telemetry: Telemetry | None = None,
        answer_bytes: int | None = None,
    ) -> None:
        self._blueprints = blueprints
        self._later = tuple(later)
        self._slashed = slashed
        self._serve(*blueprints)
        self._telemetry = telemetry or LambdaTelemetry(service)
        self.public = public
        self._open = services
        self._authentication = authentication
        self._elsewhere = elsewhere
        self._renders = renders or {}
        self._bodies = bodies
        self._media = media
        self._answer_bytes = answer_bytes

    @functools.cached_property
    def services(self) -> Any:
        return self._open()

    @property
    def routes(self) -> Routes:
        """All routes."""
        self._import_later(*self._later)
        return self._routes

    def start(self) -> None:
        """Opens the services before the first request, so that a bad setting shows; and imports all
        routes if no request waits for this start. Call ``services.begin_anew`` first in a process
        that continues from a snapshot of this start.
        """
        if starts_ahead():
            self._import_later(*self._later)
        services = self.services
        if starts_as_snapshot():
            from snapshot_restore_py import register_after_restore

            register_after_restore(services.begin_anew)

    def _serve(self, *blueprints: Blueprint) -> None:
        self._blueprints = blueprints
        self._routes = routes_of(*blueprints)
        self._router = Router(self._routes, self._slashed)

    def _import_later(self, *parts: Later) -> None:
        if parts:
            self._serve(*self._blueprints, *chain(*(part.blueprints() for part in parts)))
            self._later = tuple(part for part in self._later if part not in parts)

    def _match(self, path: str) -> tuple[str, dict[str, str]] | None:
        if self._later and (parts := [part for part in self._later if part.covers(path)]):
            self._import_later(*parts)
        return self._router.match(path)

    def serves(self, path: str, method: str) -> bool:
        """Returns whether a view of this app has the path and the method."""
        match = self._match(path)
        return match is not None and self._serves(match[0], method)

    @property
    def bodies(self) -> BodyLimit | None:
        """How large bodies may be."""
        return self._bodies

    def route_of(self, path: str) -> tuple[str, dict[str, str]]:
        """Returns the template that has the path, and its parameters; an empty one where none
        has."""
        return self._match(path) or ("", {})

    def refuse(self, incoming: Incoming, error: TurnstileError) -> Response:
        """Returns the response to a request that is refused before any view sees it."""
        request, _ = self._request(incoming)
        response = self._refusal(error, request)
        response.headers["X-Correlation-Id"] = request.correlation
        self._telemetry.record(self._operation(request), response.status, 0.0, None, **request.notes)
        return response

    def __call__(self, event: Event, _context: Any) -> dict[str, Any]:
        incoming = incoming_of(event)
        return to_gateway(self.answer(incoming), head=incoming.method == "HEAD")

    def answer(self, incoming: Incoming) -> Response:
        """Returns the response in every case; to HEAD with a body, which is not to be sent."""
        started = time.perf_counter()
        request, params = self._request(incoming)
        fault: Exception | None = None
        try:
            response = self._answer(incoming, request, params)
        except Exception as error:
            refusal = brief(error if isinstance(error, TurnstileError) else TurnstileError(str(error)))
            fault = error if refusal.type == ErrorType.INTERNAL_ERROR else None
            response = self._refusal(refusal, request)
        response.headers["X-Correlation-Id"] = request.correlation
        duration_ms = (time.perf_counter() - started) * 1000
        notes = {"correlation_id": request.correlation, **request.notes}
        self._telemetry.record(self._operation(request), response.status, duration_ms, fault, **notes)
        return response

    def _request(self, incoming: Incoming) -> tuple[Request, dict[str, str]]:
        """The request without query and body, which are read after authentication; and its path
        parameters."""
        correlation = incoming.headers.get("x-correlation-id", "")
        if not _CORRELATION.fullmatch(correlation):
            correlation = str(incoming.context.get("requestId") or "unknown")
        path = incoming.path
        route, params = self._match(path) or Router(chain(*self._elsewhere())).match(path) or ("", {})
        headers = incoming.headers
        method = incoming.method
        return Request(method, path, route, headers, query={}, body=b"", correlation=correlation), params

    def _answer(self, incoming: Incoming, request: Request, params: Mapping[str, str]) -> Response:
        is_public = request.route in self.public
        if not is_public:
            authorization = request.headers.get("authorization", "")
            request.principal = self._authentication.principal(authorization, incoming.context)
            request.notes["principal"] = request.principal.name
        view = self._view(request)
        request.query = query_of(incoming.query)
        request.body = incoming.read(self._bodies)
        if request.body and request.method not in ("GET", "HEAD") and not is_public:
            _check_media_type(request, self._media)
        request.services = self.services
        request.rest = incoming.rest
        with answering(request):
            return response_of(view(**params), request.method, self._answer_bytes)

    def _view(self, request: Request) -> Callable[..., Any]:
        """The view that serves the request; HEAD is served by GET."""
        if not request.route:
            raise NoSuchRoute("no operation has this path", remedy="see docs/api.md for the paths", path=request.path)
        served = self._routes.get(request.route, {})
        entry = served.get(request.method) or (served.get("GET") if request.method == "HEAD" else None)
        if entry is None:
            allowed = sorted({*served, *chain(*(routes.get(request.route, ()) for routes in self._elsewhere()))})
            text = f"{request.method[:20]} is not allowed here"
            raise MethodNotAllowed(text, remedy=f"use {', '.join(allowed)}", allowed=allowed)
        view: Callable[..., Any] = entry.view_function
        return view

    def _refusal(self, error: TurnstileError, request: Request) -> Response:
        request.notes |= {"type": error.type, "reason": error.message}
        if isinstance(error, UnreadableRow) and not request.principal.admin:
            error = error.without_key()
        below = (own for root, own in self._renders.items() if f"{request.path}/".startswith(f"{root}/"))
        response = Response(*next(below, render)(error, request.method, request.path, request.correlation))
        if error.type == ErrorType.NOT_AUTHENTICATED:  # another token if one was sent (RFC 6750, 3.1)
            again = ', error="invalid_token"' if request.headers.get("authorization") else ""
            response.headers["WWW-Authenticate"] = 'Bearer realm="turnstile"' + again
        return response

    def _operation(self, request: Request) -> str:
        """Name in logs and metrics: one of a few for any request, so that metrics stay cheap."""
        return f"{request.method} {request.route}" if self._serves(request.route, request.method) else "unknown"

    def _serves(self, route: str, method: str) -> bool:
        methods = self._routes.get(route, {})
        return method in methods or (method == "HEAD" and "GET" in methods)


def routes_of(*blueprints: Blueprint) -> Routes:
    """Returns all routes of these blueprints; raises ValueError when two have the same."""
    routes: Routes = {}
    for blueprint in blueprints:
        for path, methods in _routes_of(blueprint).items():
            served = routes.setdefault(path, {})
            if served.keys() & methods:
                raise ValueError(f"two views serve {path}")
            served |= methods
    return routes


@functools.cache
def _routes_of(blueprint: Blueprint) -> Routes:
    """The routes of a blueprint. Registering uses up their options, so that a second time would
    give other methods; and an app writes its name into the environment, if it is not given one."""
    app = Chalice(app_name="turnstile", configure_logs=False, env={})
    app.register_blueprint(blueprint)
    routes: Routes = app.routes
    return routes


def response_of(result: Any, method: str, limit: int | None = None) -> Response:
    """Returns the response for the result of a view. Struct members that are UNSET do not appear.

    Raises:
        TooLarge: the answer to a GET is over ``limit``, by default Lambda's. A change is already
            made then, and must not be called refused. Listings end their pages before, and most
            stored values are limited so that they fit; a Delta table's schema is not, because the
            table's log decides on it.
    """
    if result is None:
        return Response(204, {}, b"")
    answer = result if isinstance(result, Answer) else Answer(result)
    body = msgspec.json.encode(answer.body)
    size = escaped_size(body) if method == "GET" else 0
    limit = RESPONSE_BYTES_MAX if limit is None else limit
    if size > limit:
        text = f"the answer would take {size} bytes, and the limit is {limit}"
        remedy = "ask for less; a Delta table's definition is in its log as well"
        raise TooLarge(text, remedy=remedy, limit=limit, size=size)
    return Response(answer.status, {"Content-Type": JSON, **answer.headers}, body)


def _check_media_type(request: Request, known: Collection[str]) -> None:
    """Refuses requests that a browser could send from a foreign page without asking first (an open
    local stack has no token)."""
    media = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if media not in known:
        text = f"the body must be declared as {' or '.join(sorted(known))}, not {media or 'nothing'}"
        raise UnsupportedMediaType(text, field="Content-Type", remedy=f"send 'Content-Type: {JSON}'")


# -- the gateway's events, payload 2.0 ---------------------------------------------------------------------------------
# An HTTP API decodes every escape of ``rawPath`` except ``%25``; a function URL decodes none.
# Decoding a parameter once is therefore right for both.


def incoming_of(event: Event) -> Incoming:
    """Returns the raw request of a gateway's event."""
    if "httpMethod" in event:  # a private API's; a function of a public one starts without this
        from turnstile.api.http.rest import as_http_api

        event = as_http_api(event)
    return Incoming(
        method=method_of(event),
        path=path_of(event),
        query=str(event.get("rawQueryString") or ""),
        headers={str(name).lower(): str(value) for name, value in (event.get("headers") or {}).items()},
        read=functools.partial(body_of, event),
        context=event.get("requestContext", {}),
    )


def path_of(event: Event) -> str:
    """Returns the path below the stage; extra leading slashes count as one, as in the gateway's own
    routing."""
    path = "/" + str(event.get("rawPath") or "").lstrip("/")
    stage = str(event.get("requestContext", {}).get("stage") or "$default")
    return path.removeprefix(f"/{stage}") if stage != "$default" and path.startswith(f"/{stage}/") else path


def method_of(event: Event) -> str:
    """Returns the method in capitals."""
    return str(event.get("requestContext", {}).get("http", {}).get("method") or "GET").upper()


def to_gateway(response: Response, *, head: bool = False) -> dict[str, Any]:
    """Returns the response in payload 2.0; HEAD keeps status and headers only."""
    return {
        "statusCode": response.status,
        "headers": response.headers,
        "body": "" if head or response.status == 204 else response.body.decode(),
        "isBase64Encoded": False,
    }


# -- routing ----------------------------------------------------------------------------------------------------------
# The gateway's own match is not used: a ``$default`` route, a function URL and a stage prefix then
# all behave alike, and an unknown path is answered in our error shape.


_PATHS: Final = 1024
_PATH_CHARS: Final = 512
"""How many matches are remembered, and of which paths: few tables have most of the requests."""


class Router:
    """Matches paths against templates such as ``/v1/tables/{table_id}``; literal segments win over
    parameters.

    A gateway may have decoded the slash in a parameter of the routes in ``slashed``. So for a path
    that matches nothing these may be several segments, none of which is a literal of a template:
    then there is at most one way to match.
    """

    def __init__(self, templates: Iterable[str], slashed: Container[str] = ()) -> None:
        ordered = sorted(templates, key=lambda template: (template.count("{"), template))
        self._routes = [(template, _pattern(template)) for template in ordered]
        self._slashed = slashed
        self._remembered = functools.lru_cache(_PATHS)(self._match)

    @functools.cached_property
    def _slashed_routes(self) -> list[tuple[str, re.Pattern[str]]]:
        templates = [template for template, _ in self._routes]
        literals = sorted({part for template in templates for part in template.split("/") if part and "{" not in part})
        segment = f"(?!(?:{'|'.join(map(re.escape, literals))})(?:/|\\Z))[^/]+"
        several = f"(?:{segment}(?:/{segment})+|[^/]+)"
        slashed = [template for template in templates if any(name in self._slashed for name in _names(template))]
        return [(template, _pattern(template, self._slashed, several)) for template in slashed]

    def match(self, path: str) -> tuple[str, dict[str, str]] | None:
        """The template and its parameters, percent-decoded exactly once, or None."""
        return self._remembered(path) if len(path) <= _PATH_CHARS else self._match(path)

    def _match(self, path: str) -> tuple[str, dict[str, str]] | None:
        for template, pattern in chain(self._routes, self._slashed_routes if self._slashed else ()):
            if match := pattern.fullmatch(path):
                return template, {name: unquote(value) for name, value in match.groupdict().items()}
        return None


def _names(template: str) -> list[str]:
    return re.findall(r"\{(\w+)\}", template)


def _pattern(template: str, slashed: Container[str] = (), several: str = "") -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", template)
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = [f"(?P<{name}>{several if name in slashed else '[^/]+'})" for name in parts[1::2]]
    return re.compile("".join(parts), re.DOTALL)


class LambdaTelemetry:
    """Writes one structured log line a request, and its figures as metrics where all are wanted
    (``figures``)."""

    def __init__(self, service: str) -> None:
        self._cold = True
        self._figures = RequestFigures(service) if detail() == "all" else None
        self._logger = Logger(service=service, location=None)  # always this line

    def record(self, operation: str, status: int, duration_ms: float, fault: BaseException | None, **more: Any) -> None:
        """``Telemetry``; a ``fault`` is logged with its traceback."""
        write = self._logger.error if fault is not None else self._logger.info
        more |= {"operation": operation, "status": status, "duration_ms": round(duration_ms, 2)}
        write(f"{operation} {status}", exc_info=fault, cold_start=self._cold, **more)
        self._cold = False
        if self._figures is not None:
            self._figures.record(operation, status, duration_ms, more.get("rows"))
