"""A process that answers requests: a WSGI application with guards, health, figures, and the apps
that the functions deploy.

    request -> guard of Host and Origin -> /healthz, /readyz, /metrics, /conflicts, /ui or the app
    that has the route -> response

Paths arrive as an HTTP API of AWS hands them on: every escape is decoded except ``%25``
(``api.http.handler``).
"""

from __future__ import annotations

import functools
import gc
import ipaddress
import itertools
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs
from uuid import uuid4

import msgspec

from turnstile.api.auth import settings as auth_settings
from turnstile.api.auth.bearer import Authentication, authentication
from turnstile.api.console import Site
from turnstile.api.console import read_settings as console_settings
from turnstile.api.http.handler import App, Incoming
from turnstile.api.http.request import BodyLimit
from turnstile.api.http.responses import Response
from turnstile.catalog.services import ensure
from turnstile.rights.grants import Principal
from turnstile.store.core.errors import (
    PermissionDenied,
    StoreUnavailable,
    Throttled,
    TurnstileError,
)
from turnstile_server.admission import Admission, Visit
from turnstile_server.apps import open_apps, read_body
from turnstile_server.children import end_with_parent
from turnstile_server.closed import Door
from turnstile_server.console import SITE
from turnstile_server.home import Home
from turnstile_server.settings import LOOPBACK_NAMES, ServerSettings
from turnstile_server.store.health import PROBE_PAID_S, PROBE_S, StoreProbe, look
from turnstile_server.telemetry import conflicts, logs, metrics
from turnstile_server.world import OpenStore, open_store, waker

HEARTBEAT_S: Final = 15.0
"""How old the background's last sign of life may be when the server calls itself ready."""

OPEN_AGAIN_S: Final = 1.0
"""How long after a store that could not be opened it is tried again."""

GC_OBJECTS: Final = 20_000
"""New objects after which Python looks for cycles among them. A promotion of 1,000 tables makes
200,000 objects; with Python's default of 700 the collections took a third of its CPU."""

_JSON: Final = "application/json"
_STATUS: Final = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}

log = logging.getLogger("turnstile.http")

Environ = Mapping[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], Any]


