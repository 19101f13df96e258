"""A server in the process of the test, whose clock the test moves: weeks pass at once. Its store and its files are real."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest

from turnstile.api.services import Services
from turnstile.catalog.services import ensure
from turnstile.delta.publish import Publisher
from turnstile_server.http import Application, read_settings
from turnstile_server.settings import ServerSettings
from turnstile_server.world import open_store

DAY_MS = 86_400_000


class MovingClock:
    """The wall clock, ``ahead_ms`` of it."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms


class _Threaded(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Silent(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


class MovingServer:
    """What a test does with it: ``url``, ``clock``, ``services`` and ``publish``."""

    def __init__(self, url: str, clock: MovingClock, services: Services) -> None:
        self.url, self.clock, self.services = url, clock, services

    def begin(self, catalog: str) -> None:
        """The clock is right again, and there is a new catalog, which knows of no later time."""
        self.clock.ahead_ms = 0
        ensure(self.services.world, catalog, lake_root=self.services.settings.lake_root)

    def days(self, count: float) -> None:
        """That many days pass."""
        self.clock.ahead_ms += int(count * DAY_MS)

    def publish(self, table_id: str) -> None:
        """What the background of a server does."""
        Publisher(self.services.world, self.services.limits).publish(table_id)


@contextmanager
def moving_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MovingServer]:
    """A server on SQLite in ``home``, with its tables beside it; one in a process. Ends with the block."""
    monkeypatch.setenv("TURNSTILE_AUTHENTICATION", "none")
    settings, clock = ServerSettings(str(home), lake_root=f"file://{home}/lake"), MovingClock()
    with closing(open_store(settings)) as store:
        world = replace(store.world, clock=clock)
        ensure(world, lake_root=settings.lake_root)
        application = Application(settings, replace(store, world=world))

        def bounded(environ: dict[str, Any], start: Any) -> Any:
            """wsgiref's input does not end with the body."""
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            return application({**environ, "wsgi.input": io.BytesIO(body)}, start)

        http = make_server("127.0.0.1", 0, bounded, _Threaded, _Silent)
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        try:
            services = Services(world, read_settings(settings))
            yield MovingServer(f"http://127.0.0.1:{http.server_port}", clock, services)
        finally:
            http.shutdown()
            http.server_close()
            thread.join()
