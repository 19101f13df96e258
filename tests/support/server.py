"""Servers of tests beyond the plain one: with tables on an S3 emulator, with a background that
rests, and with a clock that the test moves."""

from __future__ import annotations

import io
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import httpx
import pytest

from turnstile.api.services import Services
from turnstile.catalog.services import ensure
from turnstile.delta.publish import Publisher
from turnstile_server import Server
from turnstile_server.settings import ServerSettings

REGION = "us-east-1"
LAKE = "s3://lake/warehouse"
_KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


class ServerOnS3(Server):
    """A server with its tables below ``LAKE`` in an S3 emulator."""

    s3_endpoint = ""

    @property
    def env(self) -> dict[str, str]:
        """Variables that point clients of AWS at the emulator."""
        return aws_environment(self.s3_endpoint)

    def aws(self, service: str) -> Any:
        """A client of the emulator."""
        return aws_client(service, self.s3_endpoint)


def aws_environment(endpoint: str) -> dict[str, str]:
    """Variables that point clients of AWS at an emulator."""
    return {**_KEYS, "AWS_ENDPOINT_URL": endpoint, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION}


def aws_client(service: str, endpoint: str) -> Any:
    """A client of the emulator at ``endpoint``."""
    import boto3
    from botocore.config import Config

    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=_KEYS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=_KEYS["AWS_SECRET_ACCESS_KEY"],
        config=Config(s3={"addressing_style": "path"}) if service == "s3" else None,
    )


VENDING_ROLE = "arn:aws:iam::000000000000:role/vending"
"""Sessions of it are the keys that a server gives clients."""


@contextmanager
def server_on_s3(
    home: Path, endpoint: str, token: str | None = None, variables: Mapping[str, str] | None = None
) -> Iterator[ServerOnS3]:
    """A server whose S3, and STS, listen at ``endpoint``. Ends with the block."""
    s3 = aws_client("s3", endpoint)
    if "lake" not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket="lake")
    environment = {
        **_KEYS,
        "AWS_ENDPOINT_URL_S3": endpoint,
        "AWS_ENDPOINT_URL_STS": endpoint,
        "AWS_DEFAULT_REGION": REGION,
        **(variables or {}),
    }
    with ServerOnS3.start(home, 0, token, LAKE, environment=environment) as server:
        server.s3_endpoint = endpoint
        yield server


def processes(server: Server) -> dict[int, str]:
    """The name of each of its processes: ``main``, ``http``, ``background`` or ``light-work``."""
    main, *http, background, light_work = server.pids
    return {main: "main", **dict.fromkeys(http, "http"), background: "background", light_work: "light-work"}


@contextmanager
def resting_background(server: Server) -> Iterator[None]:
    """Nothing is published, swept, collected or maintained while the block runs."""
    resting = [pid for pid, name in processes(server).items() if name in ("background", "light-work")]
    while True:
        _send(resting, signal.SIGSTOP)
        if _writes(server):
            break
        _send(resting, signal.SIGCONT)  # one was stopped with the store's lock in its hands
    try:
        yield
    finally:
        _send(resting, signal.SIGCONT)


def _send(pids: list[int], signal_number: int) -> None:
    for pid in pids:
        os.kill(pid, signal_number)


def _writes(server: Server) -> bool:
    """Whether the server can write to its store: SQLite gives up after seconds."""
    with server.client(timeout=10.0) as api:
        try:
            return api.post("/v1/catalogs/main/namespaces", json={"name": "resting"}).status_code in (201, 409)
        except httpx.TimeoutException:
            return False


def alive(pid: int) -> bool:
    """Whether the process runs; False for one that has ended and was not waited for yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def is_frozen(pid: int) -> bool:
    """Returns whether every thread of a process is stopped: a signal takes a moment to reach one
    that runs."""
    stats = [file.read_text().rpartition(")")[2].split()[0] for file in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(state == "T" for state in stats)


def children(parent: int) -> dict[int, str]:
    """The command lines of the processes that ``parent`` started, by pid."""
    commands = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == parent:
                    commands[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
    return commands


# -- weeks pass at once ------------------------------------------------------------------------------------------------

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
    """A test's handles: ``url``, ``clock``, ``services`` and ``publish``; ``before_request`` is
    called before each request is answered."""

    before_request: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, url: str, clock: MovingClock, services: Services) -> None:
        self.url = url
        self.clock = clock
        self.services = services

    def begin(self, catalog: str) -> None:
        """The clock is right again, and there is a new catalog, which knows of no later time."""
        self.clock.ahead_ms = 0
        ensure(self.services.world, catalog, lake_root=self.services.settings.lake_root)

    def days(self, count: float) -> None:
        """That many days pass."""
        self.clock.ahead_ms += int(count * DAY_MS)

    def publish(self, table_id: str) -> None:
        """The work of a server's background."""
        Publisher(self.services.world, self.services.limits).publish(table_id)


@contextmanager
def moving_server(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    lake: str = "",
    variables: Mapping[str, str] | None = None,
) -> Iterator[MovingServer]:
    """A server on SQLite in ``home``, with its tables beside it or below ``lake``. Ends with the
    block.

    Without ``variables`` its API is open.
    """
    from turnstile_server.apps import read_settings
    from turnstile_server.http import Application
    from turnstile_server.world import open_store

    for name, value in (variables or {"TURNSTILE_AUTHENTICATION": "none"}).items():
        monkeypatch.setenv(name, value)
    settings = ServerSettings(str(home), lake_root=lake or f"file://{home}/lake", runtime=str(home))
    clock = MovingClock()
    with closing(open_store(settings)) as store:
        world = replace(store.world, clock=clock)
        ensure(world, lake_root=settings.lake_root)
        application = Application(settings, replace(store, world=world))

        def bounded(environ: dict[str, Any], start: Any) -> Any:
            """wsgiref's input does not end with the body."""
            server.before_request()
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            return application({**environ, "wsgi.input": io.BytesIO(body)}, start)

        http = make_server("127.0.0.1", 0, bounded, _Threaded, _Silent)
        url = f"http://127.0.0.1:{http.server_port}"
        server = MovingServer(url, clock, Services(world, read_settings(settings)))
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            http.server_close()
            thread.join()