class Application:
    """Answers requests. Which app answers is decided by route and method, as the gateway does for
    the functions."""

    def __init__(self, settings: ServerSettings, store: OpenStore) -> None:
        self._settings = settings
        self._store = store
        self._probe = StoreProbe(lambda: look(store), PROBE_PAID_S if store.database is None else PROBE_S)
        self._authentication: Authentication = authentication()
        self._apps = open_apps(settings, store)
        self._catalog = self._apps[1]
        self._answer: Callable[[App, Incoming], Response] = App.answer
        if settings.fleet_address is not None:
            from turnstile_server.fleet.owner import Forwarding, owners_file

            self._answer = Forwarding(owners_file(settings), self._authentication).answer
        self._public = self._apps[-1].public
        self._admission = Admission(self._authentication, settings.threads, body_s=settings.body_s)
        self._admission.watch()
        self._door = Door(Home.at(settings.home).closed_marker if settings.closed else None)
        self._guard = Guard(settings)
        self._correlation = uuid4().hex[:24]
        self._requests = itertools.count()
        self._site = Site(SITE, console_settings(required=auth_settings.read() is not None))
        self._own = {
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
            "/conflicts": self._conflicts,
        }

    def __call__(self, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        method = str(environ["REQUEST_METHOD"]).upper()
        path = _path(environ)
        refusal = self._guard.refusal(environ)
        if refusal is not None:
            return _send(start, 403, _JSON, _error(403, "Foreign", *refusal))
        own = self._own.get(path)
        if own is not None:
            return _send(start, *(own(environ) if method in ("GET", "HEAD") else _NOT_ALLOWED), head=method == "HEAD")
        headers = _headers(environ)
        if self._site.serves(path):
            return self._file(start, method, path, headers)
        if "x-correlation-id" not in headers:
            headers["x-correlation-id"] = f"{self._correlation}{next(self._requests):08x}"
        response = self._response(environ, method, path, headers)
        body = b"" if method == "HEAD" else response.body
        sent = [(name.lower(), value) for name, value in response.headers.items()]
        if response.status != HTTPStatus.NO_CONTENT:
            sent.append(("content-length", str(len(response.body))))  # also of what HEAD leaves out
        start(_STATUS[response.status], sent)
        return [body]

    def _response(self, environ: Environ, method: str, path: str, headers: dict[str, str]) -> Response:
        """The response of the API, to a request that is let in."""
        app = self._app(path, method)
        incoming = Incoming(method, path, environ.get("QUERY_STRING", ""), headers, _no_body)
        try:
            visit = self._admission.enter(headers.get("authorization", ""), functools.partial(app.refuse, incoming))
        except Throttled as error:
            return app.refuse(incoming, error)
        try:
            closed = self._door.refusal(method, app.route_of(path)[0]) if self._door.is_closed else None
            if closed is not None:
                return app.refuse(incoming, closed)
            read = functools.partial(self._read, environ, visit, path in self._public)
            rest = functools.partial(self._admission.rest, visit)
            return self._answer(app, msgspec.structs.replace(incoming, read=read, rest=rest))
        finally:
            self._admission.leave(visit)

    def _read(self, environ: Environ, visit: Visit, is_public: bool, limit: BodyLimit | None) -> bytes:
        """The body of a request, which has a turn from now on."""
        length = environ.get("CONTENT_LENGTH", "")
        if length in ("", "0") and "HTTP_TRANSFER_ENCODING" not in environ:
            self._admission.take_turn(visit)
            return b""
        admit = self._admission.read_of_stranger if is_public else self._admission.read
        size = int(length) if length.isascii() and length.isdigit() else 0
        limit = limit or BodyLimit()
        return admit(visit, functools.partial(read_body, environ["wsgi.input"]), limit, min(size, limit.bytes))

    def _file(self, start: StartResponse, method: str, path: str, headers: Mapping[str, str]) -> list[bytes]:
        response = self._site.answer(method, path, headers)
        start(_STATUS[response.status], [*response.headers.items(), ("content-length", str(len(response.body)))])
        return [b"" if method == "HEAD" else response.body]

    def _app(self, path: str, method: str) -> App:
        for app in self._apps:
            if app.serves(path, method):
                return app
        return self._catalog  # which tells a wrong method from a wrong path

    # -- about the server itself --------------------------------------------------------------------------------------

    def _healthz(self, _environ: Environ) -> tuple[int, str, bytes]:
        return 200, _JSON, b'{"status": "ok", "service": "turnstile"}'

    def _readyz(self, _environ: Environ) -> tuple[int, str, bytes]:
        """Ready: the store answers and takes writes, and the background has given a sign of
        life."""
        problem = self._probe.problem()
        problems = [] if problem is None else [problem]
        database = self._store.database
        if database is not None and database.failure is not None:
            log.error("%s", database.failure)
            problems.append(
                "the store takes no writes since its disk failed: check the disk, and start the server again"
            )
        if self._door.is_closed:
            problems.append("the server is closed: it takes no changes until 'turnstile open'")
        if not _is_fresh(self._settings):
            problems.append("publishing has given no sign of life")
        status = 503 if problems else 200
        return status, _JSON, json.dumps({"status": "not ready" if problems else "ok", "problems": problems}).encode()

    def _metrics(self, environ: Environ) -> tuple[int, str, bytes]:
        """Figures; for administrators where tokens are demanded."""
        return self._refusal(environ) or (200, metrics.CONTENT_TYPE, metrics.exposition())

    def _conflicts(self, environ: Environ) -> tuple[int, str, bytes]:
        """Conflicts of the last while, newest first, of ``?table_id=`` or all; for administrators
        as figures are."""
        refusal = self._refusal(environ)
        if refusal is not None:
            return refusal
        query = parse_qs(environ.get("QUERY_STRING", ""))
        entries = conflicts.recent(
            conflicts.folder(self._settings), conflicts.SHOWN_MAX, query.get("table_id", [""])[-1]
        )
        return 200, _JSON, json.dumps({"conflicts": entries}).encode()

    def _refusal(self, environ: Environ) -> tuple[int, str, bytes] | None:
        """The refusal of a request about the server that does not come from an administrator; None
        if it does."""
        try:
            principal: Principal = self._authentication.principal(environ.get("HTTP_AUTHORIZATION", ""), {})
            if not principal.admin:
                raise PermissionDenied("this is for administrators", remedy="send an administrator's token")
        except TurnstileError as error:
            status = 403 if isinstance(error, PermissionDenied) else 401
            return status, _JSON, _error(status, error.type, error.message, error.remedy or "")
        return None


class Guard:
    """Refuses requests that a web page of another origin, or a foreign name that resolves to this
    server, would send.

    ``Host`` must be a name of this server: a loopback name, the address it listens on, one of its
    further names, or any IP address, which no foreign name server can redirect. ``Origin`` must be
    absent or this very server.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._names = {name.lower() for name in (*LOOPBACK_NAMES, settings.host, *settings.hosts)}

    def refusal(self, environ: Environ) -> tuple[str, str] | None:
        """Returns the reason for refusing the request and the remedy; None to accept it."""
        host = str(environ.get("HTTP_HOST", ""))
        if not self._is_own(host):
            return (
                f"this server is not called {host[:100]!r}",
                "call it by its address, or start it with --allow-host NAME",
            )
        origin = environ.get("HTTP_ORIGIN")
        site = environ.get("HTTP_SEC_FETCH_SITE", "none")
        if (origin is not None and origin.partition("://")[2].lower() != host.lower()) or (
            site not in ("none", "same-origin") and environ.get("HTTP_SEC_FETCH_MODE") != "navigate"
        ):
            return "pages of another origin may not send requests here", "send requests from a program, not from a page"
        return None

    def _is_own(self, host: str) -> bool:
        name = host.lower()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.rpartition(":")[0] or name
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def create() -> Application:
    """Returns the application of a worker process, which ends when the process that started it
    does."""
    settings = ServerSettings.from_environment()
    logs.configure("http")
    end_with_parent()
    metrics.start(settings)
    store = _open_store(settings)
    application = Application(settings, store)
    gc.freeze()  # what was imported stays: no collection need look at it
    gc.set_threshold(GC_OBJECTS)
    settings.ready_file(os.getpid()).touch()
    return application


def _open_store(settings: ServerSettings) -> OpenStore:
    """Opens the store as soon as it is usable. The main process has found it usable, so a failure
    since then may end while the server runs."""
    while True:
        try:
            store = open_store(settings, waker(settings.wake_socket), create=False)
            ensure(store.world, lake_root=settings.lake_root)
        except StoreUnavailable as error:
            log.warning("a process that answers waits for the store: %s", error.message)
            time.sleep(OPEN_AGAIN_S)
        else:
            return store


def _is_fresh(settings: ServerSettings) -> bool:
    try:
        return time.time() - settings.heartbeat.stat().st_mtime < HEARTBEAT_S
    except OSError:
        return False


_NOT_ALLOWED: Final = (405, _JSON, b'{"error": {"code": 405, "type": "MethodNotAllowed", "message": "use GET"}}')


def _error(status: int, type: str, message: str, remedy: str) -> bytes:
    return json.dumps({"error": {"code": status, "type": type, "message": message, "remedy": remedy}}).encode()


def _send(start: StartResponse, status: int, media: str, body: bytes, *, head: bool = False) -> list[bytes]:
    start(_STATUS[status], [("content-type", media), ("content-length", str(len(body)))])
    return [b"" if head else body]


def _path(environ: Environ) -> str:
    path = str(environ["PATH_INFO"])
    if not path.isascii():
        path = path.encode("latin-1", "replace").decode("utf-8", "replace")
    return "/" + path.replace("%", "%25").lstrip("/")


def _headers(environ: Environ) -> dict[str, str]:
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
    if environ.get("CONTENT_TYPE"):
        headers["content-type"] = environ["CONTENT_TYPE"]
    return headers


def _no_body(_limit: BodyLimit | None) -> bytes:
    return b""
