"""The embedded stack as an object: start it, stop it, and read the address and keys that a client
needs."""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import httpx
from botocore.exceptions import BotoCoreError, ClientError

from turnstile_local import launch
from turnstile_local.deployment import Deployment, aws_client
from turnstile_local.errors import AlreadyRunning, NotRunning, StackError
from turnstile_local.home import Layout, StackState
from turnstile_local.settings import HOST, Keys, client_environment
from turnstile_server.home import hold_lock, is_locked

DEFAULT_HOME: Final = ".turnstile"
DEFAULT_PORT: Final = 8750
CATALOG: Final = "main"
NAMESPACE: Final = "default"
_BOOTSTRAP_SECONDS: Final = 40.0


class Stack:
    """A running stack. Get one with :meth:`start` or :meth:`attach`; it is a context manager that
    stops it.

    ``url`` is the one base URL: the API below ``/v1``, the emulated AWS everywhere else.
    """

    def __init__(self, layout: Layout, state: StackState, process: subprocess.Popen[bytes] | None = None) -> None:
        self._layout = layout
        self._state = state
        self._process = process

    @classmethod
    def start(
        cls,
        home: str | Path = DEFAULT_HOME,
        port: int | None = None,
        token: str | None = None,
        lake: str | None = None,
        *,
        functions: Path | None = None,
        parameters: dict[str, str] | None = None,
        roles: bool = False,
    ) -> Self:
        """Start a stack in ``home``, or find the one that runs there.

        Settings that are None stay as they are or were in this home; a new home has port 8750, no
        token and ``<home>/lake``. ``port`` 0 takes any free one. With ``token`` every request of
        the API needs it; empty opens it. ``lake`` is the root of new tables, ``s3://bucket/prefix``
        for a bucket of the emulated S3.

        For tests: ``functions`` and ``parameters`` replace functions and template parameters,
        ``roles`` makes the emulator hold every function to its role.

        Raises:
            PortTaken: another program listens on the port.
            AlreadyRunning: the stack of this home runs with other settings.
            StackError: it could not be started or deployed; the message has the end of the log.
        """
        layout = Layout.at(home)
        settings = StackSettings(port, token, lake, functions, parameters or {}, roles)
        return cls(layout, *_start_or_find(layout, settings))

    @classmethod
    def attach(cls, home: str | Path = DEFAULT_HOME) -> Self:
        """The stack that runs in ``home``; raises NotRunning."""
        layout = Layout.at(home)
        state = StackState.read(layout)
        if state is None or not is_locked(layout.lock):
            raise NotRunning(layout.home)
        return cls(layout, state)

    def stop(self) -> None:
        """Stop it in order: requests in flight end, state is written. Raises StackError if it had
        to be killed."""
        with hold_lock(self._layout.starting):
            if is_locked(self._layout.lock):
                launch.stop(self._layout, self._state.pid, self._process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def fresh(self) -> bool:
        """Whether this object started the stack, rather than finding it running."""
        return self._process is not None

    @property
    def url(self) -> str:
        return self._state.url

    @property
    def port(self) -> int:
        return self._state.port

    @property
    def token(self) -> str:
        """Bearer token of the API; empty when it is open."""
        return self._state.token

    @property
    def home(self) -> Path:
        return self._layout.home

    @property
    def log(self) -> Path:
        """Output of the gateway; ``functions.log`` next to it has that of the functions."""
        return self._layout.log

    @property
    def lake_root(self) -> str:
        """Root of the tables, ``file:///...`` or ``s3://...``."""
        return self._state.lake_root

    @property
    def s3_endpoint(self) -> str:
        """Endpoint of the emulated S3; use path-style addresses."""
        return self._state.url

    @property
    def env(self) -> dict[str, str]:
        """Environment variables that point AWS clients at the stack, with the key that it asks
        for."""
        return client_environment(self._state.url, self._state.aws_keys)

    @property
    def authentication(self) -> str:
        """``required`` or ``none``: whether it demands tokens."""
        return "required" if self.token else "none"

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices for users about this stack, and the findings of its start."""
        not_durable = (
            "NOT DURABLE: the emulated AWS keeps its tables in memory. If it is killed, or the machine goes down, "
            "commits that it acknowledged are lost. For data that matters use 'turnstile up' without --aws."
        )
        notices = [not_durable]
        if self._state.was_killed:
            since = "since it was started"
            if self._state.lost_since:
                since = f"after {datetime.fromtimestamp(self._state.lost_since / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
            notices.append(
                f"STATE WAS LOST: the last stack of this home was killed. What it took {since} is gone, but for "
                f"commits that "
                f"were published: {self._state.recovering} tables are 'recovering', which adopt what is in their "
                f"_delta_log "
                "and take no commits until then. 'turnstile repair --all' shows their state."
            )
        return tuple(notices)

    @property
    def is_emulated(self) -> bool:
        return True

    @property
    def pids(self) -> tuple[int, ...]:
        return (self._state.pid,)

    @property
    def started_ms(self) -> int:
        return self._state.started

    @property
    def refs_table(self) -> str:
        return self._state.refs_table

    @property
    def objs_table(self) -> str:
        return self._state.objs_table

    @property
    def state(self) -> StackState:
        """The contents of ``stack.json``."""
        return self._state

    def client(self, timeout: float = 35.0) -> httpx.Client:
        """An HTTP client of the API that carries the token; ``timeout`` in seconds. Close it."""
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=timeout, trust_env=False)

    def aws(self, service: str) -> Any:
        """A boto3 client of the emulated service."""
        return aws_client(service, self._state.url, self._state.aws_keys)


def first_bytes(home: Path, bucket: str, key: str, count: int) -> bytes | None:
    """The first ``count`` bytes of an object, None if the stack of ``home`` does not run or has no
    such object."""
    try:
        response = Stack.attach(home).aws("s3").get_object(Bucket=bucket, Key=key, Range=f"bytes=0-{count - 1}")
        return bytes(response["Body"].read())
    except (StackError, BotoCoreError, ClientError):
        return None


@dataclass(frozen=True)
class StackSettings:
    """Settings of a stack that is started. None: as it is or was in this home."""

    port: int | None = None
    token: str | None = None
    lake: str | None = None
    functions: Path | None = None
    parameters: dict[str, str] = field(default_factory=dict)
    roles: bool = False

    @property
    def lake_root(self) -> str:
        """The lake without a slash at the end; empty if it is not set."""
        return (self.lake or "").rstrip("/")


def _start_or_find(layout: Layout, settings: StackSettings) -> tuple[StackState, subprocess.Popen[bytes] | None]:
    """The running stack's state, and its process if this call started it. Raises StackError."""
    layout.create()
    with hold_lock(layout.starting):
        previous = StackState.read(layout)
        if is_locked(layout.lock):
            return _running(layout, previous, settings), None
        return _start(layout, previous, settings)


def _start(
    layout: Layout, previous: StackState | None, settings: StackSettings
) -> tuple[StackState, subprocess.Popen[bytes] | None]:
    # A token that was given once stays: a restart must not open the API silently.
    token = settings.token if settings.token is not None else previous.token if previous else ""
    root = settings.lake_root or (previous.lake_root if previous else "") or layout.lake.as_uri()
    token_keys = (previous.keys if previous else "") or f"local:{secrets.token_urlsafe(32)}"
    keys = previous.aws_keys if previous and previous.access_key else Keys.random()
    deployment = Deployment.of(root, token, token_keys, settings.functions, settings.parameters)
    outputs_kept = previous.outputs if previous and _read_text(layout.saved_digest) == deployment.digest else None
    wanted_port = DEFAULT_PORT if settings.port is None else settings.port
    process, port = launch.launch(layout, wanted_port, keys, deploys=outputs_kept is None, roles=settings.roles)
    url = f"http://{HOST}:{port}"
    try:
        outputs = deployment.carry_out(url, keys, outputs_kept, lambda: launch.wait_ready(process, layout, port))
        layout.deployment_digest.write_text(deployment.digest)
        lost = _resume_after_kill(layout, url, keys, outputs) if layout.recovery_marker.exists() else None
        if token or deployment.is_open:  # otherwise only an external issuer's token could create anything
            _bootstrap(url, token)
        if outputs_kept is None:
            launch.save(url, keys)
    except BaseException:
        launch.stop(layout, process.pid, process)
        raise
    now = int(time.time() * 1000)
    fresh = StackState(
        pid=process.pid, port=port, url=url, token=token, lake_root=root, started=now, outputs=outputs, keys=token_keys,
        access_key=keys.access_key, secret_key=keys.secret_key,
        was_killed=lost is not None, lost_since=lost.since_ms if lost else 0, recovering=lost.tables if lost else 0,
    )  # fmt: skip
    fresh.write(layout)
    return fresh, process


class _Lost(NamedTuple):
    """``since_ms`` when the tables were written for the last time, 0 if never; ``tables`` how many
    were marked recovering."""

    since_ms: int
    tables: int


def _resume_after_kill(layout: Layout, url: str, keys: Keys, outputs: dict[str, str]) -> _Lost:
    """Stops every table until its log has been looked at, then serves the API and begins to look.
    Raises StackError."""
    functions = aws_client("lambda", url, keys)
    try:
        response = functions.invoke(FunctionName=outputs["SweepFunction"], Payload=b'{"restored": true}')
        answer = json.loads(response["Payload"].read())
        tables = int(answer["restored"])
    except (BotoCoreError, ClientError, ValueError, KeyError, TypeError) as error:
        raise StackError(
            f"the last stack of {layout.home} was killed, and its tables could not be stopped: {error!r}",
            remedy="look at log/functions.log in the stack's home, and start again",
            kind="RecoveryFailed",
        ) from error
    launch.open_api(url, keys)
    since_ms = int(layout.recovery_marker.stat().st_mtime * 1000) if layout.tables.exists() else 0
    layout.recovery_marker.unlink()
    functions.invoke(FunctionName=outputs["SweepFunction"], Payload=b"{}", InvocationType="Event")
    return _Lost(since_ms, tables)


def _running(layout: Layout, previous: StackState | None, settings: StackSettings) -> StackState:
    """The running stack, if it has these settings; raises AlreadyRunning if not."""
    remedy = f"stop it with 'turnstile down --home {layout.home}' first"
    if previous is None:
        raise AlreadyRunning(f"a stack runs in {layout.home} but its stack.json is gone", remedy)
    if settings.port not in (None, 0, previous.port):
        raise AlreadyRunning(f"the stack in {layout.home} runs on port {previous.port}, not {settings.port}", remedy)
    if settings.token not in (None, previous.token):
        raise AlreadyRunning(f"the stack in {layout.home} runs with another token", remedy)
    if settings.lake_root not in ("", previous.lake_root):
        raise AlreadyRunning(f"the stack in {layout.home} has its tables in {previous.lake_root}", remedy)
    return previous


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _bootstrap(url: str, token: str) -> None:
    """Creates catalog ``main`` and its namespace ``default`` unless they exist, which also warms up
    both API functions.

    Raises StackError when the API refuses for another reason than that they are there already.
    """
    headers = {"authorization": f"Bearer {token}"} if token else {}
    client = httpx.Client(base_url=url, headers=headers, timeout=_BOOTSTRAP_SECONDS, trust_env=False)
    with client as api, ThreadPoolExecutor(1) as pool:
        about = pool.submit(_request, api, "GET", "/v1")
        _create(api, "/v1/catalogs", CATALOG)
        _create(api, f"/v1/catalogs/{CATALOG}/namespaces", NAMESPACE)
        about.result()


def _create(api: httpx.Client, path: str, name: str) -> None:
    _request(api, "POST", path, {"name": name})


def _request(api: httpx.Client, method: str, path: str, body: dict[str, str] | None = None) -> None:
    """Sends the request until it is done, exists already, or is refused."""
    deadline = time.monotonic() + _BOOTSTRAP_SECONDS
    while True:
        response = api.request(method, path, json=body)
        if response.is_success or _exists(response):
            return
        # On a busy machine a cold start can take longer than the functions wait for the tables.
        if (response.status_code != 429 and response.status_code < 500) or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    raise StackError(
        f"{method} {path} of the new stack answered {response.status_code}: {response.text[:500]}",
        remedy="look at log/functions.log in the stack's home",
        kind="BootstrapFailed",
    )


def _exists(response: httpx.Response) -> bool:
    try:
        return response.status_code == 409 and response.json()["error"]["type"] == "AlreadyExists"
    except (ValueError, KeyError, TypeError):
        return False
