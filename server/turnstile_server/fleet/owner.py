"""The process of a fleet's member that applies changes of the catalogs whose granules it owns, and
commits of hot tables; and the servers' side of forwarding.

All forwarded changes of a catalog meet in one process, and share swaps of the catalog's HEAD
(``catalog.changes.group_commit``). Commits of a table that gets many of them share its writes
(``delta.ratify``). A server authenticates a request and forwards it. It applies the change
itself if it is not sure of the owner, or the owner does not answer (``fleet.core.forwarded``). The
owner checks the caller's token and rights once more, and trusts no other process.
"""

from __future__ import annotations

import gc
import io
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import msgspec

from turnstile.api.auth.bearer import Authentication
from turnstile.api.http.handler import App, Incoming
from turnstile.api.http.request import IDEMPOTENCY_KEY, BodyLimit
from turnstile.api.http.responses import Response
from turnstile.fleet.core.forwarded import (
    Failed,
    ForwardedRequest,
    ForwardedResponse,
    Then,
    after_applying,
    after_asking,
)
from turnstile.fleet.core.owners import Address, Owners, Rates
from turnstile.store.core.errors import OutcomeUnknown, TurnstileError
from turnstile_server.apps import open_apps, read_body
from turnstile_server.children import end_with_parent
from turnstile_server.fleet.forwarding import Listener, OwnerClient, OwnersFile, Subject, subject_of
from turnstile_server.settings import ServerSettings
from turnstile_server.telemetry import logs, metrics
from turnstile_server.world import open_store, waker

AVOID_MS: Final = 1_000
"""How long an owner that did not answer is not asked again."""

SWITCH_S: Final = 0.001
"""How long one thread of the owner computes while others wait: all requests wait for the one that
leads their group."""

log = logging.getLogger("turnstile.owner")


class OwnersReader(Protocol):
    """The file from which a server reads its background's cache of owners."""

    def read(self) -> Owners: ...


def monotonic_ms() -> int:
    """Returns the time by the machine's clock that never steps back (ms)."""
    return time.monotonic_ns() // 1_000_000


class _ReadOnce:
    """Reads a body once, and returns the same bytes, or raises the same refusal, on each later
    read."""

    def __init__(self, read: Callable[[BodyLimit | None], bytes]) -> None:
        self._read = read
        self._result: bytes | TurnstileError | None = None

    def __call__(self, limit: BodyLimit | None) -> bytes:
        if self._result is None:
            try:
                self._result = self._read(limit)
            except TurnstileError as error:
                self._result = error
        if isinstance(self._result, TurnstileError):
            raise self._result
        return self._result


class Forwarding:
    """Asks owners for the changes that this process receives. Safe for threads."""

    def __init__(
        self, owners: OwnersReader, authentication: Authentication, *, asker: OwnerClient | None = None,
        clock_ms: Callable[[], int] = monotonic_ms,
    ) -> None:  # fmt: skip
        """
        Args:
            clock_ms: the machine's monotonic clock, by which cached owners expire.
        """
        self._owners = owners
        self._authentication = authentication
        self._asker = asker or OwnerClient()
        self._clock_ms = clock_ms
        self._metrics = metrics.ForwardingMetrics()
        self._avoided: dict[Address, int] = {}
        self._rates = Rates()
        self._rates_mutex = threading.Lock()

    def answer(self, app: App, incoming: Incoming) -> Response:
        """Returns the response to a request for which ``app`` has a route: by its owner, or by this
        process."""
        subject = subject_of(incoming.method, *app.route_of(incoming.path))
        if subject is None:
            return app.answer(incoming)
        address = self._owner(subject)
        if address is not None:
            incoming = msgspec.structs.replace(incoming, read=_ReadOnce(incoming.read))
        asked = None if address is None else self._forwarded_request(app, incoming)
        if address is None or asked is None:
            return app.answer(incoming)
        outcome = self._ask(address, asked)
        has_key = bool(incoming.headers.get(IDEMPOTENCY_KEY.lower(), "")) if not subject.is_table else subject.is_commit
        then = after_asking(outcome, has_key=has_key)
        if isinstance(outcome, ForwardedResponse) and then is Then.ANSWER:
            self._metrics.count("answered")
            return Response(outcome.status, outcome.headers, outcome.body)
        if then is Then.HERE:
            response = app.answer(incoming)
            then = after_applying(outcome, response.status, is_commit=subject.is_commit)
        if then is Then.HERE:
            self._metrics.count("applied here")
            return response
        self._metrics.count("unknown")
        return app.refuse(incoming, OutcomeUnknown("the server that applies the change did not answer"))

    def _ask(self, address: Address, request: ForwardedRequest) -> ForwardedResponse | Failed:
        try:
            return self._asker.ask(address, request)
        except Failed as failed:
            self._avoid(address, failed)
            return failed

    def _owner(self, subject: Subject) -> Address | None:
        now_ms = self._clock_ms()
        if subject.is_table and not self._is_hot(subject, now_ms):
            return None
        address = self._owners.read().of(subject.name, now_ms)
        return None if address is None or self._avoided.get(address, 0) > now_ms else address

    def _is_hot(self, subject: Subject, now_ms: int) -> bool:
        with self._rates_mutex:
            return self._rates.note(subject.name, now_ms)

    def _forwarded_request(self, app: App, incoming: Incoming) -> ForwardedRequest | None:
        """The request as the owner gets it; None for one that is refused here."""
        try:
            self._authentication.principal(incoming.headers.get("authorization", ""), {})
            body = incoming.read(app.bodies)
        except TurnstileError:
            return None
        return ForwardedRequest(incoming.method, incoming.path, incoming.query, dict(incoming.headers), body)

    def _avoid(self, address: Address, failed: Failed) -> None:
        log.warning("an owner did not answer: %s", failed)
        now_ms = self._clock_ms()
        self._avoided = {other: until for other, until in self._avoided.items() if until > now_ms}
        self._avoided[address] = now_ms + AVOID_MS


def answering(apps: tuple[App, ...]) -> Callable[[ForwardedRequest], ForwardedResponse]:
    """Returns the app that answers forwarded requests."""

    def answer(asked: ForwardedRequest) -> ForwardedResponse:
        def read(limit: BodyLimit | None) -> bytes:
            return read_body(io.BytesIO(asked.body), limit)

        app = next((app for app in apps if app.serves(asked.path, asked.method)), apps[1])
        response = app.answer(Incoming(asked.method, asked.path, asked.query, asked.headers, read))
        return ForwardedResponse(response.status, dict(response.headers), response.body)

    return answer


def owners_file(settings: ServerSettings) -> OwnersFile:
    """Returns the file by which a server's processes know the owners."""
    return OwnersFile(Path(settings.runtime) / "owners")


def main() -> None:
    """Runs the process until SIGTERM, or until the server's main process has ended."""
    settings = ServerSettings.from_environment()
    logs.configure("owner")
    end_with_parent()
    metrics.start(settings)
    store = open_store(settings, waker(settings.wake_socket), create=False)
    apps = open_apps(settings, store)
    address = settings.fleet_address
    assert address is not None, "a server without an address has no such process"
    listener = Listener(settings.host, address.port, address.secret, answering(apps))
    signal.signal(signal.SIGTERM, lambda *_: _close(listener))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process ends this one
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()
    listener.run()
    store.close()


def _close(listener: Listener) -> None:
    threading.Thread(target=listener.close, name="close", daemon=True).start()
